/* SPDX-License-Identifier: Apache-2.0 */
/* Whether sessions can be had on this machine, for `berth doctor`. */
#ifndef BERTH_PROVIDERS_LOCAL_SESSION_SESSION_EXAMINE_H
#define BERTH_PROVIDERS_LOCAL_SESSION_SESSION_EXAMINE_H

#include "base/arena.h"
#include "providers/examine.h"

#include <stddef.h>

struct session_examining {
        const char *root;        /* of the stack's data: layout.h */
        const char *sockets;     /* a folder of its own for a worker's socket: made, and removed again */
        const char *launcher;    /* that places workers (session.h); NULL: none */
        const char *environment; /* one that was applied, to try a session in; NULL: none is tried */
};

/* At most `max` findings, in the arena. Where one is tried, it is a whole session: begun, code run in it, ended. */
void session_examine(const struct session_examining *examining, struct arena *arena, struct finding *ret,
                     size_t max, size_t *ret_count);

#endif
