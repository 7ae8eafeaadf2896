/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A write is rehearsed on the copy, its changes are appended to the log, and then they are applied to the copy as any reader of the
 * log would apply them. So no transaction of the copy spans a request, and a process that dies in between has lost nothing: the
 * next one reads the entry.
 *
 * After an append that failed nothing more is written: whether it is there is not known, and with it what comes next.
 */
#include "state/shared_state.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "state/codec.h"
#include "state/shared_index.h"
#include "state/state_parts.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TAKINGS_MAX 64 /* entries that others may append while the lease is taken */
#define RENEW_AGAIN_MS 1000
#define PROBE_KEY "probe" /* an object that stays, and has the same bytes always */
#define NO_ETAG "\"00000000000000000000000000000000\""
/*
 * A snapshot is due when reading the log costs half of what reading the state does; a request, of
 * which sixteen are made at once, counts as REQUEST_WORTH_BYTES.
 */
#define REQUEST_WORTH_BYTES ((uint64_t)32 * 1024)
#define ENTRIES_AT_LEAST 32
#define REQUEST_WORTH_LEAST ((uint64_t)4 * 1024)
#define ENTRIES_MEANWHILE 8192
#define BYTES_AT_LEAST ((uint64_t)1024 * 1024)

struct shared {
        struct object_store *store;
        const struct clock *clock;
        char *who;
        char host[256], command[96];
        enum state_mode mode;
        bool aside;  /* the copy is this process's alone */
        bool unmade; /* it is not in the store yet */

        pthread_mutex_t write_lock; /* of the log's place and the copy's */
        struct shared_log log;
        struct shared_cache cache;

        pthread_mutex_t lease_lock; /* of what follows; never held during a request */
        pthread_cond_t lease_stop;
        pthread_t keeper;
        struct shared_lease lease;
        bool leased, stopping;
        bool lost;
        struct error lost_by;
        struct error unrenewed; /* by what the last renewal failed; "" where it did not */
};

/* Reading on */

/*
 * To the end. Most reads find nothing new: one entry is asked for first, then ever more at once.
 * *ret_gap: the copy is another one than the log. ret_holds as for shared_log_next_many().
 */
static int read_to_end(struct shared *shared, bool *ret_holds, bool *ret_gap, struct error *err) {
        int found = 1;

        *ret_gap = false;
        for (size_t at_once = 1; found > 0 && !*ret_gap; at_once *= 4) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                struct shared_entry entries[SHARED_LOG_AT_ONCE];
                size_t count;

                if (at_once > SHARED_LOG_AT_ONCE)
                        at_once = SHARED_LOG_AT_ONCE;
                found = shared_log_next_many(&shared->log, at_once, arena, entries, &count,
                                             at_once == 1 ? ret_holds : NULL, err);
                if (found < 0 ||
                    (count > 0 && shared_cache_apply(&shared->cache, entries, count, ret_gap, err) < 0))
                        return -1;
        }
        return 0;
}

static int read_on(struct shared *shared, bool *ret_gap, struct error *err) {
        return read_to_end(shared, NULL, ret_gap, err);
}

/* Fails where entries behind `number` may have been deleted, so that what was read from there on means nothing. */
static int check_kept(struct shared *shared, uint64_t number, struct error *err) {
        int kept = shared_index_keeps(shared->store, shared->log.lineage, number, err);

        if (kept == 0)
                return error_set_kind(
                        err, ERROR_LOCKED,
                        "this run was stopped for so long that the log of the state in %s has been shortened since: "
                        "it records nothing more; run it again",
                        shared->store->place);
        return kept < 0 ? -1 : 0;
}

/* From the newest snapshot, or from the root, which `log` stands at. */
static int make_copy(struct shared *shared, const struct shared_entry *root, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct shared_entry snapshot;
        int found = shared_log_snapshot(&shared->log, SHARED_SERIAL_NEWEST, arena, &snapshot, err);
        uint64_t from = shared->log.number;
        bool gap;

        if (found < 0 ||
            (shared->aside ? shared_cache_make_aside : shared_cache_make)(
                    &shared->log, found ? &snapshot : root, &shared->cache, err) < 0 ||
            read_on(shared, &gap, err) < 0 || check_kept(shared, from, err) < 0)
                return -1;
        if (gap)
                return error_set(
                        err,
                        "another process makes the copy of the state of %s on this machine at the same "
                        "time: try again",
                        shared->store->place);
        return 0;
}

/* 1 where there is a copy that the log goes on from, and it has been brought up to date. */
static int open_copy(struct shared *shared) {
        struct error unusable;
        bool gap, holds = true;
        uint64_t from;

        /* Of a root alone it is not known whose: two places of one lineage begin with different ones. */
        if (shared_cache_open(shared->log.lineage, &shared->cache, &unusable) == 0) {
                shared->log.number = shared->cache.place.number;
                shared->log.epoch = shared->cache.place.epoch;
                memcpy(shared->log.hash, shared->cache.place.hash, SHA256_SIZE);
                from = shared->log.number;
                if (from > 0 && read_to_end(shared, &holds, &gap, &unusable) == 0 && !gap && holds &&
                    check_kept(shared, from, &unusable) == 0)
                        return 1;
                shared_cache_close(&shared->cache);
        }
        log_debug("state: the copy of %s on this machine is written again", shared->store->place);
        return 0;
}

/* A state that is not in the store yet is made here, whole, and not shown to others. */
static int make_copy_of_new(struct shared *shared, struct error *err) {
        if (shared_cache_temporary(&shared->cache, err) < 0 || folder_create(shared->cache.folder, err) < 0 ||
            store_open(shared->cache.folder, STORE_MODE_WRITE, &shared->cache.store, err) < 0)
                return -1;
        store_may_vanish(shared->cache.store);
        shared->unmade = true;
        return 0;
}

/*
 * The root, or 0 where there is no state. It is made before all commits: where it is gone and they are not, what was there is damaged,
 * and no new beginning.
 */
static int begin_log(struct shared *shared, struct arena *arena, struct shared_log *ret,
                     struct shared_entry *ret_root, struct error *err) {
        struct object_store *store = shared->store;
        int found = shared_log_begin(store, arena, ret, ret_root, err);
        const char **keys;
        size_t count;

        if (found != 0)
                return found;
        if (store->ops->list(store, SHARED_LOG_PREFIX, arena, &keys, &count, err) != OBJECT_DONE)
                return -1;
        if (count == 0)
                return 0;
        /* Another process may have made it between the two. */
        found = shared_log_begin(store, arena, ret, ret_root, err);
        if (found != 0)
                return found;
        return error_set(err,
                         "%s/" SHARED_ROOT
                         " is gone, though commits of a state are there: put it back from its older version "
                         "(a rule that expires objects must not hold for this place)",
                         store->place);
}

static int open_any(struct shared *shared, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct shared_entry root;
        struct shared_log begin;
        int found = begin_log(shared, arena, &begin, &root, err);

        if (found < 0)
                return -1;
        if (found == 0)
                return shared->mode == STATE_CREATE ? make_copy_of_new(shared, err) : 0;
        shared->log = begin;
        if (!shared->aside && open_copy(shared))
                return 0;
        shared->log = begin;
        return make_copy(shared, &root, err);
}

int shared_open(struct object_store *store, const struct clock *clock, const char *who, enum state_mode mode,
                bool aside, struct shared **ret, struct store **ret_store, struct error *err) {
        struct shared *shared = calloc(1, sizeof(*shared));
        pthread_condattr_t attributes;

        if (!shared || !(shared->who = strdup(who)))
                abort();
        shared->store = store;
        shared->clock = clock;
        shared->mode = mode;
        shared->aside = aside;
        if (gethostname(shared->host, sizeof(shared->host) - 1) < 0)
                snprintf(shared->host, sizeof(shared->host), "localhost");
        pthread_mutex_init(&shared->write_lock, NULL);
        pthread_mutex_init(&shared->lease_lock, NULL);
        pthread_condattr_init(&attributes);
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        pthread_cond_init(&shared->lease_stop, &attributes);
        pthread_condattr_destroy(&attributes);
        if (open_any(shared, err) < 0) {
                shared_close(shared);
                return -1;
        }
        *ret = shared;
        *ret_store = shared->cache.store;
        return 0;
}

void shared_close(struct shared *shared) {
        if (!shared)
                return;
        shared_release(shared);
        shared_cache_close(&shared->cache);
        shared->store->ops->close(shared->store);
        pthread_mutex_destroy(&shared->write_lock);
        pthread_mutex_destroy(&shared->lease_lock);
        pthread_cond_destroy(&shared->lease_stop);
        free(shared->who);
        free(shared);
}

struct object_store *shared_objects(const struct shared *shared) {
        return shared->store;
}

const struct shared_cache *shared_copy(const struct shared *shared) {
        return &shared->cache;
}

bool shared_is_unmade(const struct shared *shared) {
        return shared->unmade;
}

const char *shared_cache_path(const struct shared *shared) {
        return shared->cache.folder;
}

int shared_catch_up(struct shared *shared, struct error *err) {
        bool gap = false;
        int result = 0;

        pthread_mutex_lock(&shared->write_lock);
        if (shared->cache.store && !shared->unmade) {
                uint64_t from = shared->log.number;

                result = read_on(shared, &gap, err);
                if (result == 0)
                        result = check_kept(shared, from, err);
        }
        pthread_mutex_unlock(&shared->write_lock);
        if (gap)
                return error_set(err, "the copy of the state of %s on this machine was changed: try again",
                                 shared->store->place);
        return result;
}

/* The lease, as writers see it */

static void lose(struct shared *shared, const struct error *reason) {
        pthread_mutex_lock(&shared->lease_lock);
        if (!shared->lost)
                shared->lost_by = *reason;
        shared->lost = true;
        pthread_mutex_unlock(&shared->lease_lock);
}

static bool is_leased(struct shared *shared) {
        bool leased;

        pthread_mutex_lock(&shared->lease_lock);
        leased = shared->leased;
        pthread_mutex_unlock(&shared->lease_lock);
        return leased;
}

/* Fails where the lease is lost, or has not been renewed for so long that it may be. */
static int check_held(struct shared *shared, struct error *err) {
        int result = 0;

        pthread_mutex_lock(&shared->lease_lock);
        if (!shared->lost && shared_lease_left_ms(&shared->lease) == 0) {
                shared->lost = true;
                (void)error_set_kind(
                        &shared->lost_by, ERROR_LOCKED,
                        "the lock of the state in %s was not renewed in time: it cannot be reached, or this run was "
                        "stopped for a while. Others may hold it now: this run records nothing more; run it again%s%s",
                        shared->store->place, *shared->unrenewed.message ? ". The last try: " : "",
                        shared->unrenewed.message);
        }
        if (shared->lost) {
                *err = shared->lost_by;
                result = -1;
        }
        pthread_mutex_unlock(&shared->lease_lock);
        return result;
}

int shared_check(struct shared *shared, struct error *err) {
        return is_leased(shared) ? check_held(shared, err) : 0;
}

/* Writing */

struct changes {
        struct arena *arena;
        struct shared_change *items;
        size_t count;
        store_body *body;
        void *context;
        const struct shared_log *log; /* where the copy must stand; NULL: anywhere */
};

static int begin_body(struct store_txn *txn, void *context, struct error *err) {
        struct changes *changes = context;

        if (changes->log && shared_cache_check(txn, changes->log, err) < 0)
                return -1;
        changes->items = NULL;
        changes->count = 0;
        return changes->body(txn, changes->context, err);
}

static void note_change(void *context, enum store_database database, const char *key, const void *data,
                        size_t length) {
        struct changes *changes = context;

        if (!shared_cache_is_shared(database, key))
                return;
        changes->items = array_grow(changes->arena, changes->items, changes->count, sizeof(*changes->items));
        changes->items[changes->count++] = (struct shared_change){
                .database = database,
                .key = arena_strdup(changes->arena, key),
                .value = data ? arena_strndup(changes->arena, data, length) : NULL,
                .length = data ? length : 0,
        };
}

/* Sightings and texts are worth keeping on this machine, and do not concern others. */
static int write_to_copy(struct shared *shared, const struct changes *changes, struct error *err) {
        for (size_t i = 0; i < changes->count; i++) {
                const struct shared_change *change = &changes->items[i];

                if (change->database != STORE_OBSERVED &&
                    (change->database != STORE_META ||
                     strncmp(change->key, META_TEXT, strlen(META_TEXT)) != 0))
                        return error_set(err, "only the holder of its lock may change the state in %s",
                                         shared->store->place);
        }
        return store_write(shared->cache.store, changes->body, changes->context, err);
}

static int read_serial(struct store_txn *txn, void *serial, struct error *err) {
        return meta_numbers(txn, META_SERIAL, serial, 1, err);
}

/* The state's serial after these changes. */
static int serial_after(struct shared *shared, const struct shared_change *changes, size_t count,
                        uint64_t *ret, struct error *err) {
        for (size_t i = count; i-- > 0;) {
                if (changes[i].database == STORE_META && strcmp(changes[i].key, META_SERIAL) == 0)
                        return codec_decode_numbers(changes[i].value, changes[i].length, META_SERIAL, ret, 1,
                                                    err);
        }
        *ret = 0;
        return store_read(shared->cache.store, read_serial, ret, err) < 0 ? -1 : 0;
}

static int append(struct shared *shared, uint64_t epoch, const struct changes *changes, const char *note,
                  struct error *err) {
        struct shared_entry entry = {
                .epoch = epoch,
                .at_ms = shared->clock->wall_ms(shared->clock),
                .who = shared->who,
                .host = shared->host,
                .command = shared->command,
                .note = note,
                .changes = changes->items,
                .count = changes->count,
        };
        bool gap;
        int result;

        if (serial_after(shared, changes->items, changes->count, &entry.serial, err) < 0)
                return -1;
        shared_new_id(entry.id);
        result = shared_log_append(&shared->log, &entry, err);
        if (result != SHARED_APPENDED)
                return result;
        if (shared_cache_apply(&shared->cache, &entry, 1, &gap, err) < 0)
                return error_context(err, "recorded in %s, but not in the copy on this machine",
                                     shared->store->place);
        return gap ? error_set(err,
                               "the copy of the state of %s on this machine was changed by another process",
                               shared->store->place)
                   : SHARED_APPENDED;
}

/* Snapshots */

/* As the run ends. */
static bool snapshot_is_due(const struct shared_place *place) {
        uint64_t entries = place->number - place->snapshot;

        if (entries < ENTRIES_AT_LEAST && place->log_bytes < BYTES_AT_LEAST)
                return false;
        return place->log_bytes + entries * REQUEST_WORTH_BYTES >= place->snapshot_bytes / 2;
}

/* In the middle of one, so that a reader after its death finds no log without end. All of these together are no more than the log. */
static bool snapshot_is_due_meanwhile(const struct shared_place *place) {
        uint64_t entries = place->number - place->snapshot;

        return entries >= ENTRIES_MEANWHILE &&
               place->log_bytes + entries * REQUEST_WORTH_LEAST >= 4 * place->snapshot_bytes;
}

/* For later readers. Where it fails they read the log. */
static void put_snapshot(struct shared *shared) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct shared_entry snapshot = {
                .at_ms = shared->clock->wall_ms(shared->clock),
                .who = shared->who,
                .host = shared->host,
                .command = shared->command,
        };
        struct shared_change *changes;
        struct error failure;

        arena_wipe_when_freed(arena); /* the secret key is in it */
        if (shared_cache_dump_at(shared->cache.store, &shared->log, arena, &changes, &snapshot.count,
                                 &failure) == 0 &&
            serial_after(shared, changes, snapshot.count, &snapshot.serial, &failure) == 0) {
                snapshot.changes = changes;
                shared_new_id(snapshot.id);
                if (shared_log_put_snapshot(&shared->log, &snapshot, &failure) == 0 &&
                    shared_index_note(&shared->log, snapshot.serial, &failure) == 0 &&
                    shared_cache_note_snapshot(&shared->cache, shared_changes_bytes(changes, snapshot.count),
                                               &failure) == 0)
                        return;
        }
        log_debug("state: a snapshot of %s: %s", shared->store->place, failure.message);
}

/* Objects that are not needed any more go when something has come, and the lease is still ours. */
static void end_with_snapshot(struct shared *shared) {
        struct error failure;

        pthread_mutex_lock(&shared->write_lock);
        if (snapshot_is_due(&shared->cache.place) && shared->cache.place.number == shared->log.number) {
                put_snapshot(shared);
                if (shared_index_clear(&shared->log, &failure) < 0)
                        log_debug("state: what is no longer kept of %s: %s", shared->store->place,
                                  failure.message);
        }
        pthread_mutex_unlock(&shared->write_lock);
}

static int write_to_log(struct shared *shared, const struct changes *changes, struct error *err) {
        struct error failure = { 0 };
        int result;

        if (changes->count == 0)
                return 0;
        if (check_held(shared, err) < 0)
                return -1;
        result = append(shared, shared->log.epoch, changes, NULL, &failure);
        /*
         * A process that slept before the request went out may have written under a number that was
         * free again, because the log was shortened meanwhile: that entry is never read. It shows
         * by the lease, which cannot have been held for all that time.
         */
        if (result == SHARED_APPENDED && check_held(shared, &failure) == 0) {
                if (snapshot_is_due_meanwhile(&shared->cache.place))
                        put_snapshot(shared);
                return 0;
        }
        if (result == SHARED_TAKEN)
                (void)error_set_kind(
                        &failure, ERROR_LOCKED,
                        "the lock of the state in %s was taken from this run, and another run has written "
                        "since: this run records nothing more; run it again",
                        shared->store->place);
        lose(shared, &failure);
        *err = failure;
        return -1;
}

int shared_write(struct shared *shared, store_body *body, void *context, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct changes changes = { .arena = arena, .body = body, .context = context };
        bool leased = is_leased(shared);
        int result;

        if (leased && check_held(shared, err) < 0)
                return -1;
        pthread_mutex_lock(&shared->write_lock);
        changes.log = leased ? &shared->log : NULL;
        result = store_rehearse(shared->cache.store, begin_body, &changes, note_change, &changes, err);
        if (result >= 0)
                result = leased ? write_to_log(shared, &changes, err) : write_to_copy(shared, &changes, err);
        pthread_mutex_unlock(&shared->write_lock);
        return result;
}

/* Taking the lease */

/*
 * A new holder of the lease begins with an entry: from now on no older holder's next one has a
 * number that is free.
 */
static int fence(struct shared *shared, struct error *err) {
        const struct changes none = { 0 };

        for (int times = 0; times < TAKINGS_MAX; times++) {
                bool gap;
                int result;

                if (read_on(shared, &gap, err) < 0)
                        return -1;
                if (gap)
                        return error_set(err,
                                         "the copy of the state of %s on this machine was changed: try again",
                                         shared->store->place);
                /*
                 * A process that slept since it took the lease must not throw out the present
                 * holder.
                 */
                if (check_held(shared, err) < 0)
                        return -1;
                result = append(shared, shared->log.epoch + 1, &none, "taken", err);
                if (result < 0)
                        return -1;
                if (result == SHARED_APPENDED)
                        return check_kept(shared, shared->log.number - 1, err);
        }
        return error_set_kind(err, ERROR_LOCKED, "other runs keep writing to the state in %s: try again",
                              shared->store->place);
}

/* The new state is put into the store. */
static int put_root(struct shared *shared, const char *lineage, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct shared_entry root = {
                .at_ms = shared->clock->wall_ms(shared->clock),
                .who = shared->who,
                .host = shared->host,
                .command = shared->command,
        };
        struct shared_change *changes;

        if (shared_cache_dump(shared->cache.store, arena, &changes, &root.count, err) < 0)
                return -1;
        root.changes = changes;
        snprintf(root.lineage, sizeof(root.lineage), "%s", lineage);
        shared_new_id(root.id);
        if (shared_log_create(shared->store, &root, err) < 0)
                return -1;
        shared->log = (struct shared_log){ .store = shared->store };
        snprintf(shared->log.lineage, sizeof(shared->log.lineage), "%s", lineage);
        shared->cache.place = (struct shared_place){ 0 };
        if (shared_cache_note_snapshot(&shared->cache, shared_changes_bytes(changes, root.count), err) < 0)
                return -1;
        shared->unmade = false;
        return 0;
}

/* Renews a copy of the lease, so that a mere look does not wait for a request. */
static void renew(struct shared *shared) {
        struct error failure = { 0 };
        struct shared_lease lease;
        int result;

        pthread_mutex_lock(&shared->lease_lock);
        lease = shared->lease;
        pthread_mutex_unlock(&shared->lease_lock);
        result = shared_lease_renew(&lease, &failure);
        pthread_mutex_lock(&shared->lease_lock);
        shared->lease = lease;
        shared->unrenewed = failure;
        pthread_mutex_unlock(&shared->lease_lock);
        if (result < 0 && failure.kind == ERROR_LOCKED)
                lose(shared, &failure);
        else if (result < 0)
                log_debug("state: the lock of %s: %s", shared->store->place, failure.message);
}

static void *keep_lease(void *context) {
        struct shared *shared = context;

        pthread_mutex_lock(&shared->lease_lock);
        while (!shared->stopping) {
                int64_t since_ms =
                        SHARED_LEASE_MS - SHARED_LEASE_MARGIN_MS - shared_lease_left_ms(&shared->lease);
                int64_t wait_ms = SHARED_LEASE_RENEW_MS - since_ms;
                const struct timespec until =
                        clock_after_ms(wait_ms < RENEW_AGAIN_MS ? RENEW_AGAIN_MS : wait_ms);

                if (pthread_cond_timedwait(&shared->lease_stop, &shared->lease_lock, &until) != ETIMEDOUT)
                        continue;
                if (shared->lost || shared->stopping)
                        break;
                pthread_mutex_unlock(&shared->lease_lock);
                renew(shared);
                pthread_mutex_lock(&shared->lease_lock);
        }
        pthread_mutex_unlock(&shared->lease_lock);
        return NULL;
}

/* Signals are for the program's own threads. */
static int start_keeper(struct shared *shared, struct error *err) {
        sigset_t all, before;
        int code;

        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        code = pthread_create(&shared->keeper, NULL, keep_lease, shared);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        return code == 0 ? 0
                         : error_set(err, "cannot start the thread that keeps the lock: %s", strerror(code));
}

/*
 * A store that carries out a write whose condition does not hold would give the lock, and a number
 * of the log, to every client that asks. Some that call themselves S3 do: it is tried, where
 * nothing can be lost, before anything is believed.
 */
int shared_check_conditions(struct object_store *store, struct error *err) {
        static const char text[] =
                "Berth tries here whether a write whose condition does not hold is refused.\n";
        struct object_answer answer OBJECT_ANSWER_CLEANUP = OBJECT_ANSWER_INIT;
        int outcome = OBJECT_DONE;

        /* The first one ever makes it. */
        for (int times = 0; times < 2 && outcome == OBJECT_DONE; times++)
                outcome = store->ops->put_if_absent(store, PROBE_KEY, text, sizeof(text) - 1, &answer, err);
        if (outcome == OBJECT_MOVED)
                outcome = store->ops->put_if_match(store, PROBE_KEY, NO_ETAG, text, sizeof(text) - 1, &answer,
                                                   err);
        if (outcome == OBJECT_MOVED)
                return 0;
        if (outcome == OBJECT_DONE)
                return error_set(
                        err,
                        "what keeps %s carries out writes whose condition (If-None-Match, If-Match) does not hold: "
                        "two runs could have the lock at once. A state needs a store that heeds them, as S3 does",
                        store->place);
        if (outcome == OBJECT_ABSENT)
                return error_set(err, "%s/" PROBE_KEY " was removed meanwhile: try again", store->place);
        return error_context(err, "%s/" PROBE_KEY, store->place);
}

int shared_acquire(struct shared *shared, const char *lineage, const char *command, bool force,
                   struct error *err) {
        struct shared_lease lease;
        int result;

        if (is_leased(shared))
                return error_set(err, "this run holds the lock of the state in %s already",
                                 shared->store->place);
        if (shared_check_conditions(shared->store, err) < 0 ||
            shared_lease_take(shared->store, shared->clock, shared->who, command, force, &lease, err) < 0)
                return -1;
        snprintf(shared->command, sizeof(shared->command), "%s", command);
        pthread_mutex_lock(&shared->write_lock);
        pthread_mutex_lock(&shared->lease_lock);
        shared->lease = lease;
        shared->lost = shared->stopping = false;
        shared->unrenewed = (struct error){ 0 };
        pthread_mutex_unlock(&shared->lease_lock);
        /* Taking may have long answers too: the keeper begins first. */
        result = start_keeper(shared, err);
        if (result < 0) {
                shared_lease_release(&lease);
        } else {
                pthread_mutex_lock(&shared->lease_lock);
                shared->leased = true;
                pthread_mutex_unlock(&shared->lease_lock);
                if (shared->unmade)
                        result = put_root(shared, lineage, err);
                if (result == 0)
                        result = fence(shared, err);
                if (result == 0)
                        result = check_held(shared, err);
        }
        pthread_mutex_unlock(&shared->write_lock);
        if (result < 0)
                shared_release(shared);
        return result;
}

/* Giving it back */

void shared_release(struct shared *shared) {
        struct error ignored;

        if (!is_leased(shared))
                return;
        if (check_held(shared, &ignored) == 0)
                end_with_snapshot(shared);
        pthread_mutex_lock(&shared->lease_lock);
        shared->stopping = true;
        pthread_cond_signal(&shared->lease_stop);
        pthread_mutex_unlock(&shared->lease_lock);
        pthread_join(shared->keeper, NULL);
        shared_lease_release(&shared->lease);
        pthread_mutex_lock(&shared->lease_lock);
        shared->leased = shared->lost = false;
        pthread_mutex_unlock(&shared->lease_lock);
}

/* Looking, and breaking */

int shared_show(struct shared *shared, struct arena *arena, struct lease_holder **ret, struct error *err) {
        struct shared_lease_seen seen;
        int found = shared_lease_look(shared->store, arena, &seen, err);

        if (found < 0)
                return -1;
        *ret = NULL;
        if (!found || !*seen.id)
                return 0;
        *ret = arena_alloc(arena, sizeof(**ret));
        **ret = (struct lease_holder){
                .pid = seen.pid,
                .host = seen.host,
                .who = seen.who,
                .command = seen.command ? seen.command : "?",
                .since_ms = seen.since_ms,
                .alive = seen.alive,
        };
        return 0;
}

/* Taking it fences the holder before, at once; giving it back frees it. */
int shared_break(struct shared *shared, const char *lineage, bool force, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct shared_lease_seen seen;
        int found = shared_lease_look(shared->store, arena, &seen, err);

        /* An unreadable one is written again by taking it. */
        if (found < 0 ? !force : !found || !*seen.id)
                return found < 0 ? -1 : 0;
        if (shared_acquire(shared, lineage, "lock release", force, err) < 0)
                return -1;
        shared_release(shared);
        return 0;
}

int shared_keeps_versions(struct shared *shared) {
        struct error failure;
        bool keeps;

        if (shared->store->ops->keeps_versions(shared->store, &keeps, &failure) == OBJECT_DONE)
                return keeps;
        log_debug("state: whether %s keeps versions: %s", shared->store->place, failure.message);
        return -1;
}
