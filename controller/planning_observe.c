/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Meeting reality: who we are, and what exists. Sightings are kept in the state for the next run's
 * sweep.
 *
 * The provider is asked kind by kind, with all names of a kind at once, so that it can read by lists. It is given what was
 * seen last time, and hands that back where its lists show that nothing moved. For a resource that an earlier run left
 * half-way what was seen is withheld, which makes the provider read it; only the provider's own notes are not.
 *
 * With PLAN_REFRESH_NONE nothing is asked, and what was seen last time stands in.
 */
#include "controller/planning.h"

#include "base/text.h"
#include "controller/sighting.h"

#include <stdlib.h>
#include <string.h>

/* Each provider's settings stand in the Stack under its own name; an aws.account says nothing about another one. */
static const char *stack_account(const struct plan_args *args) {
        const struct value *settings = value_get(args->manifests->stack->spec, args->provider_ops->name);

        return value_get_text(settings, "account");
}

static void refuse_account(struct planning *planning, const char *expected, const char *said_by) {
        struct arena *arena = planning->arena;
        const struct caller_identity *identity = &planning->plan->identity;

        plan_refuse(arena, planning->plan,
                    (struct refusal){
                            .id = "wrong-account",
                            .message = arena_printf(
                                    arena, "the credentials are of account %s%s%s, %s says %s",
                                    identity->account, identity->principal ? " as " : "",
                                    identity->principal ? identity->principal : "", said_by, expected),
                            .remedy = arena_printf(arena,
                                                   "use credentials of account %s (aws.profile, AWS_PROFILE, "
                                                   "aws.assumeRole), or mend aws.account",
                                                   expected),
                    });
}

static int compare_meta(struct planning *planning, const char *name, const char *found,
                        const char **ret_recorded, struct error *err) {
        if (state_load_meta(planning->args->state, name, planning->arena, ret_recorded, err) < 0)
                return -1;
        return *ret_recorded && found && strcmp(*ret_recorded, found) != 0;
}

/* What the providers are given of the past: decoded, and withheld where it cannot be trusted. */
static int decode_past(struct planning *planning, struct subject *subject, struct error *err) {
        struct observation *last;

        if (subject->record && record_decode(subject->record, planning->arena, err) < 0)
                return -1;
        if (!subject->sighting)
                return 0;
        last = arena_alloc(planning->arena, sizeof(*last));
        if (sighting_recall(subject->sighting, subject->name, planning->arena, last, err) < 0)
                return -1;
        subject->notes = last->extra;
        subject->last = subject->unfinished ? NULL : last;
        return 0;
}

/* Without a refresh the past stands in for the present. */
static void take_past_for_present(struct planning *planning, struct subject *subject) {
        struct observation *assumed;

        if (subject->last) {
                subject->observed = subject->last;
                return;
        }
        assumed = arena_alloc(planning->arena, sizeof(*assumed));
        assumed->name = subject->name;
        if (subject->record) {
                assumed->exists = true;
                assumed->id = subject->record->id;
                assumed->spec = subject->record->spec;
        }
        subject->observed = assumed;
}

/* `subjects` are all those of one kind. Their past is added by decode_pasts(). */
static struct kind_reading prepare_reading(struct planning *planning, struct subject *subjects,
                                           size_t count) {
        struct wanted *wanted = arena_array(planning->arena, count, sizeof(*wanted));

        for (size_t i = 0; i < count; i++) {
                wanted[i] = (struct wanted){
                        .name = subjects[i].name,
                        .desired = subjects[i].desired,
                        .must_read = subjects[i].unfinished,
                };
        }
        return (struct kind_reading){
                .subjects = subjects,
                .wanted = wanted,
                .args = { .refresh =
                                  planning->args->refresh == PLAN_REFRESH_FULL ? REFRESH_FULL : REFRESH_SWEEP,
                          .wanted = wanted,
                          .count = count,
                          .arena = planning->arena },
        };
}

static int decode_pasts(struct planning *planning, struct kind_reading *reading, struct error *err) {
        for (size_t i = 0; i < reading->args.count; i++) {
                struct subject *subject = &reading->subjects[i];

                if (decode_past(planning, subject, err) < 0)
                        return error_context(err, "%s", subject->address);
                reading->wanted[i].recorded = subject->record ? subject->record->spec : NULL;
                reading->wanted[i].last = subject->last;
                reading->wanted[i].notes = subject->notes;
        }
        return 0;
}

static int observe_kind(struct planning *planning, const struct kind_reading *reading, struct error *err) {
        struct subject *subjects = reading->subjects;
        struct observation *seen = arena_array(planning->arena, reading->args.count, sizeof(*seen));

        if (subjects[0].ops->observe(planning->args->provider, &reading->args, seen, err) < 0)
                return error_context(err, "cannot read what exists (%s)", subjects[0].kind->name);
        for (size_t i = 0; i < reading->args.count; i++) {
                subjects[i].observed = &seen[i];
                for (size_t k = 0; k < seen[i].warning_count; k++)
                        plan_warn(planning->arena, planning->plan, seen[i].warnings[k]);
        }
        return 0;
}

/* Kinds without a declared or recorded resource may have orphans nevertheless. */
static int observe_other_kinds(struct planning *planning, struct error *err) {
        const struct plan_args *args = planning->args;
        const struct observe_args nothing = { .refresh = REFRESH_FULL, .arena = planning->arena };

        for (size_t i = 0; i < kind_count; i++) {
                const struct kind_ops *ops =
                        kinds[i]->managed ? args->provider_ops->ops(args->provider, kinds[i]->id) : NULL;
                size_t subject = 0;

                while (subject < planning->plan->subject_count &&
                       planning->plan->subjects[subject].kind != kinds[i])
                        subject++;
                if (ops && subject == planning->plan->subject_count &&
                    ops->observe(args->provider, &nothing, NULL, err) < 0)
                        return error_context(err, "cannot read what exists (%s)", kinds[i]->name);
        }
        return 0;
}

/* The subjects of one kind stand together. */
static void prepare_readings(struct planning *planning) {
        struct plan *plan = planning->plan;

        planning->readings =
                arena_array(planning->arena, plan->subject_count + 1, sizeof(*planning->readings));
        for (size_t start = 0, end; start < plan->subject_count; start = end) {
                for (end = start + 1; end < plan->subject_count; end++) {
                        if (plan->subjects[end].kind != plan->subjects[start].kind)
                                break;
                }
                planning->readings[planning->reading_count++] =
                        prepare_reading(planning, &plan->subjects[start], end - start);
        }
}

static size_t calls_of_list(const struct kind_reading *reading) {
        size_t page = reading->subjects[0].ops->page_size;

        return page ? (reading->args.count + page - 1) / page : 0;
}

/* The longest list first: it is what the plan will wait for. Equal ones go in kind order. */
static int by_length(const void *a, const void *b) {
        const struct kind_reading *first = *(struct kind_reading *const *)a,
                                  *second = *(struct kind_reading *const *)b;
        size_t of_first = calls_of_list(first), of_second = calls_of_list(second);

        if (of_first != of_second)
                return of_first < of_second ? 1 : -1;
        return (first > second) - (first < second);
}

/* Decoding the past of some thousand resources takes as long as a call: the lists that do without it travel meanwhile. */
static int read_ahead(struct planning *planning, struct error *err) {
        struct provider *provider = planning->args->provider;
        size_t count = planning->reading_count;
        struct kind_reading **readings =
                arena_array(planning->arena, count + 1, sizeof(struct kind_reading *));

        for (size_t i = 0; i < count; i++)
                readings[i] = &planning->readings[i];
        qsort(readings, count, sizeof(struct kind_reading *), by_length);
        for (size_t i = 0; i < count; i++) {
                if (readings[i]->subjects[0].ops->list_ahead)
                        readings[i]->subjects[0].ops->list_ahead(provider, planning->arena);
        }
        for (size_t i = 0; i < count; i++) {
                if (decode_pasts(planning, readings[i], err) < 0)
                        return -1;
                if (readings[i]->subjects[0].ops->read_ahead)
                        readings[i]->subjects[0].ops->read_ahead(provider, &readings[i]->args);
        }
        planning->ahead = true;
        return 0;
}

static void end_reading(const struct planning *planning) {
        if (planning->args->provider_ops->observed)
                planning->args->provider_ops->observed(planning->args->provider);
}

static int observe_kinds(struct planning *planning, struct error *err) {
        const struct plan_args *args = planning->args;
        int result = 0;

        if (!planning->ahead)
                result = read_ahead(planning, err);
        for (size_t i = 0; i < planning->reading_count && result == 0; i++)
                result = observe_kind(planning, &planning->readings[i], err);
        if (result == 0 && args->refresh == PLAN_REFRESH_FULL && args->provider_ops->lineage)
                result = observe_other_kinds(planning, err);
        end_reading(planning);
        return result;
}

/*
 * Whether the sighting must be written again. Specs are compared by address: providers hand back
 * the very one they were given where nothing moved. Most of a thousand resources have not moved,
 * and a plan of them writes nothing.
 */
static bool is_news(const struct subject *subject) {
        const struct observation *now = subject->observed, *last = subject->last;

        if (!last)
                return now->exists || now->extra || subject->sighting;
        return (now->extra != last->extra && !value_equal(now->extra, last->extra, NULL)) ||
               now->exists != last->exists || now->health != last->health || now->spec != last->spec ||
               !text_equal(now->fingerprint, last->fingerprint) || now->ownership != last->ownership ||
               subject->drifted != subject->sighting->drifted;
}

int planning_remember(struct planning *planning, struct error *err) {
        struct plan *plan = planning->plan;
        struct state_op *ops = arena_array(planning->arena, plan->subject_count, sizeof(*ops));
        int64_t now = planning->args->clock->wall_ms(planning->args->clock);
        size_t count = 0;

        if (planning->args->refresh == PLAN_REFRESH_NONE)
                return 0;
        for (size_t i = 0; i < plan->subject_count; i++) {
                struct subject *subject = &plan->subjects[i];
                struct sighting *sighting;

                /* Of a resource left half-way the next run must know nothing but that. */
                if (!is_news(subject) || subject->unfinished)
                        continue;
                sighting = arena_alloc(planning->arena, sizeof(*sighting));
                sighting_of(subject->observed, subject->address, now, sighting);
                sighting->drifted = subject->drifted;
                ops[count++] = (struct state_op){ .type = STATE_PUT_SIGHTING, .sighting = sighting };
        }
        return count ? state_commit(planning->args->state, ops, count, err) : 0;
}

int planning_assume(struct planning *planning, struct subject *subject, struct error *err) {
        if (subject->sighting && state_load_sighting(planning->args->state, subject->address, planning->arena,
                                                     &subject->sighting, err) < 0)
                return -1;
        if (decode_past(planning, subject, err) < 0)
                return error_context(err, "%s", subject->address);
        take_past_for_present(planning, subject);
        return 0;
}

static void prepare_subjects(struct planning *planning) {
        struct plan *plan = planning->plan;

        for (size_t i = 0; i < plan->subject_count; i++)
                plan->subjects[i].ops = planning->args->provider_ops->ops(planning->args->provider,
                                                                          plan->subjects[i].kind->id);
        if (planning->args->refresh != PLAN_REFRESH_NONE)
                prepare_readings(planning);
        planning->prepared = true;
}

static int compare_identity(struct planning *planning, struct error *err) {
        const struct plan_args *args = planning->args;
        struct caller_identity *identity = &planning->plan->identity;
        const char *declared = stack_account(args), *recorded;
        int differs;

        if (args->provider_ops->identify(args->provider, planning->arena, identity, err) < 0)
                return -1;
        if (declared && strcmp(declared, identity->account) != 0) {
                refuse_account(planning, declared, "the Stack's aws.account");
                return 0;
        }
        differs = compare_meta(planning, "account", identity->account, &recorded, err);
        if (differs < 0)
                return -1;
        if (differs) {
                refuse_account(planning, recorded, "the state");
                return 0;
        }
        differs = compare_meta(planning, "region", identity->region, &recorded, err);
        if (differs < 0)
                return -1;
        if (differs)
                return error_set(
                        err,
                        "this stack lives in region %s, the configuration says %s: set aws.region back, "
                        "or use another --state folder for a stack in the new region",
                        recorded, identity->region);
        return 0;
}

/*
 * Our own identity is one more answer to wait for. A stack that was applied is looked for in the
 * account that its state remembers, and all is asked beside that, to be believed only if the
 * account is the one. In any other the plan is refused, and what came is thrown away. A stack that
 * is nowhere yet asks for nothing before it knows where it is.
 */
static int begin_in_recorded_account(struct planning *planning, struct error *err) {
        const struct plan_args *args = planning->args;
        const char *declared = stack_account(args), *recorded;
        int expected;

        if (!args->provider_ops->expect)
                return 0;
        if (state_load_meta(args->state, "account", planning->arena, &recorded, err) < 0)
                return -1;
        if (!recorded || (declared && strcmp(declared, recorded) != 0))
                return 0;
        expected = args->provider_ops->expect(args->provider, recorded, err);
        if (expected <= 0)
                return expected;
        prepare_subjects(planning);
        return read_ahead(planning, err);
}

int planning_identify(struct planning *planning, struct error *err) {
        int result;

        if (planning->args->refresh == PLAN_REFRESH_NONE)
                return 0;
        result = begin_in_recorded_account(planning, err);
        if (result == 0)
                result = compare_identity(planning, err);
        if (result < 0 || planning->plan->refusal_count > 0)
                end_reading(planning);
        return result;
}

int planning_observe(struct planning *planning, struct error *err) {
        if (!planning->prepared)
                prepare_subjects(planning);
        return planning->args->refresh == PLAN_REFRESH_NONE ? 0 : observe_kinds(planning, err);
}
