/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log is replayed into a copy aside, from one place that the whole state can be read from (the root, or a snapshot) to the next.
 * Where an entry is damaged or missing, it goes on from the next such place.
 */
#include "state/shared_verify.h"

#include "state/shared_index.h"
#include "state/state_parts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct verify {
        struct object_store *store;
        struct shared_log log; /* how far it was read */
        struct shared_cache replay;
        bool whole; /* the replay is the state as of `log` */
        struct arena *arena;
        shared_problem *tell;
        void *context;
        size_t told;
};

static void tell_text(struct verify *verify, const char *text) {
        verify->told++;
        verify->tell(verify->context, text);
}

static void report_problem(struct verify *verify, const char *what, uint64_t number, const char *problem) {
        char key[SHARED_KEY_SIZE];

        shared_log_key(what, number, key);
        tell_text(verify, arena_printf(verify->arena, "%s/%s %s", verify->store->place, key, problem));
}

/* Messages of what was read name the object themselves. */
static void tell_error(struct verify *verify, const struct error *failure) {
        tell_text(verify, arena_strdup(verify->arena, failure->message));
}

/* Comparing */

static bool counts(const struct shared_change *change) {
        return change->database != STORE_OBSERVED &&
               (change->database != STORE_META || strncmp(change->key, META_TEXT, strlen(META_TEXT)) != 0);
}

static void find_difference(void *context, enum shared_difference difference,
                            const struct shared_change *change) {
        const char **first = context;

        (void)difference;
        if (!*first && counts(change))
                *first = change->key;
}

/* The key of the first thing that differs; NULL where nothing does. */
static int compare(struct store *replay, const struct shared_change *changes, size_t count,
                   struct arena *arena, const char **ret, struct error *err) {
        struct shared_change *now;
        size_t now_count;

        *ret = NULL;
        if (shared_cache_dump(replay, arena, &now, &now_count, err) < 0)
                return -1;
        shared_cache_compare(now, now_count, changes, count, find_difference, ret);
        return 0;
}

/* From place to place */

static void begin_again(struct verify *verify) {
        shared_cache_close(&verify->replay);
        verify->whole = false;
}

/* A snapshot as the next place: compared with what was replayed, or begun from where that did not come so far. */
static int check_snapshot(struct verify *verify, uint64_t number, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct shared_log there = verify->log;
        struct shared_entry snapshot;
        struct error failure = { 0 };
        const char *difference;
        int found = shared_log_snapshot_at(&there, number, arena, &snapshot, &failure);

        if (found <= 0) {
                if (found < 0)
                        tell_error(verify, &failure);
                else
                        report_problem(verify, SHARED_SNAPSHOT_PREFIX, number, "is gone");
                return 0;
        }
        if (!verify->whole || verify->log.number != number) {
                begin_again(verify);
                verify->log = there;
                if (shared_cache_make_aside(&verify->log, &snapshot, &verify->replay, err) < 0)
                        return -1;
                verify->whole = true;
                return 0;
        }
        if (memcmp(verify->log.hash, there.hash, sizeof(there.hash)) != 0) {
                report_problem(verify, SHARED_SNAPSHOT_PREFIX, number, "is not of the entry of its number");
                return 0;
        }
        if (compare(verify->replay.store, snapshot.changes, snapshot.count, arena, &difference, err) < 0)
                return -1;
        if (difference)
                report_problem(verify, SHARED_SNAPSHOT_PREFIX, number,
                               arena_printf(verify->arena, "is not what the log makes of it: \"%s\" differs",
                                            difference));
        return 0;
}

/* 1 where more may follow, 0 at the end, -1 where what comes next is damaged, which was told. */
static int read_some(struct verify *verify, size_t at_most, struct arena *arena,
                     struct shared_entry entries[SHARED_LOG_AT_ONCE], size_t *ret_count) {
        struct shared_log before = verify->log;
        struct error failure = { 0 };
        int found = shared_log_next_many(&verify->log, at_most, arena, entries, ret_count, NULL, &failure);

        if (found >= 0)
                return found;
        /* One by one: those before it are sound. */
        verify->log = before;
        *ret_count = 0;
        found = shared_log_next(&verify->log, arena, entries, &failure);
        if (found > 0)
                *ret_count = 1;
        if (found < 0)
                tell_error(verify, &failure);
        return found;
}

/* On to the entry `until`, UINT64_MAX: to the end. */
static int replay_until(struct verify *verify, uint64_t until, struct error *err) {
        while (verify->whole && verify->log.number < until) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                uint64_t left = until - verify->log.number;
                struct shared_entry entries[SHARED_LOG_AT_ONCE];
                size_t count = 0;
                bool gap = false;
                int found = read_some(verify, left < SHARED_LOG_AT_ONCE ? (size_t)left : SHARED_LOG_AT_ONCE,
                                      arena, entries, &count);

                if (count > 0 && shared_cache_apply(&verify->replay, entries, count, &gap, err) < 0)
                        return -1;
                if (found < 0 || gap)
                        begin_again(verify);
                if (found != 0)
                        continue;
                if (until != UINT64_MAX) {
                        report_problem(verify, SHARED_LOG_PREFIX, verify->log.number + 1, "is gone");
                        begin_again(verify);
                }
                return 0;
        }
        return 0;
}

/* The numbers of all objects below the prefix that are above `after`; in order. */
static int list_numbers(struct verify *verify, const char *prefix, uint64_t after, uint64_t **ret,
                        size_t *ret_count, struct error *err) {
        const char **keys;
        size_t count;

        if (verify->store->ops->list(verify->store, prefix, verify->arena, &keys, &count, err) != OBJECT_DONE)
                return -1;
        *ret = arena_array(verify->arena, count + 1, sizeof(**ret));
        *ret_count = 0;
        for (size_t i = 0; i < count; i++) {
                const char *text = keys[i] + strlen(prefix);
                uint64_t number = strtoull(text, NULL, 10);

                if (*text && !text[strspn(text, "0123456789")] && number > after)
                        (*ret)[(*ret_count)++] = number;
        }
        return 0;
}

/* The snapshots that must be there: as the index says, or a list if there is no index yet. */
static int find_snapshots(struct verify *verify, const struct shared_index *index, bool indexed,
                          uint64_t **ret, size_t *ret_count, struct error *err) {
        if (!indexed)
                return list_numbers(verify, SHARED_SNAPSHOT_PREFIX, 0, ret, ret_count, err);
        *ret = arena_array(verify->arena, index->count + 1, sizeof(**ret));
        *ret_count = 0;
        for (size_t i = 0; i < index->count; i++) {
                if (index->snapshots[i].number >= index->floor)
                        (*ret)[(*ret_count)++] = index->snapshots[i].number;
        }
        return 0;
}

static int check_copy(struct verify *verify, const struct shared_cache *copy, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct shared_change *changes;
        const char *difference;
        size_t count;

        if (!verify->whole || !copy->store || copy->place.number != verify->log.number)
                return 0;
        if (shared_cache_dump(copy->store, arena, &changes, &count, err) < 0 ||
            compare(verify->replay.store, changes, count, arena, &difference, err) < 0)
                return -1;
        if (difference)
                tell_text(verify, arena_printf(verify->arena,
                                               "the copy on this machine, %s, is not what the log makes: "
                                               "\"%s\" differs. Remove it: it is made again",
                                               copy->folder, difference));
        return 0;
}

/* What a run that ended meanwhile has deleted, as it may, is no problem; nor can it be told from one. */
static int check_unchanged(struct verify *verify, const struct shared_index *before, struct error *err) {
        struct shared_index now;

        if (verify->told == 0)
                return 0;
        if (shared_index_read(verify->store, verify->log.lineage, verify->arena, &now, err) < 0)
                return -1;
        return strcmp(now.etag, before->etag) == 0
                       ? 0
                       : error_set_kind(
                                 err, ERROR_LOCKED,
                                 "the log of the state in %s was shortened while it was read: try again",
                                 verify->store->place);
}

static int check_all(struct verify *verify, const struct shared_entry *root, const struct shared_cache *copy,
                     struct error *err) {
        struct shared_index index = { 0 };
        uint64_t *snapshots, *listed;
        size_t count, listed_count;
        int indexed = shared_index_read(verify->store, verify->log.lineage, verify->arena, &index, err);

        if (indexed < 0 || find_snapshots(verify, &index, indexed > 0, &snapshots, &count, err) < 0 ||
            list_numbers(verify, SHARED_LOG_PREFIX, index.floor, &listed, &listed_count, err) < 0)
                return -1;
        if (index.floor == 0) {
                if (shared_cache_make_aside(&verify->log, root, &verify->replay, err) < 0)
                        return -1;
                verify->whole = true;
        }
        for (size_t i = 0; i < count; i++) {
                if (replay_until(verify, snapshots[i], err) < 0 ||
                    check_snapshot(verify, snapshots[i], err) < 0)
                        return -1;
        }
        if (replay_until(verify, UINT64_MAX, err) < 0)
                return -1;
        /* Entries that existed before the reading began, and were not reached. */
        if (verify->whole && listed_count > 0 && listed[listed_count - 1] > verify->log.number)
                report_problem(verify, SHARED_LOG_PREFIX, verify->log.number + 1,
                               "is gone, and later ones are there");
        if (check_copy(verify, copy, err) < 0)
                return -1;
        return check_unchanged(verify, &index, err);
}

int shared_verify(struct object_store *store, const struct shared_cache *copy, shared_problem *tell_problem,
                  void *context, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct verify verify = { .store = store, .arena = arena, .tell = tell_problem, .context = context };
        struct shared_entry root;
        int result = shared_log_begin(store, arena, &verify.log, &root, err);

        if (result > 0)
                result = check_all(&verify, &root, copy, err);
        shared_cache_close(&verify.replay);
        return result < 0 ? -1 : 0;
}
