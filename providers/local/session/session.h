/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The place of sessions on this machine: the body of sessions/place.h. Each session has a sandbox of its own whose worker outlives
 * this process (providers/local/sandbox/sandbox_lasting.h), and in it berth-runtime.
 */
#ifndef BERTH_PROVIDERS_LOCAL_SESSION_SESSION_H
#define BERTH_PROVIDERS_LOCAL_SESSION_SESSION_H

#include "base/error.h"
#include "sessions/place.h"
#include "sessions/workspace_owner.h"

#include <stdbool.h>
#include <stddef.h>

struct session_place_warm {
        const char *environment;
        size_t count;
};

/* All copied. */
struct session_place_config {
        const char *root; /* of the stack's data: layout.h */
        const char
                *folder; /* of the workers' sockets: made where it is missing, ours alone. At most 64 bytes */
        const char *runtime; /* berth-runtime's path; NULL: as it is installed, or beside this program */
        /*
         * The socket of a `berth launcher` that places the workers, each as a host user of its own: this process needs no rights
         * then. Their own sockets are in the folder `workers` beside it. NULL: this process places them itself.
         */
        const char *launcher;
        /*
         * the folder of workspaces, where those that containers share lie; NULL if absent
         */
        const char *workspaces;
        const char *stack;
        bool accept_degraded;           /* sandboxes are started where a limit cannot be held */
        struct workspace_bounds bounds; /* of what is brought into workspaces */
        /*
         * Sandboxes that are started ahead of requests (session_warm.h), and what they have
         * imported: ended by NULL, or NULL.
         */
        const struct session_place_warm *warm;
        size_t warm_count;
        const char *const *preload;
        void (*tell)(bool trouble,
                     const char *line); /* what people should know of them. NULL: not reported */
};

int session_place_open(const struct session_place_config *config, struct place **ret,
                       struct error *err) MUST_USE;

#endif
