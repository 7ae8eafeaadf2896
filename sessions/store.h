/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the engine's records lie: tables of items, each with a version, changed under conditions. Who loses a race is decided here,
 * whoever else writes: the body may be a file of this machine's or a table that many servers share. What the items mean is
 * the engine's (record.h); nothing here knows it.
 *
 *      get -> look at it -> write({item, expect its version}) -> 1: done; 0: somebody was faster, begin again
 *
 * What 1 was returned for survives the death of any process at once, and a power loss after at most one second. All functions may
 * be called by many threads at once.
 */
#ifndef BERTH_SESSIONS_STORE_H
#define BERTH_SESSIONS_STORE_H

#include "base/arena.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum session_table {
        SESSION_TABLE_SESSIONS,      /* OWNER/SESSION */
        SESSION_TABLE_CONVERSATIONS, /* OWNER/digest: which session it has */
        SESSION_TABLE_EXECUTIONS,    /* OWNER/SESSION/number in 10 digits */
        SESSION_TABLE_KEYS,          /* digest of client, owner, route and Idempotency-Key */
        SESSION_TABLE_COUNT
};

#define SESSION_KEY_MAX 256 /* bytes of a key: printable ASCII */
#define SESSION_VALUE_MAX \
        ((size_t)384 << 10)    /* bytes of a value: what one item of DynamoDB's holds, less its names */
#define SESSION_CHANGES_MAX 25 /* of one write */
#define SESSION_WRITE_MAX ((size_t)3584 << 10) /* bytes of the values of one write: DynamoDB takes 4 MB */

struct session_item {
        enum session_table table;
        const char *key;
        const char *value; /* text */
        uint64_t version;  /* 1 when it is made, one more with each change */
};

enum session_expect {
        SESSION_EXPECT_NOTHING, /* whatever is there */
        SESSION_EXPECT_ABSENT,  /* no item of that key */
        SESSION_EXPECT_VERSION  /* an item of exactly that version */
};

struct session_change {
        enum session_table table;
        const char *key;
        const char *value; /* NULL: it is deleted. The same text as before: a condition on it alone */
        enum session_expect expect;
        uint64_t version;
};

struct session_store;

/* What a body implements. Versions first, so that a body of another time is seen. */
struct session_store_class {
        /* 1 and the item, in the arena; 0 where there is none. */
        int (*get)(struct session_store *store, enum session_table table, const char *key,
                   struct arena *arena, struct session_item *ret, struct error *err);
        /*
         * All changes, and 1; or none, and 0 where a condition does not hold. Of one key there is one change. -1: none of them, or, where
         * the store is reached over a network that lost every answer, nobody knows; the error says so then. ERROR_REFUSED: the
         * store does not take this, and another try will fare no better (what is in it, rights, no such table). The counts and sizes above are
         * seen to before, and are refused so as well.
         */
        int (*write)(struct session_store *store, const struct session_change *changes, size_t count,
                     struct error *err);
        /*
         * Items whose key begins with `prefix` and comes after `after` (NULL: from the first), at most `limit`, in the order of
         * keys, or from the last one backwards (then such as come before `after`). In the arena.
         */
        int (*list)(struct session_store *store, enum session_table table, const char *prefix,
                    const char *after, bool backwards, size_t limit, struct arena *arena,
                    struct session_item **ret, size_t *ret_count, struct error *err);
        void (*close)(struct session_store *store);
        /*
         * Other servers have it too, beyond a network: a call may take long, and what was read here may have been changed there since. Of
         * one that is not, a call returns at once, and this process alone has it.
         */
        bool shared;
        /* Items that the record says may go (record_expires_ms()) are gone by then without anybody's doing. */
        bool expires;
};

/* A body's own structure begins with this. */
struct session_store {
        const struct session_store_class *class;
};

int session_store_get(struct session_store *store, enum session_table table, const char *key,
                      struct arena *arena, struct session_item *ret, struct error *err) MUST_USE;
int session_store_write(struct session_store *store, const struct session_change *changes, size_t count,
                        struct error *err) MUST_USE;
int session_store_list(struct session_store *store, enum session_table table, const char *prefix,
                       const char *after, bool backwards, size_t limit, struct arena *arena,
                       struct session_item **ret, size_t *ret_count, struct error *err) MUST_USE;
void session_store_close(struct session_store *store); /* NULL is fine */

/*
 * The body on this machine, in LMDB: `folder` is made where it is missing. One engine has it open at a time, in this process and in
 * all others: ERROR_LOCKED.
 */
int session_store_open(const char *folder, struct session_store **ret, struct error *err) MUST_USE;

#endif
