/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of what a shared state consists of: entries of its log, and snapshots. Both are changes of the store behind a head:
 *
 *     "berth-log 1\n" or "berth-snapshot 1\n"
 *     the head, as one line of JSON, "\n"
 *     the changes, each: database (1 byte), 1 put or 0 delete (1 byte), lengths of key (2) and value (4), key, value
 *     SHA-256 of all before it (32 bytes): the entry's hash
 *
 * Numbers are little-endian. Values are as the store has them, sealed (sealed_value.h): what was sensitive is a keyed hash in them.
 * The hash at the end tells bytes that were cut off or changed; the next entry names it, so that a log is one chain.
 */
#ifndef BERTH_STATE_SHARED_FORM_H
#define BERTH_STATE_SHARED_FORM_H

#include "base/arena.h"
#include "base/digest.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "state/store.h"

#include <jansson.h>
#include <stdbool.h>

#define SHARED_FORM_VERSION 1
#define SHARED_FORM_MAX \
        ((size_t)1 << 30) /* bytes: no more are read of an object, so no more may be written */
#define SHARED_ID_SIZE 33 /* 16 random bytes in hex, with the NUL */
#define SHARED_LINEAGE_SIZE 37

struct shared_change {
        enum store_database database;
        const char *key;
        const void *value; /* NULL: the key is deleted */
        size_t length;
};

enum shared_kind { SHARED_LOG, SHARED_SNAPSHOT };

struct shared_entry {
        enum shared_kind kind;
        char lineage[SHARED_LINEAGE_SIZE];
        uint64_t
                number; /* of the commit, from 1 on; of a snapshot: it is the state after this one, 0 for the first */
        uint64_t epoch;          /* how often the lease was taken until then */
        uint64_t serial;         /* the state's, after this commit */
        char id[SHARED_ID_SIZE]; /* random, of this one writing */
        /* Of the entry before; of a snapshot: the entry's of the same number. Zeroes for number 1, and for snapshot 0. */
        uint8_t previous[SHA256_SIZE];
        int64_t at_ms;                           /* wall time of its writer: for people */
        const char *who, *host, *command, *note; /* "anna@ci-7"; NULL where not known */
        const struct shared_change *changes;
        size_t count;
        uint8_t hash[SHA256_SIZE]; /* of the bytes; set by both functions */
};

/* 16 random bytes. */
void shared_new_id(char ret[SHARED_ID_SIZE]);

/* From 64 hex digits; false if the text, which may be NULL, is not such a one. */
bool shared_hash_read(const char *hex, uint8_t ret[SHA256_SIZE]);
/* The member, 0 or more; false where it is something else, *ret undefined. */
bool shared_number_read(const json_t *object, const char *name, uint64_t *ret);

/* Appends the bytes; sets entry->hash. -1 where a key, a value or all of it is too long. */
int shared_form_write(struct shared_entry *entry, struct strbuf *ret, struct error *err) MUST_USE;
/*
 * All of *ret lives in the arena, or is borrowed from `bytes`. Fails where anything is not as it is written above, and by
 * "is newer" where the version is. `place` is named in errors.
 */
int shared_form_read(const char *bytes, size_t length, enum shared_kind kind, const char *place,
                     struct arena *arena, struct shared_entry *ret, struct error *err) MUST_USE;

#endif
