/* SPDX-License-Identifier: Apache-2.0 */
/* --target, --exclude and leave_drift: which of the changes are wanted now. Pure. */
#include "controller/internal.h"

#include "base/suggest.h"

#include <fnmatch.h>
#include <string.h>

static bool matches_any(const char *address, const char *const *patterns, size_t count) {
        for (size_t i = 0; i < count; i++) {
                if (fnmatch(patterns[i], address, 0) == 0)
                        return true;
        }
        return false;
}

static int check_pattern(struct planning *planning, const char *option, const char *pattern,
                         struct error *err) {
        struct plan *plan = planning->plan;
        const char **addresses = arena_array(planning->arena, plan->subject_count, sizeof(*addresses));
        const char *near;

        for (size_t i = 0; i < plan->subject_count; i++) {
                if (fnmatch(pattern, plan->subjects[i].address, 0) == 0)
                        return 0;
                addresses[i] = plan->subjects[i].address;
        }
        near = suggest_nearest(pattern, addresses, plan->subject_count);
        if (near)
                return error_set(err, "%s %s: no such resource; did you mean %s?", option, pattern, near);
        return error_set(err,
                         "%s %s: no such resource in the manifests or the state (an address is Kind/name, "
                         "and may have * in it)",
                         option, pattern);
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

static bool is_left(const struct plan_args *args, const struct subject *subject) {
        return matches_any(subject->address, args->excludes, args->exclude_count) ||
               (args->leave_drift && only_undoes(subject));
}

static bool needs_excluded(struct planning *planning, const struct subject *subject) {
        const struct plan_args *args = planning->args;
        const char *environment =
                subject->desired ? bound_environment(subject->kind, subject->desired->spec) : NULL;
        struct subject *bound =
                environment ? plan_subject_of(planning->plan, KIND_ENVIRONMENT, environment) : NULL;

        return bound && bound->change && bound->change->action == ACTION_CREATE && is_left(args, bound);
}

int planning_select(struct planning *planning, struct error *err) {
        const struct plan_args *args = planning->args;
        struct plan *plan = planning->plan;
        bool *wanted = arena_array(planning->arena, plan->subject_count + 1, sizeof(*wanted));

        for (size_t i = 0; i < args->target_count; i++) {
                if (check_pattern(planning, "--target", args->targets[i], err) < 0)
                        return -1;
        }
        for (size_t i = 0; i < args->exclude_count; i++) {
                if (check_pattern(planning, "--exclude", args->excludes[i], err) < 0)
                        return -1;
        }
        for (size_t i = 0; i < plan->subject_count; i++) {
                if (args->target_count &&
                    !matches_any(plan->subjects[i].address, args->targets, args->target_count))
                        continue;
                wanted[i] = true;
                if (args->target_count && !args->only_targets)
                        follow_needs(planning, &plan->subjects[i], wanted);
        }
        for (size_t i = 0; i < plan->subject_count; i++) {
                const struct subject *subject = &plan->subjects[i];

                wanted[i] = wanted[i] && !is_left(args, subject) && !needs_excluded(planning, subject);
        }
        for (size_t i = 0; i < plan->subject_count; i++) {
                if (wanted[i] || !plan->subjects[i].change)
                        continue;
                plan->subjects[i].change = NULL;
                plan->summary.left_out++;
        }
        return 0;
}
