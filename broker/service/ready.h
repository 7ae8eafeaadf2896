/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the server can do its work. The main thread looks; probes and metrics read what it found.
 * Looking costs something (a record is written), so it looks only on request, and not again within
 * READY_FRESH_MS: without requests nothing is written.
 *
 *     ready_open() -> the main thread: ready_look() each second and when ready_descriptor() says; others: ready_ask() -> ready_end() -> ready_close()
 */
#ifndef BERTH_BROKER_SERVICE_READY_H
#define BERTH_BROKER_SERVICE_READY_H

#include "base/error.h"
#include "base/strbuf.h"

#include <pthread.h>
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

#define READY_FRESH_MS 5000 /* what was found then holds still */
#define READY_WAIT_MS \
        4000 /* that all threads wait for a look: one that hangs longer is reported to all at once */

struct ready {
        atomic_uint failing;  /* a bit for each check */
        int wakes;            /* an eventfd: a look was requested */
        pthread_mutex_t lock; /* of all below */
        pthread_cond_t looked;
        int64_t looked_ms; /* when it last looked to the end; -1: never */
        int64_t asked_ms;  /* when the first request came, while `asked` */
        uint64_t looks;
        bool asked, ended;
};

int ready_open(struct ready *ready, struct error *err) MUST_USE;
/* No request waits for a look any more. */
void ready_end(struct ready *ready);
/* After that. Both are fine where `wakes` is -1: it was never opened. */
void ready_close(struct ready *ready);

/* A descriptor that is readable once a look was requested. */
int ready_descriptor(const struct ready *ready);
/*
 * Any thread's: what ready_is() says is READY_FRESH_MS old at the most when it returns. False if no
 * look came to an end in READY_WAIT_MS since the first request: something hangs. Any client may
 * ask, and each that waits holds a seat.
 */
bool ready_ask(struct ready *ready) MUST_USE;

/*
 * Of the main thread. Checks that cost something run on request, or while something fails. What
 * fails is logged, with its reason, and again when it is well. `no_sessions`: why they are not
 * open; NULL where they are, or none are served.
 */
void ready_look(struct ready *ready, struct broker *broker, const struct error *no_sessions);
bool ready_is(const struct ready *ready, enum ready_check check);
const char *ready_name(enum ready_check check);
/*
 * Asks; "ok\n", or a line for each check that fails, without more of the reason than a client
 * without a token may know.
 */
bool ready_write(struct ready *ready, struct strbuf *ret);

#endif
