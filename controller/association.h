/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking all dependents of one environment out of service, and putting them back: an override in the state for each, which
 * every plan honours. The binding records change when the plan that follows is applied.
 */
#ifndef BERTH_CONTROLLER_ASSOCIATION_H
#define BERTH_CONTROLLER_ASSOCIATION_H

#include "base/arena.h"
#include "base/error.h"
#include "state/state.h"

struct association {
        const char **dependents; /* addresses that are changed */
        size_t count;
        struct state_op *ops; /* to be committed */
};

/*
 * What disassociating (or reassociating) `environment` takes. Errors: no such environment (with the
 * nearest name), it has no user, all of them are disassociated already (or none is).
 */
int association_find(struct state *state, const char *environment, bool out, struct arena *arena,
                     struct association *ret, struct error *err) MUST_USE;

#endif
