/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a stack, wherever it lies: a folder, or a place that has a scheme, "s3://BUCKET/PREFIX". One way of opening it for
 * all who do.
 */
#ifndef BERTH_CONTROLLER_STACK_STATE_H
#define BERTH_CONTROLLER_STACK_STATE_H

#include "base/clock.h"
#include "base/error.h"
#include "controller/stack_provider.h"
#include "schema/manifests.h"
#include "state/state.h"

/* Whether the text has a scheme, known or not: then it is no folder's path. */
bool stack_state_has_scheme(const char *place);

/* What the Stack says (spec.state), or NULL. `manifests` may be NULL. */
const char *stack_state_declared(const struct manifests *manifests);

/*
 * Fails where the place is one that machines share, and what the provider makes is this machine's alone: another machine's plan would
 * find nothing of it.
 */
int stack_state_check_provider(const char *place, const struct provider_ops *ops, struct error *err) MUST_USE;

/*
 * The objects of such a place, to be closed by the caller. A scheme that is not known is an error. `manifests` may be NULL.
 */
int stack_state_objects(const struct provider_registry *registry, const struct manifests *manifests,
                        const char *place, const struct clock *clock, struct object_store **ret,
                        struct error *err) MUST_USE;

struct stack_state_args {
        const struct provider_registry *registry;
        const struct manifests
                *manifests;        /* whose Stack says how AWS is reached; NULL: as the environment says */
        const char *place;         /* a folder, or with a scheme */
        const struct clock *clock; /* borrowed for the state's life */
        bool gone_too;             /* also a state that has moved elsewhere, to look at it or to move it */
        bool aside;                /* with a copy of its own on this machine: state_open_shared_aside() */
};

/* The place so that it is the same wherever it is said: a folder's real path, as far as it is there. */
const char *stack_state_whole_place(const char *place, struct arena *arena);

/*
 * state_open(), or state_open_shared(). A scheme that is not known is an error, and so is a state that has moved elsewhere, which
 * says where.
 */
int stack_state_open(const struct stack_state_args *args, enum state_mode mode, struct state **ret,
                     struct error *err) MUST_USE;

#endif
