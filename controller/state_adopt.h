/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lost state made again from what is there: `berth state adopt`. What carries the stack's marks and is in no record gets
 * one, as it is there, so that the next plan has nothing to create, replace or delete that exists; a digest that runs stays
 * pinned. What no manifest declares is taken only where it is named, since the next apply would delete it.
 *
 * What carries another lineage is taken only where that one does not live any more: its state is gone from where its note
 * says that it lies. Its note then says who has taken it over, and this state knows that what carries it is its own.
 */
#ifndef BERTH_CONTROLLER_STATE_ADOPT_H
#define BERTH_CONTROLLER_STATE_ADOPT_H

#include "controller/plan.h"

/* The refusal of what may be another living state's; no guard of a plan's. */
#define LINEAGE_LIVES "lineage-lives"

struct adoption {
        const struct subject *subject;
        const struct value *spec; /* what is recorded as applied */
};

struct state_adoption {
        struct plan plan;
        struct adoption *items;
        size_t count;
        const char **orphans; /* addresses that would be taken if they were named */
        size_t orphan_count;
        const char **lineages; /* other lineages that are taken over */
        size_t lineage_count;
        struct refusal *refusals; /* lineage-lives; or of the whole plan */
        size_t refusal_count;
};

/*
 * What would be taken; changes nothing. `names` are addresses to take beside what the manifests
 * declare. `args` as for a plan; its refresh and `also` are set here. Fails for an unknown name.
 */
int state_adopt_look(const struct plan_args *args, const char *const *names, size_t name_count,
                     struct arena *arena, struct state_adoption *ret, struct error *err) MUST_USE;
/* Takes it, all or nothing in the state. The caller holds the lease; there must be no refusal. */
int state_adopt_take(const struct plan_args *args, const struct state_adoption *adoption, struct arena *arena,
                     struct error *err) MUST_USE;

#endif
