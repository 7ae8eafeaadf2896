/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store that many servers share, beyond a network that has its moods: a store of this machine's that says so. Calls can be made to stand
 * still, and to fail in each way in which those of a table far away do.
 */
#ifndef BERTH_TESTS_UNIT_SESSIONS_SHARED_STORE_H
#define BERTH_TESTS_UNIT_SESSIONS_SHARED_STORE_H

#include "sessions/store.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct shared_store {
        struct session_store store; /* first */
        struct session_store *below;
        /* Writes with a key that has this in it stand still, while the gate is shut; NULL: none do. */
        _Atomic(const char *) slow_key;
        _Atomic(const char *) slow_answer; /* the same once they are made */
        pthread_mutex_t shut;
        atomic_int standing;
        /* So many of the next writes: */
        atomic_int lose;   /* are made, and the answer is lost */
        atomic_int refuse; /* are not made, and the caller does not learn that */
        atomic_int fail_gets;
        atomic_int gets, writes, lists, changes;
        /*
         * This server is cut off: no call of it comes through. Writes that tell that it lives are
         * not counted, and fail in no other way.
         */
        atomic_bool down;
        atomic_bool mute; /* only those do not come through */
        bool borrowed;    /* `below` is another's, too */
};

static inline bool shared_is_beat(const char *key) {
        return strncmp(key, "~server/", 8) == 0;
}

static inline int shared_is_down(struct shared_store *shared, struct error *err) {
        return atomic_load(&shared->down)
                       ? error_set_kind(err, ERROR_UNREACHABLE, "the table is not in reach")
                       : 0;
}

static inline bool shared_take(atomic_int *count) {
        int left = atomic_load(count);

        while (left > 0) {
                if (atomic_compare_exchange_weak(count, &left, left - 1))
                        return true;
        }
        return false;
}

static inline int shared_get(struct session_store *store, enum session_table table, const char *key,
                             struct arena *arena, struct session_item *ret, struct error *err) {
        struct shared_store *shared = (struct shared_store *)store;

        if (shared_is_down(shared, err) < 0)
                return -1;
        atomic_fetch_add(&shared->gets, 1);
        if (shared_take(&shared->fail_gets))
                return error_set_kind(err, ERROR_UNREACHABLE, "the table does not answer");
        return session_store_get(shared->below, table, key, arena, ret, err);
}

/* While the gate is shut, where one of the keys has it. */
static inline void shared_stand(struct shared_store *shared, const struct session_change *changes,
                                size_t count, const char *slow) {
        for (size_t i = 0; slow && i < count; i++) {
                if (!strstr(changes[i].key, slow))
                        continue;
                atomic_fetch_add(&shared->standing, 1);
                pthread_mutex_lock(&shared->shut);
                pthread_mutex_unlock(&shared->shut);
                return;
        }
}

static inline int shared_write(struct session_store *store, const struct session_change *changes,
                               size_t count, struct error *err) {
        struct shared_store *shared = (struct shared_store *)store;
        int stored;

        if (shared_is_down(shared, err) < 0)
                return -1;
        if (count == 1 && shared_is_beat(changes->key) && atomic_load(&shared->mute))
                return error_set_kind(err, ERROR_UNREACHABLE, "the table does not answer");
        if (count == 1 && shared_is_beat(changes->key))
                return session_store_write(shared->below, changes, count, err);
        atomic_fetch_add(&shared->writes, 1);
        atomic_fetch_add(&shared->changes, (int)count);
        shared_stand(shared, changes, count, atomic_load(&shared->slow_key));
        if (shared_take(&shared->refuse))
                return error_set(err, "whether it was written is not known");
        if (shared_take(&shared->lose)) {
                stored = session_store_write(shared->below, changes, count, err);
                return stored < 0 ? -1 : error_set(err, "whether it was written is not known");
        }
        stored = session_store_write(shared->below, changes, count, err);
        shared_stand(shared, changes, count, atomic_load(&shared->slow_answer));
        return stored;
}

static inline int shared_list(struct session_store *store, enum session_table table, const char *prefix,
                              const char *after, bool backwards, size_t limit, struct arena *arena,
                              struct session_item **ret, size_t *ret_count, struct error *err) {
        struct shared_store *shared = (struct shared_store *)store;

        if (shared_is_down(shared, err) < 0)
                return -1;
        atomic_fetch_add(&shared->lists, table != SESSION_TABLE_KEYS && !shared_is_beat(prefix));
        return session_store_list(shared->below, table, prefix, after, backwards, limit, arena, ret,
                                  ret_count, err);
}

static inline void shared_close(struct session_store *store) {
        struct shared_store *shared = (struct shared_store *)store;

        if (!shared->borrowed)
                session_store_close(shared->below);
        pthread_mutex_destroy(&shared->shut);
        free(shared);
}

static const struct session_store_class shared_class = {
        .get = shared_get, .write = shared_write, .list = shared_list, .close = shared_close, .shared = true
};

/* `below` goes with it. */
static inline struct shared_store *shared_store_new(struct session_store *below) {
        struct shared_store *shared = calloc(1, sizeof(*shared));

        if (!shared)
                abort();
        shared->store.class = &shared_class;
        shared->below = below;
        pthread_mutex_init(&shared->shut, NULL);
        return shared;
}

#endif
