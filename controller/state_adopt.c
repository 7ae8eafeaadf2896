/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan is made, with a full refresh, so that everything is read, and with the named orphans among its subjects. Of each
 * subject without a record, what is there is written down in the form of its wish: members that can be seen as they are
 * seen, members that only a state knows as the manifest has them. The wish itself is made once more from that record: a
 * digest in it pins the image, as if it had been applied so.
 */
#include "controller/state_adopt.h"

#include "base/array.h"
#include "controller/diff.h"
#include "controller/history.h"
#include "controller/lineage.h"
#include "controller/planning.h"
#include "controller/record.h"
#include "providers/lineage.h"

#include <string.h>

static bool is_map(const struct value *value) {
        return value && value->type == VALUE_MAP;
}

/* The present values of the members that are wished for. */
static struct value *overlay(const struct value *wish, const struct value *seen, const char *prefix,
                             const char *const *recorded_only, struct arena *arena) {
        struct value *result = value_new_map(arena);

        for (uint32_t i = 0; i < wish->count; i++) {
                const struct member *member = &wish->members[i];
                const struct value *there = value_get(seen, member->name);
                const char *path = prefix ? arena_printf(arena, "%s.%s", prefix, member->name) : member->name;

                if (is_map(&member->value) && is_map(there))
                        value_set(arena, result, member->name,
                                  *overlay(&member->value, there, path, recorded_only, arena));
                else if (there)
                        value_set(arena, result, member->name, *there);
                else if (diff_path_in(path, recorded_only))
                        value_set(arena, result, member->name, member->value);
        }
        return result;
}

/* With the stack's marks, and in no record yet. */
static bool is_to_take(const struct subject *subject) {
        const struct observation *seen = subject->observed;

        if (subject->record || !seen->exists || seen->unmarked || !seen->spec)
                return false;
        return seen->ownership == OWNER_SELF ||
               (seen->ownership == OWNER_OTHER && seen->lineage && lineage_has_form(seen->lineage));
}

static void add_lineage(struct state_adoption *adoption, const char *lineage, struct arena *arena) {
        for (size_t i = 0; i < adoption->lineage_count; i++) {
                if (strcmp(adoption->lineages[i], lineage) == 0)
                        return;
        }
        adoption->lineages =
                array_grow(arena, adoption->lineages, adoption->lineage_count, sizeof(*adoption->lineages));
        adoption->lineages[adoption->lineage_count++] = lineage;
}

static void refuse_adoption(struct state_adoption *adoption, struct refusal refusal, struct arena *arena) {
        adoption->refusals =
                array_grow(arena, adoption->refusals, adoption->refusal_count, sizeof(*adoption->refusals));
        adoption->refusals[adoption->refusal_count++] = refusal;
}

static bool is_allowed(const struct plan_args *args, const char *id) {
        for (size_t i = 0; i < args->allowance_count; i++) {
                if (strcmp(args->allowances[i].id, id) == 0)
                        return true;
        }
        return false;
}

/*
 * A state that can be seen is never taken from: its owner gives it up by removing its folder. A
 * state on another machine cannot be seen, and a person has to say that it is gone.
 */
static int judge_lineage(const struct plan_args *args, struct state_adoption *adoption, const char *lineage,
                         struct arena *arena, struct error *err) {
        const char *said = NULL;
        enum lineage_life life;

        if (lineage_judge(args, lineage, arena, &life, &said, err) < 0)
                return -1;
        if (life == LINEAGE_HERE)
                refuse_adoption(
                        adoption,
                        (struct refusal){
                                .id = LINEAGE_LIVES,
                                .message = arena_printf(arena, "the lineage %s lives: its state is there, %s",
                                                        lineage, said),
                                .remedy =
                                        "work with that state (--state), or give this stack another name; where that "
                                        "state is given up, remove its folder first, or its objects",
                        },
                        arena);
        else if (life == LINEAGE_ELSEWHERE && !is_allowed(args, LINEAGE_LIVES))
                refuse_adoption(
                        adoption,
                        (struct refusal){
                                .id = LINEAGE_LIVES,
                                .message = arena_printf(
                                        arena,
                                        "the lineage %s may live: its state is where it cannot be looked at from "
                                        "here, %s",
                                        lineage, said),
                                .remedy = "if that state is lost: --allow " LINEAGE_LIVES,
                        },
                        arena);
        return 0;
}

/* Our own lineage may have been taken over, and is taken back now: from its present holder. */
static int add_own_taker(const struct plan_args *args, struct state_adoption *adoption, struct arena *arena,
                         struct error *err) {
        const char *own = state_lineage(args->state);
        struct lineage_note note;

        if (args->provider_ops->lineage->read(args->provider, own, arena, &note, err) < 0)
                return -1;
        if (note.lineage && note.taken_by && lineage_has_form(note.taken_by))
                add_lineage(adoption, note.taken_by, arena);
        return 0;
}

/* The recorded spec: without a manifest, all that was seen of it. */
static int describe_subject(const struct plan_args *args, const struct subject *subject, struct arena *arena,
                            const struct value **ret, struct error *err) {
        const char *const *known = subject->ops->recorded_only;
        const struct value *seen = subject->observed->spec, *spec;
        struct value *wish;

        if (!subject->wish) {
                *ret = seen;
                return 0;
        }
        spec = overlay(subject->wish, seen, NULL, known, arena);
        if (subject->ops->desire(args->provider, subject->desired, subject->observed, spec, arena, &wish,
                                 err) < 0)
                return error_context(err, "%s", subject->address);
        *ret = overlay(wish, seen, NULL, known, arena);
        return 0;
}

static bool is_named(const char *const *names, size_t count, const char *address) {
        for (size_t i = 0; i < count; i++) {
                if (strcmp(names[i], address) == 0)
                        return true;
        }
        return false;
}

static int check_names(const struct plan *plan, const char *const *names, size_t count, struct error *err) {
        for (size_t i = 0; i < count; i++) {
                const struct subject *subject = plan_subject(plan, names[i]);

                if (!subject || subject->record || !is_to_take(subject))
                        return error_set_kind(
                                err, ERROR_NOT_FOUND,
                                "%s: nothing of that name carries this stack's marks and is in no "
                                "record; berth state adopt --dry-run shows what does",
                                names[i]);
        }
        return 0;
}

int state_adopt_look(const struct plan_args *args, const char *const *names, size_t name_count,
                     struct arena *arena, struct state_adoption *ret, struct error *err) {
        struct plan_args planning = *args;
        struct state_adoption adoption = { 0 };
        struct plan *plan = &adoption.plan;

        if (!args->provider_ops->lineage)
                return error_set(
                        err,
                        "the provider %s keeps what it makes beside the state: there is nothing to adopt",
                        args->provider_ops->name);
        planning.refresh = PLAN_REFRESH_FULL;
        planning.also = names;
        planning.also_count = name_count;
        if (plan_make(&planning, arena, plan, err) < 0)
                return -1;
        for (size_t i = 0; i < plan->refusal_count; i++) {
                /* In the wrong account nothing was looked at. */
                if (strcmp(plan->refusals[i].id, "wrong-account") == 0)
                        refuse_adoption(&adoption, plan->refusals[i], arena);
        }
        if (adoption.refusal_count == 0 &&
            (check_names(plan, names, name_count, err) < 0 || add_own_taker(args, &adoption, arena, err) < 0))
                return -1;
        adoption.items = arena_array(arena, plan->subject_count + 1, sizeof(*adoption.items));
        for (size_t i = 0; adoption.refusal_count == 0 && i < plan->subject_count; i++) {
                const struct subject *subject = &plan->subjects[i];
                struct adoption *item = &adoption.items[adoption.count];

                if (!is_to_take(subject) ||
                    (!subject->desired && !is_named(names, name_count, subject->address)))
                        continue;
                if (describe_subject(args, subject, arena, &item->spec, err) < 0)
                        return -1;
                item->subject = subject;
                adoption.count++;
                if (subject->observed->ownership == OWNER_OTHER)
                        add_lineage(&adoption, subject->observed->lineage, arena);
        }
        for (size_t i = 0; i < adoption.lineage_count; i++) {
                if (judge_lineage(args, &adoption, adoption.lineages[i], arena, err) < 0)
                        return -1;
        }
        adoption.orphans = plan->orphans;
        adoption.orphan_count = plan->orphan_count;
        *ret = adoption;
        return 0;
}

/* The lineages that this state speaks for from now on, as meta keeps them. */
static int join_taken(const struct plan_args *args, const struct state_adoption *adoption,
                      struct arena *arena, const char **ret, struct error *err) {
        const char *taken;

        if (state_load_meta(args->state, "taken", arena, &taken, err) < 0)
                return -1;
        for (size_t i = 0; i < adoption->lineage_count; i++) {
                if (!taken || !strstr(taken, adoption->lineages[i]))
                        taken = taken ? arena_printf(arena, "%s %s", taken, adoption->lineages[i])
                                      : adoption->lineages[i];
        }
        *ret = taken;
        return 0;
}

int state_adopt_take(const struct plan_args *args, const struct state_adoption *adoption, struct arena *arena,
                     struct error *err) {
        const struct plan *plan = &adoption->plan;
        int64_t now = args->clock->wall_ms(args->clock);
        size_t count = 0;
        struct state_op *ops = arena_array(arena, adoption->count * RECORD_WRITER_MAX + 5, sizeof(*ops));
        struct history_entry *entry = arena_alloc(arena, sizeof(*entry));
        const char *taken;

        /*
         * The notes first: were this run to die in between, the lost state could do nothing any more, and a second adoption
         * finishes this one. The other way round two states would hold the same things.
         */
        if (join_taken(args, adoption, arena, &taken, err) < 0 ||
            args->provider_ops->lineage->take(args->provider, adoption->lineages, adoption->lineage_count,
                                              err) < 0 ||
            history_of_edit(args->state, "state adopt",
                            arena_printf(arena, "%s/%s", kinds[KIND_STACK]->name, plan->stack_name), now,
                            arena, entry, err) < 0)
                return -1;
        for (size_t i = 0; i < adoption->count; i++) {
                const struct adoption *item = &adoption->items[i];
                struct record_writer *writer = arena_alloc(arena, sizeof(*writer));

                record_writer_init(writer, plan->provider_name, now);
                record_found(writer, item->subject, item->spec, state_secret_key(args->state));
                memcpy(ops + count, writer->ops, writer->count * sizeof(*ops));
                count += writer->count;
        }
        ops[count++] = (struct state_op){ .type = STATE_PUT_META, .meta = { "stack", plan->stack_name } };
        ops[count++] =
                (struct state_op){ .type = STATE_PUT_META, .meta = { "account", plan->identity.account } };
        ops[count++] =
                (struct state_op){ .type = STATE_PUT_META, .meta = { "region", plan->identity.region } };
        if (taken)
                ops[count++] = (struct state_op){ .type = STATE_PUT_META, .meta = { "taken", taken } };
        ops[count++] = (struct state_op){ .type = STATE_PUT_HISTORY, .history = entry };
        return state_commit(args->state, ops, count, err);
}
