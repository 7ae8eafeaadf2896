/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the Idempotency-Keys of each owner take up, with the answers that are kept under them. Pure: it is told what was written and when,
 * and the caller has the lock.
 *
 * Bytes are added up by the hour, and an hour is forgotten once all of its keys are older than a day. So nothing is
 * subtracted when the store drops a record, and no sum can drift.
 */
#ifndef BERTH_SESSIONS_ONCE_SHARE_H
#define BERTH_SESSIONS_ONCE_SHARE_H

#include "sessions/record.h"

#define ONCE_SHARE_BUCKETS 1024

struct once_share;

struct once_shares {
        struct once_share *buckets[ONCE_SHARE_BUCKETS];
};

/* `owner` is a record_digest() everywhere; `at_ms` is what the record says. Nothing where that is more than a day ago. */
void once_share_add(struct once_shares *shares, const char *owner, uint64_t bytes, int64_t at_ms,
                    int64_t now_ms);
/* Of what was added last. */
void once_share_take(struct once_shares *shares, const char *owner, uint64_t bytes);
/* *ret_frees_ms: when the oldest keys are forgotten; `now_ms` if the owner has no keys. */
uint64_t once_share_bytes(const struct once_shares *shares, const char *owner, int64_t now_ms,
                          int64_t *ret_frees_ms);
void once_shares_clear(struct once_shares *shares);

#endif
