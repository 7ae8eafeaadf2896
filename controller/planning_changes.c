/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From desired, recorded and observed to what has to be done with each subject. Pure.
 *
 *     wanted, not there            create (also if it was deleted outside of Berth)
 *     wanted, there, ours          update; replace where a field cannot change in place, or where it has failed;
 *                                  nothing where no field differs
 *     wanted, there, not ours      adopt, which a guard refuses unless the marks are ours
 *     not wanted, recorded         delete, also where nothing is there any more: the record has to go
 *     not wanted, not recorded     nothing; but delete what a run that died had begun
 *
 * The wish is what the provider's desire() makes of a manifest. Two fingerprints spare most of this work: that of the wish,
 * and that of all that the wish is made from (the source). Where they are the recorded ones, and the resource was as
 * applied when it was last seen, an offline plan compares nothing.
 */
#include "base/array.h"
#include "controller/diff.h"
#include "controller/planning.h"

#include <string.h>

/* Ours by its marks, or by our own record of that very resource if its marks were taken away. */
bool subject_is_ours(const struct subject *subject) {
        const struct observation *observed = subject->observed;

        if (observed->ownership == OWNER_SELF)
                return true;
        return observed->ownership == OWNER_NONE && subject->record && subject->record->id && observed->id &&
               strcmp(subject->record->id, observed->id) == 0;
}

static struct change *new_change(struct planning *planning, struct subject *subject, enum action action,
                                 const char *reason) {
        struct change *change = arena_alloc(planning->arena, sizeof(*change));

        *change = (struct change){
                .address = subject->address,
                .kind = subject->kind,
                .name = subject->name,
                .action = action,
                .reason = reason,
                .resource = subject->desired,
                .desired = subject->wish,
                .recorded = subject->record ? subject->record->spec : NULL,
                .observed = subject->observed,
        };
        subject->change = change;
        return change;
}

static void compare_three_ways(struct planning *planning, const struct subject *subject,
                               struct field_change **ret, size_t *ret_count) {
        struct diff_args args = {
                .desired = subject->wish,
                .recorded = subject->record ? subject->record->spec : NULL,
                .observed = subject->observed->spec,
                .recorded_only = subject->ops->recorded_only,
                .free_maps = subject->ops->free_maps,
                .key = state_secret_key(planning->args->state),
        };

        diff_fields(&args, planning->arena, ret, ret_count);
}

static bool touches(const struct field_change *fields, size_t count, const char *const *paths) {
        for (size_t i = 0; i < count; i++) {
                if (diff_path_in(fields[i].path, paths))
                        return true;
        }
        return false;
}

static void plan_existing(struct planning *planning, struct subject *subject) {
        const struct observation *observed = subject->observed;
        bool ours = subject_is_ours(subject);
        bool known = subject->record || (subject->unfinished && ours);
        enum action action = ours && known ? ACTION_UPDATE : ACTION_ADOPT;
        const char *reason = NULL;
        struct field_change *fields;
        size_t count;
        struct change *change;

        compare_three_ways(planning, subject, &fields, &count);
        /*
         * The reasons are in the order in which they matter to people; a failed resource's own, below, is said before
         * any.
         */
        if (action == ACTION_ADOPT)
                reason = ours ? "exists already, and is not in the state yet"
                              : "exists, and is not this stack's";
        else if (subject->unfinished)
                reason = "an earlier run did not finish";
        if (observed->health == HEALTH_FAILED) {
                action = ACTION_REPLACE;
                reason = arena_printf(planning->arena, "it has failed: %s",
                                      observed->health_reason ? observed->health_reason
                                                              : "no reason was given");
        } else if (action == ACTION_UPDATE && touches(fields, count, subject->ops->immutable)) {
                action = ACTION_REPLACE;
        } else if (action == ACTION_UPDATE && count == 0) {
                subject->settled = true;
                return;
        }
        change = new_change(planning, subject, action, reason);
        change->fields = fields;
        change->field_count = count;
}

static void plan_desired(struct planning *planning, struct subject *subject) {
        struct change *change;

        if (subject->observed->exists) {
                plan_existing(planning, subject);
                return;
        }
        change = new_change(planning, subject, ACTION_CREATE,
                            subject->record && !subject->unfinished ? "it is gone: deleted outside of Berth"
                                                                    : NULL);
        diff_fields(&(struct diff_args){ .desired = subject->wish }, planning->arena, &change->fields,
                    &change->field_count);
}

static void plan_undesired(struct planning *planning, struct subject *subject) {
        const char *reason = planning->args->destroy ? NULL : "not in the manifests any more";

        bool ours = subject->observed->exists && subject_is_ours(subject);

        if (!subject->record && !(subject->unfinished && ours)) {
                subject->settled = true;
                return;
        }
        /* A creation that failed because the name was taken: nothing of ours is there. */
        if (subject->record && subject->record->incomplete && !subject->record->id &&
            subject->observed->exists && !ours) {
                subject->settled = true;
                return;
        }
        if (!subject->observed->exists)
                reason = subject->unfinished ? "an earlier run did not finish it: parts may be left"
                                             : "already gone";
        new_change(planning, subject, ACTION_DELETE, reason);
}

static struct member member_of(const char *name, const struct value *value) {
        return (struct member){ .name = name, .value = value ? *value : value_null() };
}

/* What every wish depends on beside its own manifest. Another version of this program may wish for something else. */
static struct value make_context(const struct planning *planning) {
        const struct plan_args *args = planning->args;
        struct arena *arena = planning->arena;
        struct value *context = value_new_map(arena);
        uint8_t fingerprint[SHA256_SIZE];
        char hex[SHA256_HEX_SIZE];

        value_set_text(arena, context, "version", BERTH_VERSION);
        value_set_text(arena, context, "lineage", state_lineage(args->state));
        value_set_text(arena, context, "provider", args->provider_ops->name);
        value_set_text(arena, context, "stack", args->manifests->stack->name);
        value_set(arena, context, "spec", *args->manifests->stack->spec);
        value_fingerprint_exact(context, state_secret_key(args->state), fingerprint);
        digest_hex(fingerprint, sizeof(fingerprint), hex);
        return value_text(arena, hex);
}

/* The map is put together on the stack, out of the manifest's own values: it is hashed and forgotten. */
static void note_source(const struct planning *planning, struct subject *subject) {
        const struct resource *resource = subject->desired;
        const struct value name = { .type = VALUE_TEXT,
                                    .count = (uint32_t)strlen(subject->name),
                                    .text = subject->name };
        struct member members[] = {
                member_of("annotations", resource->annotations),
                member_of("context", &planning->context),
                member_of("labels", resource->labels),
                member_of("name", &name),
                member_of("spec", resource->spec),
        };
        const struct value map = { .type = VALUE_MAP,
                                   .count = sizeof(members) / sizeof(members[0]),
                                   .members = members };
        uint8_t fingerprint[SHA256_SIZE];

        value_fingerprint_exact(&map, state_secret_key(planning->args->state), fingerprint);
        memcpy(subject->source, fingerprint, sizeof(subject->source));
}

static int make_wish(struct planning *planning, struct subject *subject, struct arena *arena,
                     struct error *err) {
        const struct value *recorded;

        if (subject->record && !subject->ops->desire_ignores_record &&
            record_decode(subject->record, arena, err) < 0)
                return error_context(err, "%s", subject->address);
        recorded = subject->record ? subject->record->spec : NULL;
        if (subject->ops->desire(planning->args->provider, subject->desired, subject->observed, recorded,
                                 arena, &subject->wish, err) < 0)
                return error_context(err, "%s", subject->address);
        value_fingerprint(subject->wish, state_secret_key(planning->args->state), subject->fingerprint);
        return 0;
}

/*
 * A text that was sensitive when it was applied, and is the same still, did not drift. The record has its hash, and the
 * provider shows it as plain text, since the manifest calls it plain now.
 */
static void drop_revealed(struct planning *planning, struct drift *drift) {
        const uint8_t *key = state_secret_key(planning->args->state);
        size_t kept = 0;

        for (size_t i = 0; i < drift->field_count; i++) {
                const struct field_change *field = &drift->fields[i];
                struct value found = field->before ? *field->before : value_null();

                found.sensitive = found.type == VALUE_TEXT;
                if (!field->after || field->after->type != VALUE_SECRET ||
                    !value_equal(field->after, &found, key))
                        drift->fields[kept++] = *field;
        }
        drift->field_count = kept;
}

/* What others did beside the fields that were applied: told as drift, and by every plan, since no change follows from it. */
static void add_left(struct planning *planning, struct subject *subject, struct drift *drift) {
        const struct observation *observed = subject->observed;
        struct arena *arena = planning->arena;

        for (size_t i = 0; i < observed->left_count; i++) {
                const struct left_drift *left = &observed->left[i];

                drift->fields = array_grow(arena, drift->fields, drift->field_count, sizeof(*drift->fields));
                drift->fields[drift->field_count++] = (struct field_change){
                        .path = left->path, .before = left->before, .after = left->after, .left = left->remedy
                };
                drift->left_count++;
                plan_warn(arena, planning->plan,
                          arena_printf(arena, "%s: %s was changed outside of Berth, and stays so: %s",
                                       subject->address, left->path, left->remedy));
        }
}

/* Changes by others to fields that were applied. */
static void note_drift(struct planning *planning, struct subject *subject) {
        struct plan *plan = planning->plan;
        struct drift drift = { .address = subject->address };
        struct diff_args args = {
                .desired = subject->record->spec,
                .recorded = subject->record->spec,
                .observed = subject->observed->spec,
                .recorded_only = subject->ops->recorded_only,
                .free_maps = subject->ops->free_maps,
                .key = state_secret_key(planning->args->state),
        };

        if (subject->unfinished)
                return;
        drift.gone = !subject->observed->exists;
        if (!drift.gone)
                diff_fields(&args, planning->arena, &drift.fields, &drift.field_count);
        drop_revealed(planning, &drift);
        /* Shown as what happened: from what was applied to what is there now. */
        for (size_t i = 0; i < drift.field_count; i++) {
                const struct value *applied = drift.fields[i].after;

                drift.fields[i].after = drift.fields[i].before;
                drift.fields[i].before = applied;
        }
        subject->drifted = drift.gone || drift.field_count > 0;
        if (!drift.gone && subject->desired)
                add_left(planning, subject, &drift);
        if (!subject->drifted && drift.left_count == 0)
                return;
        plan->drifts[plan->drift_count++] = drift;
}

static bool was_as_applied(const struct subject *subject) {
        const struct sighting *sighting = subject->sighting;

        return subject->record && sighting && sighting->exists && !sighting->drifted &&
               !subject->unfinished && sighting->health == HEALTH_READY;
}

static bool has_all_of(const struct value *map, const struct value *other) {
        for (size_t i = 0; other && other->type == VALUE_MAP && i < other->count; i++) {
                if (!value_get(map, other->members[i].name))
                        return false;
        }
        return true;
}

/* Whether the wish is what was applied, also where a tag or variable of no text came or went: fingerprints leave those out. */
static int is_as_recorded(struct subject *subject, struct arena *scratch, struct error *err) {
        struct record *record = subject->record;

        if (memcmp(subject->fingerprint, record->fingerprint, SHA256_SIZE) != 0)
                return 0;
        if (subject->ops->free_maps && record_decode(record, scratch, err) < 0)
                return error_context(err, "%s", subject->address);
        for (const char *const *path = subject->ops->free_maps; path && *path; path++) {
                const struct value *wished = value_path(subject->wish, *path),
                                   *recorded = value_path(record->spec, *path);

                if (!has_all_of(recorded, wished) || !has_all_of(wished, recorded))
                        return 0;
        }
        return 1;
}

/*
 * Offline, a resource that was as applied when it was last seen, and shall be as it was applied, needs no more than its
 * fingerprint: that of what it was made from, or else of the wish. Nothing is compared, and what is decoded for it is forgotten at once.
 */
static int settle_by_fingerprint(struct planning *planning, struct subject *subject, struct arena *scratch,
                                 struct error *err) {
        const struct observation *unseen = subject->observed;
        struct record *record = subject->record, copy;
        int same;

        if (planning->args->refresh != PLAN_REFRESH_NONE)
                return 0;
        if (subject->desired && was_as_applied(subject) && subject->ops->desire_repeats &&
            memcmp(subject->source, record->source, SOURCE_SIZE) == 0) {
                memcpy(subject->fingerprint, record->fingerprint, SHA256_SIZE);
                subject->settled = true;
        } else if (subject->desired && was_as_applied(subject)) {
                copy = *record;
                subject->record = &copy;
                subject->observed = &(struct observation){ .name = subject->name, .exists = true };
                if (make_wish(planning, subject, scratch, err) < 0 ||
                    (same = is_as_recorded(subject, scratch, err)) < 0)
                        return -1;
                subject->settled = same;
                subject->record = record;
                subject->observed = unseen;
                subject->wish = NULL;
                arena_clear(scratch);
        }
        return subject->settled ? 0 : planning_assume(planning, subject, err);
}

void planning_note_sources(struct planning *planning) {
        struct plan *plan = planning->plan;

        planning->context = make_context(planning);
        for (size_t i = 0; i < plan->subject_count; i++) {
                if (plan->subjects[i].desired)
                        note_source(planning, &plan->subjects[i]);
        }
}

int planning_diff(struct planning *planning, struct error *err) {
        struct arena *scratch ARENA_CLEANUP = arena_new();
        struct plan *plan = planning->plan;

        plan->drifts = arena_array(planning->arena, plan->subject_count, sizeof(*plan->drifts));
        for (size_t i = 0; i < plan->subject_count; i++) {
                struct subject *subject = &plan->subjects[i];

                if (settle_by_fingerprint(planning, subject, scratch, err) < 0)
                        return -1;
                if (subject->settled)
                        continue;
                if (subject->record && planning->args->refresh != PLAN_REFRESH_NONE)
                        note_drift(planning, subject);
                if (!subject->desired) {
                        plan_undesired(planning, subject);
                        continue;
                }
                if (make_wish(planning, subject, planning->arena, err) < 0)
                        return -1;
                plan_desired(planning, subject);
        }
        return 0;
}
