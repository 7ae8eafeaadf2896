/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of a shared state's log that is kept. The log would grow forever: entries and snapshots
 * older than SHARED_KEEP_MS go, but never what is needed to read the state as of any moment since
 * then.
 *
 *     the lease is held -> shared_log_put_snapshot -> shared_index_note -> shared_index_clear
 *
 * The object "index" names the snapshots that are there, and the floor: the oldest of them that
 * everything can be read from. It is changed by conditional writes, by the holder of the lease.
 * Without an index nothing was ever deleted.
 *
 * Deleting an entry frees its number, and free numbers are what keeps writers apart. So:
 *
 *   - The floor is raised first, and what lies below it is deleted after that. A process that has
 *     read the log from a remembered place asks for the floor afterwards (shared_index_keeps): if
 *     it has passed that place, the entries read mean nothing.
 *   - The floor is a snapshot that is SHARED_KEEP_MS old by the store's clock. A writer believes its own write only if it holds
 *     the lease still when the answer has come: one that slept for so long that its number was freed does not.
 *   - Objects that such a writer, or a request that was long under way, may leave below the floor
 *     are never read.
 */
#ifndef BERTH_STATE_SHARED_INDEX_H
#define BERTH_STATE_SHARED_INDEX_H

#include "state/shared_log.h"

#define SHARED_INDEX_KEY "index"
#define SHARED_KEEP_DAYS 30
#define SHARED_DAY_MS ((int64_t)24 * 60 * 60 * 1000)
#define SHARED_KEEP_MS (SHARED_KEEP_DAYS * SHARED_DAY_MS)
/*
 * A snapshot that another process reads must not go: this many of the newest stay, and the last one
 * of each day.
 */
#define SHARED_SNAPSHOTS_NEWEST 2

struct shared_snapshot {
        uint64_t number, serial;
        int64_t at_ms; /* when it was there, by the store's clock; 0: not known, and so never old */
};

struct shared_index {
        char etag[128];   /* "" if absent */
        int64_t now_ms;   /* the store's clock when it was read; 0: it did not tell */
        uint64_t floor;   /* number of a snapshot; 0: the root, and everything is there */
        uint64_t cleared; /* the entries before this number were deleted */
        const struct shared_snapshot *snapshots; /* that are there, by number; in the arena */
        size_t count;
        const uint64_t *going; /* snapshots that must be deleted, or were */
        size_t going_count;
};

/*
 * 1, or 0 if absent: *ret is as of an empty one then. Fails where it is of another lineage, or
 * makes no sense.
 */
int shared_index_read(struct object_store *store, const char *lineage, struct arena *arena,
                      struct shared_index *ret, struct error *err) MUST_USE;

/*
 * Whether nothing behind the entry `number` was deleted: 1, or 0. Asked after reading on from there: what was absent then was
 * not written yet.
 */
int shared_index_keeps(struct object_store *store, const char *lineage, uint64_t number,
                       struct error *err) MUST_USE;

/*
 * Notes a snapshot that was put at `log`, and raises the floor to the newest one that is old enough. By the lease's holder. Fails
 * where another one has changed it meanwhile.
 */
int shared_index_note(const struct shared_log *log, uint64_t serial, struct error *err) MUST_USE;

/*
 * Deletes what lies below the floor and what is no more wanted, and notes that. By the lease's holder. Where it fails, or may not
 * delete, the next one goes on.
 */
int shared_index_clear(const struct shared_log *log, struct error *err) MUST_USE;

#endif
