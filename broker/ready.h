/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the server can do what it is there for. The main thread looks, now and then; probes and metrics read what it found, so that
 * asking costs nothing.
 */
#ifndef BERTH_BROKER_READY_H
#define BERTH_BROKER_READY_H

#include "base/error.h"
#include "base/strbuf.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum ready_check {
        READY_STATE,    /* what was applied can be read */
        READY_SESSIONS, /* the stack's sessions could be opened; a stack without any is fine */
        READY_RECORDS,  /* a record of sessions can be written */
        READY_PLACE,    /* a sandbox could be started */
        READY_DISK,     /* workspaces.minFreeMB is free */
        READY_CHECKS
};

struct broker;

struct ready {
        atomic_uint failing; /* a bit for each check */
        int64_t next_ms;     /* when those that cost something are made again */
};

/*
 * Of the main thread. What fails is logged, with its reason, and again when it is well. `no_sessions`: why they are not open; NULL where
 * they are, or none are served.
 */
void ready_look(struct ready *ready, struct broker *broker, const struct error *no_sessions);
bool ready_is(const struct ready *ready, enum ready_check check);
const char *ready_name(enum ready_check check);
/* "ok\n", or a line for each check that fails, without more of the reason than who has no token may know. */
bool ready_write(const struct ready *ready, struct strbuf *ret);

#endif
