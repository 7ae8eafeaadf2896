/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of a shared state: its commits, an immutable object each, that every client may read and
 * only one can write next.
 *
 *     shared_log_begin (the root) [-> shared_log_snapshot] -> shared_log_next ... 0: the end -> shared_log_append ...
 *     or from a place that is remembered: shared_log_next ... 0 -> shared_log_holds of that place
 *
 * Objects:
 *
 *     state                       the root: a snapshot of number 0, which gives the state its lineage. It is made last when a state
 *                                 is made, and never changes or goes.
 *     log/000000000001            commit 1, put only where it is absent: so of all who want to write it one does
 *     snapshot/000000000064       the state as of commit 64, which saves reading those before
 *     lease                       who may write: shared_lease.h
 *
 *     index                       which snapshots are there, and what of the log is kept: shared_index.h
 *
 * A log is read by numbers until one is absent: a list is asked only for a snapshot to begin with,
 * where there is no index yet, and one that lags costs time, never commits. Nothing of it is ever
 * overwritten. A process that reads on from a remembered place asks the index afterwards whether
 * that place is still one to read on from.
 */
#ifndef BERTH_STATE_SHARED_LOG_H
#define BERTH_STATE_SHARED_LOG_H

#include "base/object_store.h"
#include "state/shared_form.h"

#define SHARED_ROOT "state"
#define SHARED_LOG_PREFIX "log/"
#define SHARED_SNAPSHOT_PREFIX "snapshot/"
#define SHARED_KEY_SIZE 40

/* A place in the log. Copy it to remember a place. */
struct shared_log {
        struct object_store *store; /* borrowed */
        char lineage[SHARED_LINEAGE_SIZE];
        uint64_t number;           /* of the last entry known; 0: none yet */
        uint8_t hash[SHA256_SIZE]; /* its hash; zeroes for 0 */
        uint64_t epoch;            /* its epoch */
};

/* "log/000000000007". */
void shared_log_key(const char *prefix, uint64_t number, char ret[SHARED_KEY_SIZE]);

/*
 * Makes the root, with the changes that the state begins with. 0 where it is there now and ours;
 * ERROR_LOCKED if another process has made one meanwhile.
 */
int shared_log_create(struct object_store *store, struct shared_entry *root, struct error *err) MUST_USE;

/* Reads the root: 1 and the entry with its changes, in the arena; *ret_log at 0. 0 where there is no state. */
int shared_log_begin(struct object_store *store, struct arena *arena, struct shared_log *ret_log,
                     struct shared_entry *ret_root, struct error *err) MUST_USE;

/*
 * The newest snapshot that has `serial` or an earlier one: 1 with its changes in the arena, and
 * `log`, which stands at the root, moved there; 0 without a snapshot: everything must be read from
 * the root. ERROR_NOT_FOUND where the entries from there to that serial are no longer kept.
 */
#define SHARED_SERIAL_NEWEST UINT64_MAX
int shared_log_snapshot(struct shared_log *log, uint64_t serial, struct arena *arena,
                        struct shared_entry *ret, struct error *err) MUST_USE;

/* One snapshot: 1 and `log` moved there, 0 if absent. */
int shared_log_snapshot_at(struct shared_log *log, uint64_t number, struct arena *arena,
                           struct shared_entry *ret, struct error *err) MUST_USE;

/*
 * The next entry: 1 with its changes in the arena, and `log` moved there; 0 at the end. Fails where
 * it does not follow the one before: the objects were replaced by others, or `log` was made from
 * other ones.
 */
int shared_log_next(struct shared_log *log, struct arena *arena, struct shared_entry *ret,
                    struct error *err) MUST_USE;

/*
 * The same for the next ones, SHARED_LOG_AT_ONCE at the most, which are asked for at once: a log of many entries takes as long as
 * its bytes, not as long as its entries' round trips. 1 where more may follow, 0 at the end; *ret_count entries in both cases.
 * ret_holds, if not NULL: whether shared_log_holds() of where `log` stood, asked for in the same moment; what was read counts then only.
 */
#define SHARED_LOG_AT_ONCE 16
int shared_log_next_many(struct shared_log *log, size_t at_most, struct arena *arena,
                         struct shared_entry ret[SHARED_LOG_AT_ONCE], size_t *ret_count, bool *ret_holds,
                         struct error *err) MUST_USE;

/* Whether the entry that `log` stands at is there and the very one: 1, or 0: what was remembered is of another log. */
int shared_log_holds(const struct shared_log *log, struct error *err) MUST_USE;

enum shared_append {
        SHARED_APPENDED,
        SHARED_TAKEN /* another writer's entry has this number */
};
/*
 * Puts `entry` behind `log`; sets its kind, lineage, number, previous and hash, and moves `log`
 * there. Each call needs an id of its own (shared_new_id()). A lost answer is asked for by reading
 * what lies there now. -1: not known or refused; the entry may still appear, and `log` has not
 * moved: a caller that goes on reads on first.
 */
int shared_log_append(struct shared_log *log, struct shared_entry *entry, struct error *err) MUST_USE;

/* Writes the whole state as of `log` for later readers; fine where there is one already. */
int shared_log_put_snapshot(const struct shared_log *log, struct shared_entry *snapshot,
                            struct error *err) MUST_USE;

#endif
