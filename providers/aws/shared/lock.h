/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lock that runs on different machines heed: an object in the bucket, which only one of them can make.
 *
 *     lock_take -> LOCK_HELD -> ... -> lock_release
 *              \-> LOCK_BUSY -> lock_look -> LOCK_FREE: lock_take again
 *                                       \-> LOCK_BUSY: wait, then lock_look again
 *                                       \-> LOCK_STALE -> lock_take_over -> LOCK_HELD, or LOCK_BUSY: lock_look again
 *
 * Each is one call, for a stage of its own. A lock is held for LOCK_LEASE_MS from its taking. It is stale, and may be taken
 * over, when that time is over; when its holder was a process of this very machine that is gone; or when its holder is
 * this process, for this stack: the answer to our taking was lost. The caller lets one change of a stack at a time in,
 * whatever the number of threads. Taking over is conditional on the object being the one that was looked at, so that of
 * two who try one succeeds.
 *
 * No wall clock of a machine is trusted, since two machines' clocks differ by minutes. How old a
 * lock is S3 says: the Date of its answer less the object's Last-Modified, both by S3's clock.
 * Where a server gives only one of them, the lock is stale once this process has seen the same
 * object for a whole lease. A holder counts its own time from its request to take it, and renews
 * the lock, by lock_take_over() with its own ETag, once half of the lease is over and before it
 * relies on it again: the other half is for what is on its way. Each taking writes other bytes, so
 * that no two of them share an ETag.
 *
 * The known state of the lock travels in progress->data: lockEtag while it is held; lockSeen and
 * lockSeenAtMs of another's.
 */
#ifndef BERTH_PROVIDERS_AWS_SHARED_LOCK_H
#define BERTH_PROVIDERS_AWS_SHARED_LOCK_H

#include "providers/aws/services/s3.h"
#include "providers/aws/shared/stage.h"

#include <stdbool.h>

#define LOCK_LEASE_MS 60000

enum lock_result {
        LOCK_HELD = 10, /* apart from enum step_result and STAGE_OVER */
        LOCK_BUSY,
        LOCK_STALE,
        LOCK_FREE,
        LOCK_NO_BUCKET
};

/*
 * All return one of enum lock_result, STEP_AGAIN, or -1 with err. `key` names the object, `stack` is written into it for
 * people.
 */
int lock_take(struct stage_turn *turn, const struct s3_bucket *bucket, const char *key) MUST_USE;
int lock_look(struct stage_turn *turn, const struct s3_bucket *bucket, const char *key) MUST_USE;
int lock_take_over(struct stage_turn *turn, const struct s3_bucket *bucket, const char *key) MUST_USE;
/* LOCK_FREE, also if another holder has taken it over meanwhile. */
int lock_release(struct stage_turn *turn, const struct s3_bucket *bucket, const char *key) MUST_USE;

/* Whether our lease has so little left that it must be renewed. */
bool lock_is_ageing(const struct stage_turn *turn);

/* Pure parts, for tests: the object's text; whether a lock of that age (-1: not known) is stale, by it or by its text. */
char *lock_body(const char *stack, const char *process, const char *holder, const char *taking); /* free() */
struct lock_viewer {
        const char *stack, *process; /* who looks */
        bool (*is_gone)(const char *process);
};
bool lock_is_stale(const char *text, size_t length, int64_t age_ms, const struct lock_viewer *viewer);

#endif
