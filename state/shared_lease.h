/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lease of a shared state: one object, changed by conditional writes alone, so that one run at a time changes the state.
 *
 *     shared_lease_take -> (append "taken" to the log) -> shared_lease_renew every SHARED_LEASE_RENEW_MS ... -> shared_lease_release
 *
 * No machine's wall clock is trusted. How old the lease is the store says: Date less Last-Modified
 * of one and the same answer. It has expired when that is more than SHARED_LEASE_MS. Its holder
 * counts from before the request that wrote it, by its own monotonic clock, and stops
 * SHARED_LEASE_MARGIN_MS earlier: both count the same time, and the holder began to count first. A
 * holder whose process is seen to be dead, on this machine, has lost it at once.
 *
 * The lease alone does not fence: a process that was stopped for a minute may still believe in it. So the first thing that a new
 * holder does is to write the next entry of the log; from then on the old one's next entry has a number that is taken.
 *
 * Every writing has other bytes, so that no two share an ETag. A released lease stays as an object that says so: taking it is then
 * the same conditional write as taking an expired one, and nothing is ever deleted.
 */
#ifndef BERTH_STATE_SHARED_LEASE_H
#define BERTH_STATE_SHARED_LEASE_H

#include "base/arena.h"
#include "base/clock.h"
#include "base/object_store.h"
#include "state/shared_form.h"

#include <stdbool.h>

#define SHARED_LEASE_KEY "lease"
#define SHARED_LEASE_MS 30000
#define SHARED_LEASE_RENEW_MS 10000
#define SHARED_LEASE_MARGIN_MS 5000
/* Date and Last-Modified are whole seconds, cut off: their difference may be a second too much. */
#define SHARED_LEASE_SECOND_MS 1000

/* As its holder has it. */
struct shared_lease {
        struct object_store *store; /* borrowed, as the clock */
        const struct clock *clock;
        char id[SHARED_ID_SIZE]; /* of this taking */
        char etag[128];
        uint64_t renewals;
        int64_t asked_ms; /* monotonic: before the request that wrote what counts now was sent */
        bool held;        /* false after it was lost or released */
        /* Its description of its holder; the lease's own copies. */
        char process[96], who[160], host[256], command[96];
        long pid;
        int64_t since_ms; /* wall time, for people */
};

/* As others see it; texts in the arena. */
struct shared_lease_seen {
        char id[SHARED_ID_SIZE]; /* "" where it is released */
        char etag[128];
        uint64_t renewals;
        const char *process, *who, *host, *command; /* any but process may be NULL */
        long pid;
        int64_t since_ms; /* wall time of the holder */
        int64_t age_ms;   /* by the store's clock; -1: it did not tell */
        bool alive;       /* held, and neither expired nor its process seen dead */
};

/* 1 and what stands there, 0 where there never was a lease. */
int shared_lease_look(struct object_store *store, struct arena *arena, struct shared_lease_seen *ret,
                      struct error *err) MUST_USE;

/*
 * Takes it, or fails with ERROR_LOCKED and a message that names its holder and how to release it by hand. `force`: also from one
 * that is alive, and what is no lock is written over. `who`, "anna", and the command are for people.
 */
int shared_lease_take(struct object_store *store, const struct clock *clock, const char *who,
                      const char *command, bool force, struct shared_lease *ret, struct error *err) MUST_USE;

/*
 * 0: it holds again from before this call. -1: ERROR_LOCKED where it is another's now, and `held`
 * is false; else nothing is known or it was refused: try again until shared_lease_left_ms() says
 * that it is over.
 */
int shared_lease_renew(struct shared_lease *lease, struct error *err) MUST_USE;

/* For how long its holder may rely on it: 0 where no more. */
int64_t shared_lease_left_ms(const struct shared_lease *lease);

/* Says that it is free; where that fails it expires. Another's is left alone. */
void shared_lease_release(struct shared_lease *lease);

/* "process 4711 on ci-7 (anna: apply, since 2026-01-31T12:00:00Z)", into the arena. */
const char *shared_lease_holder(const struct shared_lease_seen *seen, struct arena *arena);

#endif
