/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a plan, each in its own file; called by plan.c only, in this order. */
#ifndef BERTH_CONTROLLER_PLANNING_H
#define BERTH_CONTROLLER_PLANNING_H

#include "controller/plan.h"

/* The subjects of one kind, which stand together, and what the provider is asked about them. */
struct kind_reading {
        struct subject *subjects;
        struct wanted *wanted; /* one for each; `args` points to them */
        struct observe_args args;
};

/* What the steps work on. */
struct planning {
        const struct plan_args *args;
        struct arena *arena;
        struct plan *plan;
        struct binding *bindings; /* recorded, by environment then dependent */
        size_t binding_count;
        struct kind_reading
                *readings; /* by kind, in kind order; owned by planning_observe.c, as the next three */
        size_t reading_count;
        bool prepared;        /* the readings are made */
        bool ahead;           /* reading ahead has begun */
        struct value context; /* what every wish depends on beside its manifest: planning_note_sources() */
};

/* subjects.c: joins manifests, records, sightings and the journal by address. */
int planning_gather(struct planning *planning, struct error *err) MUST_USE;

/* planning_observe.c: who and where we are; what exists: these may touch the provider. planning_remember() stores new sightings. */
int planning_identify(struct planning *planning, struct error *err) MUST_USE;
int planning_observe(struct planning *planning, struct error *err) MUST_USE;
int planning_remember(struct planning *planning, struct error *err) MUST_USE;
/* Without a refresh, and only where a subject is not plainly as it was applied: its past, standing in for the present. */
int planning_assume(struct planning *planning, struct subject *subject, struct error *err) MUST_USE;

/*
 * planning_changes.c: desire and diff give each subject its change; drift. Pure. What a subject is made from is noted beforehand, while the
 * lists of what exists travel.
 */
void planning_note_sources(struct planning *planning);
bool subject_is_ours(
        const struct subject *subject); /* what exists: by its marks, or by our own record of it */
int planning_diff(struct planning *planning, struct error *err) MUST_USE;

/* planning_select.c: keeps what --target and --exclude leave. Pure. */
int planning_select(struct planning *planning, struct error *err) MUST_USE;

/* planning_guard.c: refusals. planning_ask() asks the provider for its own; planning_guard() is pure. */
int planning_ask(struct planning *planning, struct error *err) MUST_USE;
int planning_guard(struct planning *planning, struct error *err) MUST_USE;
void change_refuse(struct arena *arena, struct change *change, struct refusal refusal);
void plan_refuse(struct arena *arena, struct plan *plan, struct refusal refusal);
void plan_warn(struct arena *arena, struct plan *plan, const char *text);

/* planning_order.c: dependsOn and the order of changes; counts, predicted calls. Pure. */
int planning_order(struct planning *planning, struct error *err) MUST_USE;
void planning_count(struct planning *planning);

/* bindings.c: the state has bindings by dependent, a plan wants them by environment; those of one environment. */
void bindings_sort(struct binding *bindings, size_t count);
const struct binding *bindings_of(const struct planning *planning, const char *environment,
                                  size_t *ret_count);
/*
 * Adds those that are seen where the state has none, or another one: they were written outside of
 * Berth.
 */
void bindings_add_observed(struct planning *planning);
/* Of overrides as the state has them, by dependent; NULL where it has none for that one. */
const struct override *override_find(const struct override *overrides, size_t count, const char *dependent);

#endif
