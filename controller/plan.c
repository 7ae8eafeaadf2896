/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of a plan, in the only order in which they make sense: what was seen is remembered before changes are
 * left out or refused, since it is true whatever is planned; --target comes before the guards, which judge what is
 * left; the order comes last.
 */
#include "controller/planning.h"

#include "controller/lineage.h"

#include <string.h>

const char *action_name(enum action action) {
        static const char *const names[] = {
                [ACTION_NONE] = "none",       [ACTION_CREATE] = "create", [ACTION_UPDATE] = "update",
                [ACTION_REPLACE] = "replace", [ACTION_DELETE] = "delete", [ACTION_ADOPT] = "adopt",
        };

        return names[action];
}

bool change_is_refused(const struct change *change) {
        return change->refusal_count > 0;
}

bool plan_has_changes(const struct plan *plan) {
        return plan->change_count > 0;
}

bool plan_has_refusals(const struct plan *plan) {
        return plan->refusal_count > 0 || plan->summary.refused > 0;
}

static int make_plan(const struct plan_args *args, struct arena *arena, struct plan *ret, struct error *err) {
        struct plan plan = {
                .stack_name = args->manifests->stack->name,
                .provider_name = args->provider_ops->name,
                .created_ms = args->clock->wall_ms(args->clock),
                .destroy = args->destroy,
                .cost.arena = arena,
        };
        struct planning planning = { .args = args, .arena = arena, .plan = &plan };

        if (lineage_announce(args, arena, err) < 0)
                return -1;
        if (planning_gather(&planning, err) < 0)
                return -1;
        if (planning_identify(&planning, err) < 0)
                return -1;
        /* In the wrong account nothing more is read: what is there says nothing about this stack. */
        if (plan.refusal_count == 0) {
                planning_note_sources(&planning);
                if (planning_observe(&planning, err) < 0)
                        return -1;
                lineage_note_orphans(args, &plan, arena);
                if (planning_diff(&planning, err) < 0)
                        return -1;
                if (planning_remember(&planning, err) < 0)
                        return -1;
                if (planning_select(&planning, err) < 0)
                        return -1;
                if (planning_ask(&planning, err) < 0)
                        return -1;
                if (planning_guard(&planning, err) < 0)
                        return -1;
                if (planning_order(&planning, err) < 0)
                        return -1;
        }
        planning_count(&planning);
        *ret = plan;
        return 0;
}

/*
 * A run that slept or was cut off while it read, until the lock passed to another, has seen things
 * that changed under its eyes: its findings, and its errors, mean nothing.
 */
int plan_make(const struct plan_args *args, struct arena *arena, struct plan *ret, struct error *err) {
        struct plan plan;
        struct error failure = { 0 };
        int result = make_plan(args, arena, &plan, &failure);

        if (state_lease_check(args->state, err) < 0)
                return -1;
        if (result < 0)
                *err = failure;
        else
                *ret = plan;
        return result;
}
