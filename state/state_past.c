/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log is replayed into a copy aside, as a reader without a copy would, and stopped where the serial passes. Values are taken
 * over as they are stored: both states have one secret key.
 */
#include "state/state_past.h"

#include "base/array.h"
#include "state/codec.h"
#include "state/shared_index.h"
#include "state/shared_state.h"
#include "state/state_parts.h"

#include <inttypes.h>
#include <string.h>

/* Reading */

struct replay {
        uint64_t serial; /* wanted */
        uint64_t at;     /* reached */
        uint64_t next;   /* the first one behind it; 0: none */
};

static int replay_on(struct shared_log *log, struct shared_cache *cache, struct replay *replay,
                     struct error *err) {
        int found = 1;

        while (found > 0 && !replay->next) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                struct shared_entry entries[SHARED_LOG_AT_ONCE];
                size_t count, wanted = 0;
                bool gap = false;

                found = shared_log_next_many(log, SHARED_LOG_AT_ONCE, arena, entries, &count, NULL, err);
                if (found < 0)
                        return -1;
                while (wanted < count && entries[wanted].serial <= replay->serial)
                        replay->at = entries[wanted++].serial;
                if (wanted < count)
                        replay->next = entries[wanted].serial;
                if (wanted > 0 && shared_cache_apply(cache, entries, wanted, &gap, err) < 0)
                        return -1;
                if (gap)
                        return error_set(err, "the log has a gap before its entry %" PRIu64,
                                         entries[0].number);
        }
        return 0;
}

static int fail_not_there(const struct replay *replay, const char *place, struct error *err) {
        if (!replay->next)
                return error_set_kind(err, ERROR_NOT_FOUND,
                                      "the state in %s has no serial %" PRIu64 " yet: it is at %" PRIu64
                                      "; berth state history shows what each run left behind",
                                      place, replay->serial, replay->at);
        return error_set_kind(err, ERROR_NOT_FOUND,
                              "no commit to the state in %s left serial %" PRIu64
                              " behind: the nearest are %" PRIu64 " and %" PRIu64
                              "; berth state history shows what each run left behind",
                              place, replay->serial, replay->at, replay->next);
}

/* The copy is temporary: it goes when it is closed. */
static int replay_to(struct object_store *store, uint64_t serial, struct shared_cache *ret,
                     struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct replay replay = { .serial = serial };
        struct shared_entry root, snapshot;
        struct shared_log log;
        int found = shared_log_begin(store, arena, &log, &root, err);
        uint64_t from;

        if (found <= 0)
                return found < 0 ? -1 : error_set(err, "there is no state in %s", store->place);
        found = shared_log_snapshot(&log, serial, arena, &snapshot, err);
        if (found < 0)
                return -1;
        if (!found && root.serial > serial)
                return error_set_kind(err, ERROR_NOT_FOUND,
                                      "serial %" PRIu64
                                      " is older than the state is in %s: it came there at serial %" PRIu64,
                                      serial, store->place, root.serial);
        from = log.number;
        replay.at = found ? snapshot.serial : root.serial;
        if (shared_cache_make_aside(&log, found ? &snapshot : &root, ret, err) < 0 ||
            replay_on(&log, ret, &replay, err) < 0)
                return -1;
        found = shared_index_keeps(store, log.lineage, from, err);
        if (found <= 0)
                return found < 0 ? -1
                                 : error_set(err, "the log in %s was shortened meanwhile: try again",
                                             store->place);
        return replay.at == serial ? 0 : fail_not_there(&replay, store->place, err);
}

/* Comparing */

static bool comes_back(enum store_database database) {
        return database == STORE_RECORDED || database == STORE_BINDINGS || database == STORE_OVERRIDES;
}

static void add_change(struct arena *arena, struct shared_change **changes, size_t *count,
                       struct shared_change change) {
        *changes = array_grow(arena, *changes, *count, sizeof(**changes));
        (*changes)[(*count)++] = change;
}

struct comparing {
        struct arena *arena;
        struct state_past *past;
        struct shared_change *changes;
        size_t count;
};

/* A sighting of a resource that has changed must be made again. */
static void note_difference(void *context, enum shared_difference difference,
                            const struct shared_change *change) {
        struct comparing *comparing = context;
        size_t *const tallies[] = {
                [SHARED_NEW] = &comparing->past->back,
                [SHARED_OTHER] = &comparing->past->changed,
                [SHARED_GONE] = &comparing->past->forgotten,
        };

        if (!comes_back(change->database))
                return;
        add_change(comparing->arena, &comparing->changes, &comparing->count, *change);
        if (change->database != STORE_RECORDED)
                return;
        (*tallies[difference])++;
        add_change(comparing->arena, &comparing->changes, &comparing->count,
                   (struct shared_change){ .database = STORE_OBSERVED, .key = change->key });
}

static bool has_journal(const struct shared_change *changes, size_t count) {
        for (size_t i = 0; i < count; i++) {
                if (changes[i].database == STORE_JOURNAL)
                        return true;
        }
        return false;
}

static int compare_stores(struct state *state, struct store *then, struct arena *arena,
                          struct state_past *ret, struct error *err) {
        struct comparing comparing = { .arena = arena, .past = ret };
        struct shared_change *present, *past;
        size_t present_count, past_count;

        if (shared_cache_dump(state->store, arena, &present, &present_count, err) < 0 ||
            shared_cache_dump(then, arena, &past, &past_count, err) < 0)
                return -1;
        if (has_journal(present, present_count))
                return error_set_kind(err, ERROR_REFUSED,
                                      "an earlier run did not finish: run berth apply first");
        if (has_journal(past, past_count))
                return error_set_kind(err, ERROR_REFUSED,
                                      "serial %" PRIu64
                                      " is from the middle of a run: take one that a run left "
                                      "behind (berth state history)",
                                      ret->serial);
        shared_cache_compare(present, present_count, past, past_count, note_difference, &comparing);
        ret->changes = comparing.changes;
        ret->count = comparing.count;
        return 0;
}

int state_past_read(struct state *state, uint64_t serial, struct arena *arena, struct state_past *ret,
                    struct error *err) {
        struct shared_cache cache = SHARED_CACHE_INIT;
        int result;

        if (!state->shared)
                return error_set(
                        err,
                        "the state in %s is a folder, which keeps its last state alone: an older one comes "
                        "from a backup (berth state backup)",
                        state->folder);
        *ret = (struct state_past){ .serial = serial };
        result = replay_to(shared_objects(state->shared), serial, &cache, err);
        if (result == 0)
                result = compare_stores(state, cache.store, arena, ret, err);
        shared_cache_close(&cache);
        return result;
}

/* Writing */

struct restoring {
        struct state *state;
        const struct state_past *past;
        struct history_entry *entry;
};

static int put_history(struct store_txn *txn, const struct restoring *restoring, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        char key[CODEC_RUN_KEY_SIZE];
        uint8_t *bytes;
        size_t length;

        codec_run_key(restoring->entry->run, key);
        if (codec_encode_history(restoring->entry, restoring->state->secret_key, arena, &bytes, &length,
                                 err) < 0)
                return -1;
        return state_put_sealed(txn, STORE_HISTORY, key, bytes, length, err);
}

static int restore(struct store_txn *txn, void *context, struct error *err) {
        const struct restoring *restoring = context;
        uint64_t serial = 0;

        if (lease_check(restoring->state, txn, err) < 0 || state_move_check(restoring->state, txn, err) < 0 ||
            meta_numbers(txn, META_SERIAL, &serial, 1, err) < 0)
                return -1;
        serial++;
        restoring->entry->serial = serial;
        if (shared_cache_put(txn, restoring->past->changes, restoring->past->count, err) < 0 ||
            put_history(txn, restoring, err) < 0)
                return -1;
        return meta_put_numbers(txn, META_SERIAL, &serial, 1, err);
}

int state_past_restore(struct state *state, const struct state_past *past, struct history_entry *entry,
                       struct error *err) {
        struct restoring restoring = { .state = state, .past = past, .entry = entry };

        if (state_check_writable(state, err) < 0)
                return -1;
        return state_write(state, restore, &restoring, err) < 0 ? -1 : 0;
}
