/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients that leave while their request is worked on: one thread watches all of their sockets, and
 * raises each one's interrupt (base/interrupt.h) to INTERRUPT_NOW. A socket that we shut down
 * ourselves counts as one that was left. So work that knows nothing of sockets ends with its
 * client.
 */
#ifndef BERTH_SERVER_WATCH_H
#define BERTH_SERVER_WATCH_H

#include "base/error.h"
#include "base/interrupt.h"

#include <stdbool.h>
#include <stdint.h>

struct watch;

/* One socket that is watched; of one thread, and in one place, from watch_add() to watch_remove(). */
struct watched {
        struct interrupt interrupt;
        struct watched *next;
        uint64_t number;
        int socket;
        bool added;
};

int watch_open(struct watch **ret, struct error *err) MUST_USE;
/* Nothing is watched any more. NULL is fine. */
void watch_close(struct watch *watch);

/* -1 where no descriptor is left for it. The socket is borrowed, and is closed after watch_remove(). */
int watch_add(struct watch *watch, int socket, struct watched *ret, struct error *err) MUST_USE;
/* An object that was never added is fine. */
void watch_remove(struct watch *watch, struct watched *watched);

#endif
