/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copy of a shared state on this machine: a store as a state's folder has it, and where in the
 * log it stands. It may be lost, damaged or out of date at any time, and is then made again; it is
 * never believed over the log.
 *
 * It lies in $XDG_CACHE_HOME/berth/LINEAGE (~/.cache where that is not set). Where no such folder can be made it lies in a temporary
 * one, which goes with the state. What killed processes have left of either kind the next one removes.
 *
 * Processes of one machine may use one copy: an entry is applied by the first process that reads
 * it, in one transaction with the place.
 */
#ifndef BERTH_STATE_SHARED_CACHE_H
#define BERTH_STATE_SHARED_CACHE_H

#include "state/shared_log.h"
#include "state/store.h"

#include <stdbool.h>

#define SHARED_CACHE_META "shared" /* where the copy stands, in STORE_META; of this machine alone */

/* Where a copy stands in the log, and what a reader without one would have to read. */
struct shared_place {
        uint64_t number, epoch;
        uint64_t snapshot;       /* number of the newest snapshot known, 0 for the root */
        uint64_t snapshot_bytes; /* of its changes */
        uint64_t log_bytes;      /* of the entries' changes behind it */
        uint8_t hash[SHA256_SIZE];
};

struct shared_cache {
        char *folder; /* owned */
        bool temporary;
        int mark; /* a descriptor whose lock says that a temporary folder's process lives; 0 and less: none */
        struct store *store;
        struct shared_place place; /* as of the last call */
};
#define SHARED_CACHE_INIT \
        { 0 }
/* Closes the store; removes what is temporary. */
void shared_cache_close(struct shared_cache *cache);

/* Makes an empty folder that goes with the cache. */
int shared_cache_temporary(struct shared_cache *ret, struct error *err) MUST_USE;

/* Opens the copy of that lineage. -1: there is no usable one. */
int shared_cache_open(const char *lineage, struct shared_cache *ret, struct error *err) MUST_USE;
/* Makes it again, from the root or a snapshot that `log` stands at. */
int shared_cache_make(const struct shared_log *log, const struct shared_entry *base, struct shared_cache *ret,
                      struct error *err) MUST_USE;
/* The same beside it, to go when it is closed: what was before is no copy for others. */
int shared_cache_make_aside(const struct shared_log *log, const struct shared_entry *base,
                            struct shared_cache *ret, struct error *err) MUST_USE;
/*
 * Applies the entries that follow where the copy stands, in one transaction. Fine where another
 * process has applied some of them already; *ret_gap if the copy stands elsewhere: make it again.
 */
int shared_cache_apply(struct shared_cache *cache, const struct shared_entry *entries, size_t count,
                       bool *ret_gap, struct error *err) MUST_USE;
/* Puts and deletes, but nothing that is not shared. */
int shared_cache_put(struct store_txn *txn, const struct shared_change *changes, size_t count,
                     struct error *err) MUST_USE;
/* Fails where the copy does not stand where `log` does: what is read there is not what comes before the next entry. */
int shared_cache_check(struct store_txn *txn, const struct shared_log *log, struct error *err) MUST_USE;
/* A snapshot of where it stands is there now. */
int shared_cache_note_snapshot(struct shared_cache *cache, uint64_t bytes, struct error *err) MUST_USE;
/* All that it holds but what is of this machine alone; in the arena. */
int shared_cache_dump(struct store *store, struct arena *arena, struct shared_change **ret, size_t *ret_count,
                      struct error *err) MUST_USE;
/* The same, and fails as shared_cache_check() does where the copy stands elsewhere than `log`: others of this machine read on. */
int shared_cache_dump_at(struct store *store, const struct shared_log *log, struct arena *arena,
                         struct shared_change **ret, size_t *ret_count, struct error *err) MUST_USE;

enum shared_difference { SHARED_NEW, SHARED_OTHER, SHARED_GONE };
typedef void shared_told(void *context, enum shared_difference difference,
                         const struct shared_change *change);
/* Tells each change that makes `now` into `then`; both in the order in which shared_cache_dump() has them. */
void shared_cache_compare(const struct shared_change *now, size_t now_count, const struct shared_change *then,
                          size_t then_count, shared_told *told, void *context);

/* Whether a value is part of the shared state: neither the store's own, nor this machine's, nor a folder's lease. */
bool shared_cache_is_shared(enum store_database database, const char *key);
uint64_t shared_changes_bytes(const struct shared_change *changes, size_t count);

#endif
