/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seam to the database: ordered maps from text to bytes in one file, changed by transactions. Nothing above it
 * knows LMDB; nothing in it knows what the values mean.
 *
 *     store_open -> store_read(body) | store_write(body) ... -> store_close
 *
 * A body is called with an open transaction and uses store_get, store_put, ... on it. What these return points into
 * the map and is gone when the body returns: copy it. The body of store_write() may be called more than once, each
 * time on an unchanged store, because the map grows between attempts. No body may start another transaction.
 *
 * All functions may be called by many threads at once.
 */
#ifndef BERTH_STATE_STORE_H
#define BERTH_STATE_STORE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum store_database {
        STORE_META,
        STORE_RECORDED,
        STORE_OBSERVED,
        STORE_BINDINGS,
        STORE_JOURNAL,
        STORE_OVERRIDES,
        STORE_HISTORY,
        STORE_DATABASE_COUNT,
        /* Of the other file, that of sessions' records; it has a meta of its own. */
        STORE_SESSIONS = STORE_META + 1,
        STORE_CONVERSATIONS,
        STORE_EXECUTIONS,
        STORE_KEYS,
        STORE_SESSIONS_COUNT
};

enum store_layout { STORE_OF_STATE, STORE_OF_SESSIONS };

#define STORE_DATA_FILE "data.mdb"
#define STORE_LOCK_FILE "lock.mdb"
#define STORE_KEY_MAX 511 /* bytes of a key */
/* In STORE_META: the number of the transaction that wrote last; store_write() keeps it, store_open() checks it. */
#define STORE_SEAL_KEY "transaction"

enum store_mode {
        STORE_MODE_READ,  /* the file must be there; nothing is written to it */
        STORE_MODE_WRITE, /* the file must be there */
        STORE_MODE_NEW    /* the file must not be there; every database is made, empty */
};

struct store;
struct store_txn;

struct slice {
        const void *data;
        size_t length;
};

const char *store_database_name(enum store_database database); /* of a state */
const char *store_layout_name(enum store_layout layout, enum store_database database);

/*
 * Checks the file before LMDB sees it and all of its pages before the first read. One process opens a folder once at
 * a time: LMDB's locks belong to the process, so a second open is refused.
 */
int store_open(const char *folder, enum store_mode mode, struct store **ret, struct error *err) MUST_USE;
int store_open_layout(const char *folder, enum store_layout layout, enum store_mode mode, struct store **ret,
                      struct error *err) MUST_USE;
void store_close(struct store *store); /* NULL is fine */

/*
 * Sessions' records are not synced with each commit: that costs milliseconds, and an execution
 * commits three times. A commit survives the death of any process; a power loss takes the store
 * back to the last store_sync(), whole. One thread at a time calls it. Where the layout is a
 * state's, there is nothing to do.
 */
int store_sync(struct store *store, struct error *err) MUST_USE;
#define STORE_SYNCED_FILE "synced"

typedef int store_body(struct store_txn *txn, void *context, struct error *err);

/* A consistent view; never waits for writers. Both return what the body returned, negative on failure. */
int store_read(struct store *store, store_body *body, void *context, struct error *err) MUST_USE;
/* All of it, durable when it returns, or nothing, where the body or the commit fails. */
int store_write(struct store *store, store_body *body, void *context, struct error *err) MUST_USE;

/*
 * What store_write() would change, without changing it: each put and delete of the body is told, in order; `data` NULL is a delete.
 * The body may be called more than once here too: what was told before is void then.
 */
typedef void store_told(void *context, enum store_database database, const char *key, const void *data,
                        size_t length);
int store_rehearse(struct store *store, store_body *body, void *context, store_told *told, void *told_context,
                   struct error *err) MUST_USE;
/* For a store that is a copy of what is kept elsewhere: that its file was removed or replaced fails no write. */
void store_may_vanish(struct store *store);

/* 1 and the value, or 0 if absent. */
int store_get(struct store_txn *txn, enum store_database database, const char *key, struct slice *ret,
              struct error *err) MUST_USE;
int store_put(struct store_txn *txn, enum store_database database, const char *key, const void *data,
              size_t length, struct error *err) MUST_USE;
/* A missing key counts as deleted. */
int store_delete(struct store_txn *txn, enum store_database database, const char *key,
                 struct error *err) MUST_USE;
int store_count(struct store_txn *txn, enum store_database database, size_t *ret, struct error *err) MUST_USE;

struct store_cursor;
/* All of one database in the order of keys, or backwards. */
int store_cursor_open(struct store_txn *txn, enum store_database database, bool backwards,
                      struct store_cursor **ret, struct error *err) MUST_USE;
/* The next entry is the first whose key is `key` or comes after it; backwards, the first that comes before it. */
void store_cursor_seek(struct store_cursor *cursor, const char *key);
/* 1 and an entry, 0 after the last. The key is bytes as stored, without a NUL. */
int store_cursor_next(struct store_cursor *cursor, struct slice *ret_key, struct slice *ret_value,
                      struct error *err) MUST_USE;
void store_cursor_close(struct store_cursor **cursor);
#define STORE_CURSOR_CLEANUP __attribute__((cleanup(store_cursor_close)))

/* Number of the transaction: that of the last commit when reading, that of this one when writing. */
uint64_t store_txn_number(const struct store_txn *txn);

/* The file as it is at one moment, written to an open descriptor. */
int store_copy(struct store *store, int descriptor, struct error *err) MUST_USE;
/* Checks all pages once more. */
int store_check(struct store *store, struct error *err) MUST_USE;

#endif
