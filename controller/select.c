/* SPDX-License-Identifier: Apache-2.0 */
/* --target, --exclude and leave_drift: which of the changes are wanted now. Pure. */
#include "controller/internal.h"

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
static bool mark(const struct plan *plan, const char *pattern, bool *marks) {
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

/* Of each subject, whether one of the option's patterns means it; NULL with err where a pattern means none. */
static bool *mark_all(struct planning *planning, const char *option, const char *const *patterns,
                      size_t count, struct error *err) {
        bool *marks = arena_array(planning->arena, planning->plan->subject_count + 1, sizeof(*marks));

        for (size_t i = 0; i < count; i++) {
                if (!mark(planning->plan, patterns[i], marks)) {
                        no_such_resource(planning, option, patterns[i], err);
                        return NULL;
                }
        }
        return marks;
}

/* What a desired resource needs: its changes come along with it. */
static void follow_needs(struct planning *planning, const struct subject *subject, bool *wanted) {
        struct plan *plan = planning->plan;
        const struct value *spec = subject->desired ? subject->desired->spec : NULL;
        const struct {
                enum kind_id kind;
                const char *name;
        } needs[] = {
                { KIND_STACK, plan->stack_name },
                { KIND_IMAGE, value_get_text(value_get(spec, "image"), "image") },
                { KIND_ENVIRONMENT, bound_environment(subject->kind, spec) },
        };

        if (!subject->desired)
                return;
        for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++) {
                struct subject *needed =
                        needs[i].name ? plan_subject_of(plan, needs[i].kind, needs[i].name) : NULL;

                if (!needed || wanted[needed - plan->subjects])
                        continue;
                wanted[needed - plan->subjects] = true;
                follow_needs(planning, needed, wanted);
        }
}

/* The manifest asks for what was applied: nothing but somebody else's doing is to be changed. */
static bool only_undoes(const struct subject *subject) {
        return subject->drifted && !subject->unfinished && subject->desired && subject->wish &&
               subject->record &&
               memcmp(subject->fingerprint, subject->record->fingerprint, SHA256_SIZE) == 0;
}

static bool is_left(const struct planning *planning, const struct subject *subject, const bool *excluded) {
        return excluded[subject - planning->plan->subjects] ||
               (planning->args->leave_drift && only_undoes(subject));
}

static bool needs_excluded(const struct planning *planning, const struct subject *subject,
                           const bool *excluded) {
        const char *environment =
                subject->desired ? bound_environment(subject->kind, subject->desired->spec) : NULL;
        const struct subject *bound =
                environment ? plan_subject_of(planning->plan, KIND_ENVIRONMENT, environment) : NULL;

        return bound && bound->change && bound->change->action == ACTION_CREATE &&
               is_left(planning, bound, excluded);
}

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
                wanted[i] = true;
                if (args->target_count && !args->only_targets)
                        follow_needs(planning, &plan->subjects[i], wanted);
        }
        for (size_t i = 0; i < plan->subject_count; i++) {
                const struct subject *subject = &plan->subjects[i];

                wanted[i] = wanted[i] && !is_left(planning, subject, excluded) &&
                            !needs_excluded(planning, subject, excluded);
        }
        for (size_t i = 0; i < plan->subject_count; i++) {
                if (wanted[i] || !plan->subjects[i].change)
                        continue;
                plan->subjects[i].change = NULL;
                plan->summary.left_out++;
        }
        return 0;
}
