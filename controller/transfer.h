/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `state migrate`: the state of a stack goes to another place, from a folder to S3, back, or on. At every moment it lives in one
 * place at the most, and where it was killed the same command finishes it (state/state_move.h has the steps).
 *
 *     transfer_begin -> (a person is asked) -> transfer_carry_out -> transfer_close
 */
#ifndef BERTH_CONTROLLER_TRANSFER_H
#define BERTH_CONTROLLER_TRANSFER_H

#include "controller/stack_state.h"
#include "state/state_move.h"

enum transfer_work {
        TRANSFER_MOVE,
        TRANSFER_FINISH,  /* a move that was broken off */
        TRANSFER_GIVE_UP, /* a move to `from` that was broken off: the state lives in `to` again */
        TRANSFER_NOTHING  /* it lives in `to` already */
};

struct transfer_args {
        const struct provider_registry *registry;
        const struct manifests *manifests; /* whose Stack says how AWS is reached; may be NULL */
        const struct clock *clock;         /* borrowed for the states' life */
        const char *from, *to;             /* folders, or with a scheme */
};

struct transfer {
        const struct transfer_args *args;
        struct arena *arena;
        enum transfer_work work;
        const char *from, *to; /* in whole; `to` as given while it does not exist */
        /*
         * Owned; both leases are held while there is something to do. `target` NULL: not there yet.
         */
        struct state *source, *target;
        struct state_move source_move, target_move;
};

/*
 * Opens both, takes the leases and finds the next step. Changes nothing. ERROR_NOT_FOUND where
 * there is no state to move; fails where `to` has another one. The caller closes *ret, also after a
 * failure.
 */
int transfer_begin(const struct transfer_args *args, struct arena *arena, struct transfer *ret,
                   struct error *err) MUST_USE;
/* The target is there afterwards, and lives. */
int transfer_carry_out(struct transfer *transfer, struct error *err) MUST_USE;
void transfer_close(struct transfer *transfer); /* gives the leases back */

#endif
