/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --target, --exclude and leave_drift: which of the changes are wanted now. Pure.
 *
 * Comes after the diff, which knows what would change, and before the guards, which judge what is left: a dependent that is
 * left out stays as it was recorded, and so still stands in the way of what it uses.
 */
#include "controller/planning.h"

#include "base/suggest.h"

#include <fnmatch.h>
#include <string.h>

static void no_such_resource(struct planning *planning, const char *option, const char *pattern,
                             struct error *err) {
        const struct plan *plan = planning->plan;
        const char **addresses = arena_array(planning->arena, plan->subject_count, sizeof(*addresses));
        const char *near;

        for (size_t i = 0; i < plan->subject_count; i++)
                addresses[i] = plan->subjects[i].address;
        near = suggest_nearest(pattern, addresses, plan->subject_count);
        if (near)
                error_set(err, "%s %s: no such resource; did you mean %s?", option, pattern, near);
        else
                error_set(err,
                          "%s %s: no such resource in the manifests or the state (an address is Kind/name, "
                          "and may have * in it)",
                          option, pattern);
}

/* Marks the subjects that the pattern means, and says whether there are any. An address is no pattern: it is looked up. */
static bool mark_pattern(const struct plan *plan, const char *pattern, bool *marks) {
        const struct subject *subject;
        bool any = false;

        if (!strpbrk(pattern, "*?[\\")) {
                subject = plan_subject(plan, pattern);
                if (!subject || strcmp(subject->address, pattern) != 0)
                        return false;
                marks[subject - plan->subjects] = true;
                return true;
        }
        for (size_t i = 0; i < plan->subject_count; i++) {
                if (fnmatch(pattern, plan->subjects[i].address, 0) != 0)
                        continue;
                marks[i] = true;
                any = true;
        }
        return any;
}

/* For each subject, whether one of the option's patterns means it; NULL with err where a pattern means none. */
static bool *mark_all(struct planning *planning, const char *option, const char *const *patterns,
                      size_t count, struct error *err) {
        bool *marks = arena_array(planning->arena, planning->plan->subject_count + 1, sizeof(*marks));

        for (size_t i = 0; i < count; i++) {
                if (!mark_pattern(planning->plan, patterns[i], marks)) {
                        no_such_resource(planning, option, patterns[i], err);
                        return NULL;
                }
        }
        return marks;
}

static void want_with_needs(struct planning *planning, struct subject *subject, bool *wanted);

static void want_named(struct planning *planning, enum kind_id kind, const char *name, bool *wanted) {
        struct plan *plan = planning->plan;
        struct subject *named = name ? plan_subject_of(plan, kind, name) : NULL;

        if (named && !wanted[named - plan->subjects])
                want_with_needs(planning, named, wanted);
}

/*
 * Marks the subject and, in turn, all that it cannot be made without: the Stack, and what its
 * references name. A deletion needs nothing. It ends because what is marked is not looked at again.
 */
static void want_with_needs(struct planning *planning, struct subject *subject, bool *wanted) {
        struct plan *plan = planning->plan;

        wanted[subject - plan->subjects] = true;
        if (!subject->desired)
                return;
        want_named(planning, KIND_STACK, plan->stack_name, wanted);
        for (const struct kind_reference *reference = subject->kind->references; reference && reference->path;
             reference++) {
                if (reference->orders)
                        want_named(planning, reference->kind,
                                   kind_reference_name(reference, subject->desired->spec), wanted);
        }
}

/*
 * Whether what was applied of it names one of those that are wanted: 1, 0, or -1. The manifests may
 * say otherwise now.
 */
static int names_wanted(struct planning *planning, const struct subject *subject, const bool *wanted,
                        struct error *err) {
        const struct plan *plan = planning->plan;

        if (!subject->record)
                return 0;
        if (record_decode(subject->record, planning->arena, err) < 0)
                return -1;
        for (const struct kind_reference *reference = subject->kind->references; reference && reference->path;
             reference++) {
                const struct subject *named;
                const char *name;

                if (!reference->orders)
                        continue;
                name = kind_reference_name(reference, subject->record->spec);
                named = name ? plan_subject_of(plan, reference->kind, name) : NULL;
                if (named && wanted[named - plan->subjects])
                        return 1;
        }
        return 0;
}

/*
 * The other way round, for a destruction: all that could not be without it goes as well. Of the
 * Stack that is everything; else one round over the subjects is enough, since references lead to
 * kinds that come earlier.
 */
static int want_who_needs_them(struct planning *planning, bool *wanted, struct error *err) {
        struct plan *plan = planning->plan;
        bool all = false;

        for (size_t i = 0; i < plan->subject_count; i++) {
                int named = 0;

                all = all || (plan->subjects[i].kind->is_base && wanted[i]);
                if (!all && !wanted[i])
                        named = names_wanted(planning, &plan->subjects[i], wanted, err);
                if (named < 0)
                        return -1;
                wanted[i] = wanted[i] || all || named;
        }
        return 0;
}

/* The manifest asks for what was applied: the change only undoes others' changes. */
static bool only_undoes(const struct subject *subject) {
        return subject->drifted && !subject->unfinished && subject->desired && subject->wish &&
               subject->record &&
               memcmp(subject->fingerprint, subject->record->fingerprint, SHA256_SIZE) == 0;
}

/* Excluded, or nothing but drift where drift shall stay. */
static bool is_left(const struct planning *planning, const struct subject *subject, const bool *excluded) {
        return excluded[subject - planning->plan->subjects] ||
               (planning->args->leave_drift && only_undoes(subject));
}

/* Whether it is bound to something that would have to be made first, and that is left out. */
static bool is_bound_to_what_is_left(const struct planning *planning, const struct subject *subject,
                                     const bool *excluded) {
        const struct kind_reference *binding = kind_binding(subject->kind);
        const char *name =
                binding && subject->desired ? kind_reference_name(binding, subject->desired->spec) : NULL;
        const struct subject *bound = name ? plan_subject_of(planning->plan, binding->kind, name) : NULL;

        return bound && bound->change && bound->change->action == ACTION_CREATE &&
               is_left(planning, bound, excluded);
}

/*
 * The marks are made in three rounds, since each looks at the one before as a whole: what is asked
 * for, with what it needs; less what is excluded, with what cannot do without that; and then the
 * changes of all others are taken away. Removed changes are counted, and nothing else is forgotten
 * of them: guards still see the subject.
 */
int planning_select(struct planning *planning, struct error *err) {
        const struct plan_args *args = planning->args;
        struct plan *plan = planning->plan;
        bool *wanted = arena_array(planning->arena, plan->subject_count + 1, sizeof(*wanted));
        const bool *targeted = mark_all(planning, "--target", args->targets, args->target_count, err);
        const bool *excluded =
                targeted ? mark_all(planning, "--exclude", args->excludes, args->exclude_count, err) : NULL;

        if (!targeted || !excluded)
                return -1;
        for (size_t i = 0; i < plan->subject_count; i++) {
                if (args->target_count && !targeted[i])
                        continue;
                if (args->target_count && !args->only_targets)
                        want_with_needs(planning, &plan->subjects[i], wanted);
                else
                        wanted[i] = true;
        }
        if (args->destroy && args->target_count && want_who_needs_them(planning, wanted, err) < 0)
                return -1;
        for (size_t i = 0; i < plan->subject_count; i++) {
                const struct subject *subject = &plan->subjects[i];

                wanted[i] = wanted[i] && !is_left(planning, subject, excluded) &&
                            !is_bound_to_what_is_left(planning, subject, excluded);
        }
        for (size_t i = 0; i < plan->subject_count; i++) {
                if (wanted[i] || !plan->subjects[i].change)
                        continue;
                plan->subjects[i].change = NULL;
                plan->summary.left_out++;
        }
        return 0;
}
