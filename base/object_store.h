/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store of objects by key, such as S3, behind a seam: its user does not know how it is reached. A
 * body must guarantee:
 *
 *   - an object is written whole or not at all, and what was written is what every later get and put by condition sees;
 *   - of two puts with the same condition at most one succeeds;
 *   - list may lag behind, and is not to be relied on for what is missing from it.
 *
 * A call whose answer is lost may have been carried out, now or later: OBJECT_UNKNOWN. A body may
 * make such a call again by itself, so that OBJECT_MOVED may mean that its own first try succeeded:
 * a caller that puts must be able to recognise its own bytes.
 *
 * All functions wait, and may be called by many threads at once.
 */
#ifndef BERTH_BASE_OBJECT_STORE_H
#define BERTH_BASE_OBJECT_STORE_H

#include "base/arena.h"
#include "base/error.h"
#include "base/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum object_outcome {
        OBJECT_DONE,
        OBJECT_ABSENT, /* no object of that key; of put_if_match too */
        OBJECT_MOVED,  /* the condition does not hold, or two wrote at once: see above */
        OBJECT_UNKNOWN /* no answer that tells; `err` says what is known. The bytes may appear later */
};

/* What an answer told; zeroes and "" for what it did not. */
struct object_answer {
        char etag[128];      /* the object's, for put_if_match: opaque */
        int64_t date_ms;     /* the store's clock as it answered, in whole seconds */
        int64_t modified_ms; /* when the object was written, by that same clock; get only */
        struct strbuf body;  /* get only, whole */
};
#define OBJECT_ANSWER_INIT \
        { .body = STRBUF_SECRET }
void object_answer_release(struct object_answer *answer);
#define OBJECT_ANSWER_CLEANUP __attribute__((cleanup(object_answer_release)))

struct object_store;

/*
 * Keys are relative to the store's place, without a slash in front. Each returns one of enum
 * object_outcome, or -1 with err: refused, and surely not carried out (no right, no such bucket).
 * `err` is set for OBJECT_UNKNOWN too. The answer's former content is released.
 */
struct object_store_ops {
        int (*get)(struct object_store *store, const char *key, struct object_answer *ret, struct error *err);
        int (*put_if_absent)(struct object_store *store, const char *key, const void *bytes, size_t length,
                             struct object_answer *ret, struct error *err);
        int (*put_if_match)(struct object_store *store, const char *key, const char *etag, const void *bytes,
                            size_t length, struct object_answer *ret, struct error *err);
        /* All keys that begin with the prefix, in order. */
        int (*list)(struct object_store *store, const char *prefix, struct arena *arena, const char ***ret,
                    size_t *ret_count, struct error *err);
        /*
         * Deletes these, at most 1,000; what is not there is fine. Where versions are kept an older one stays. Where it fails some may
         * be gone.
         */
        int (*remove)(struct object_store *store, const char *const *keys, size_t count, struct error *err);
        /* Whether what is overwritten or deleted stays as an older version. -1: not known (no right to ask). */
        int (*keeps_versions)(struct object_store *store, bool *ret, struct error *err);
        void (*close)(struct object_store *store); /* NULL is fine */
};

/* A body's own struct begins with this one. */
struct object_store {
        const struct object_store_ops *ops;
        const char *place; /* for messages: "s3://bucket/prefix"; lives as long as the store */
};

#endif
