/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything rests on one thing: put_if_absent() lets one writer have each number. What makes it long is that a put's answer may be
 * lost, or tell of a condition that our own first try has broken. Then the object is read: the random id in it tells whose it is.
 */
#include "state/shared_log.h"

#include "state/shared_index.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define PUTS_MAX \
        4 /* of the same bytes, where no answer tells what became of them; each was tried more than once below */

#define SNAPSHOT_TRIES 3 /* while others delete what has just been named */

void shared_log_key(const char *prefix, uint64_t number, char ret[SHARED_KEY_SIZE]) {
        snprintf(ret, SHARED_KEY_SIZE, "%s%012" PRIu64, prefix, number);
}

/* "s3://bucket/prefix/log/000000000007". */
static const char *entry_url(const struct object_store *store, const char *key, struct arena *arena) {
        return arena_printf(arena, "%s/%s", store->place, key);
}

static int parse_object(struct object_store *store, const char *key, enum shared_kind kind,
                        const struct object_answer *answer, struct arena *arena, struct shared_entry *ret,
                        struct error *err) {
        const char *bytes = arena_strndup(arena, strbuf_text(&answer->body), answer->body.length);

        return shared_form_read(bytes, answer->body.length, kind, entry_url(store, key, arena), arena, ret,
                                err);
}

/*
 * 1 and the entry, 0 if absent. Bytes that do not hold together may be an answer's that was cut
 * off: they are asked for once more before they count as damaged.
 */
static int read_object(struct object_store *store, const char *key, enum shared_kind kind,
                       struct arena *arena, struct shared_entry *ret, struct error *err) {
        struct error failure = { 0 };

        for (int times = 0; times < 2; times++) {
                struct object_answer answer OBJECT_ANSWER_CLEANUP = OBJECT_ANSWER_INIT;
                int outcome = store->ops->get(store, key, &answer, err);

                if (outcome == OBJECT_ABSENT)
                        return 0;
                if (outcome != OBJECT_DONE)
                        return -1;
                if (parse_object(store, key, kind, &answer, arena, ret, &failure) == 0)
                        return 1;
        }
        *err = failure;
        return -1;
}

/*
 * SHARED_APPENDED where the object is there with our id, SHARED_TAKEN where another one is. As long as no object is there and no
 * answer tells, the same bytes are put again: whichever of them arrives, it is the one.
 */
static int put_own(struct object_store *store, const char *key, const struct shared_entry *entry,
                   const struct strbuf *bytes, struct error *err) {
        for (int times = 0;; times++) {
                struct object_answer answer OBJECT_ANSWER_CLEANUP = OBJECT_ANSWER_INIT;
                struct arena *arena ARENA_CLEANUP = arena_new();
                struct error failure = { 0 }, unread = { 0 };
                struct shared_entry there;
                int outcome = store->ops->put_if_absent(store, key, strbuf_text(bytes), bytes->length,
                                                        &answer, &failure),
                    found;

                if (outcome == OBJECT_DONE)
                        return SHARED_APPENDED;
                if (outcome < 0 && times == 0) {
                        *err = failure;
                        return -1;
                }
                found = read_object(store, key, entry->kind, arena, &there, &unread);
                if (found == 1)
                        return strcmp(there.id, entry->id) == 0 ? SHARED_APPENDED : SHARED_TAKEN;
                if (found == 0 && outcome >= 0 && times + 1 < PUTS_MAX)
                        continue;
                if (outcome == OBJECT_MOVED || outcome == OBJECT_ABSENT)
                        return error_set(err, "%s/%s can be neither written nor read%s%s", store->place, key,
                                         found < 0 ? ": " : "", found < 0 ? unread.message : "");
                *err = failure;
                return error_context(err, "whether %s/%s was written is not known", store->place, key);
        }
}

int shared_log_create(struct object_store *store, struct shared_entry *root, struct error *err) {
        struct strbuf bytes STRBUF_CLEANUP = STRBUF_SECRET;
        int result;

        root->kind = SHARED_SNAPSHOT;
        root->number = 0;
        memset(root->previous, 0, sizeof(root->previous));
        result = shared_form_write(root, &bytes, err);
        if (result == 0)
                result = put_own(store, SHARED_ROOT, root, &bytes, err);
        if (result == SHARED_TAKEN)
                return error_set_kind(err, ERROR_LOCKED,
                                      "another run has just created the state in %s: run it again",
                                      store->place);
        return result < 0 ? -1 : 0;
}

int shared_log_begin(struct object_store *store, struct arena *arena, struct shared_log *ret_log,
                     struct shared_entry *ret_root, struct error *err) {
        struct shared_entry root;
        int found = read_object(store, SHARED_ROOT, SHARED_SNAPSHOT, arena, &root, err);

        if (found <= 0)
                return found;
        if (root.number != 0)
                return error_set(err, "%s/" SHARED_ROOT " is not the root of a state", store->place);
        *ret_log = (struct shared_log){ .store = store };
        memcpy(ret_log->lineage, root.lineage, sizeof(ret_log->lineage));
        *ret_root = root;
        return 1;
}

static int fail_foreign(const struct shared_log *log, const char *key, struct error *err) {
        return error_set(
                err,
                "%s/%s belongs to another state (lineage), or does not follow the entry before: objects "
                "of this place were replaced from elsewhere. Put back the versions that belong together",
                log->store->place, key);
}

/* Moves `log` to an entry that follows it. */
static int advance_log(struct shared_log *log, const struct shared_entry *entry, struct error *err) {
        char key[SHARED_KEY_SIZE];

        if (strcmp(entry->lineage, log->lineage) != 0 || entry->number != log->number + 1 ||
            memcmp(entry->previous, log->hash, SHA256_SIZE) != 0) {
                shared_log_key(SHARED_LOG_PREFIX, log->number + 1, key);
                return fail_foreign(log, key, err);
        }
        log->number = entry->number;
        log->epoch = entry->epoch;
        memcpy(log->hash, entry->hash, SHA256_SIZE);
        return 1;
}

int shared_log_next(struct shared_log *log, struct arena *arena, struct shared_entry *ret,
                    struct error *err) {
        char key[SHARED_KEY_SIZE];
        struct shared_entry entry;
        int found;

        shared_log_key(SHARED_LOG_PREFIX, log->number + 1, key);
        found = read_object(log->store, key, SHARED_LOG, arena, &entry, err);
        if (found <= 0)
                return found;
        if (advance_log(log, &entry, err) < 0)
                return -1;
        *ret = entry;
        return 1;
}

/* Many at once */

struct fetch {
        struct object_store *store;
        char key[SHARED_KEY_SIZE];
        int outcome;
        struct object_answer answer;
        struct error err; /* not looked at: a caller that needs the answer asks again, alone */
        pthread_t thread;
        bool threaded;
};

static void *run_fetch(void *context) {
        struct fetch *fetch = context;

        fetch->outcome = fetch->store->ops->get(fetch->store, fetch->key, &fetch->answer, &fetch->err);
        return NULL;
}

/* The first is this thread's own. Signals are for the program's own threads. */
static void run_fetches(struct fetch *fetches, size_t count) {
        sigset_t all, before;

        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        for (size_t i = 1; i < count; i++)
                fetches[i].threaded = pthread_create(&fetches[i].thread, NULL, run_fetch, &fetches[i]) == 0;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        for (size_t i = 0; i < count; i++) {
                if (fetches[i].threaded)
                        pthread_join(fetches[i].thread, NULL);
                else
                        run_fetch(&fetches[i]);
        }
}

/* As shared_log_next(), of what was fetched where that is of use. */
static int take_fetched(struct shared_log *log, struct fetch *fetch, struct arena *arena,
                        struct shared_entry *ret, struct error *err) {
        struct shared_entry entry;
        struct error failure;

        if (fetch->outcome == OBJECT_ABSENT)
                return 0;
        if (fetch->outcome != OBJECT_DONE ||
            parse_object(log->store, fetch->key, SHARED_LOG, &fetch->answer, arena, &entry, &failure) < 0)
                return shared_log_next(log, arena, ret, err);
        if (advance_log(log, &entry, err) < 0)
                return -1;
        *ret = entry;
        return 1;
}

static bool is_entry_of(const struct shared_log *log, const struct shared_entry *entry) {
        return strcmp(entry->lineage, log->lineage) == 0 && memcmp(entry->hash, log->hash, SHA256_SIZE) == 0;
}

static int check_own(const struct shared_log *log, struct fetch *fetch, struct arena *arena, bool *ret,
                     struct error *err) {
        struct shared_entry own;
        struct error failure;
        int holds;

        if (fetch->outcome == OBJECT_ABSENT) {
                *ret = false;
                return 0;
        }
        if (fetch->outcome == OBJECT_DONE &&
            parse_object(log->store, fetch->key, SHARED_LOG, &fetch->answer, arena, &own, &failure) == 0) {
                *ret = is_entry_of(log, &own);
                return 0;
        }
        holds = shared_log_holds(log, err);
        *ret = holds == 1;
        return holds < 0 ? -1 : 0;
}

static void begin_fetch(const struct shared_log *log, uint64_t number, struct fetch *ret) {
        *ret = (struct fetch){ .store = log->store };
        shared_log_key(SHARED_LOG_PREFIX, number, ret->key);
}

int shared_log_next_many(struct shared_log *log, size_t at_most, struct arena *arena,
                         struct shared_entry ret[SHARED_LOG_AT_ONCE], size_t *ret_count, bool *ret_holds,
                         struct error *err) {
        struct fetch fetches[SHARED_LOG_AT_ONCE + 1];
        size_t wanted = at_most < SHARED_LOG_AT_ONCE ? at_most : SHARED_LOG_AT_ONCE, count = 0;
        bool asks_own = ret_holds && log->number > 0;
        int found = 1;

        for (size_t i = 0; i < wanted; i++)
                begin_fetch(log, log->number + 1 + i, &fetches[i]);
        if (asks_own)
                begin_fetch(log, log->number, &fetches[wanted]);
        run_fetches(fetches, wanted + asks_own);
        if (ret_holds)
                *ret_holds = true;
        if (asks_own && check_own(log, &fetches[wanted], arena, ret_holds, err) < 0)
                found = -1;
        if (asks_own && found > 0 && !*ret_holds)
                found = 0;
        while (found > 0 && count < wanted) {
                found = take_fetched(log, &fetches[count], arena, &ret[count], err);
                count += found > 0;
        }
        for (size_t i = 0; i < wanted + asks_own; i++)
                object_answer_release(&fetches[i].answer);
        *ret_count = count;
        return found;
}

int shared_log_holds(const struct shared_log *log, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        char key[SHARED_KEY_SIZE];
        struct shared_entry entry;
        int found;

        if (log->number == 0)
                return 1;
        shared_log_key(SHARED_LOG_PREFIX, log->number, key);
        found = read_object(log->store, key, SHARED_LOG, arena, &entry, err);
        if (found <= 0)
                return found;
        return is_entry_of(log, &entry);
}

/*
 * Other entries there (a folder's marker, a copy that a user keeps, another state) are not
 * snapshots.
 */
static bool is_numbered(const char *key, const char *prefix) {
        const char *number = key + strlen(prefix);

        return *number && !number[strspn(number, "0123456789")];
}

/* 1 and `log` moved to the snapshot; 0 where that is gone. */
static int read_snapshot(struct shared_log *log, const char *key, struct arena *arena,
                         struct shared_entry *ret, struct error *err) {
        struct shared_log there = *log;
        struct shared_entry snapshot;
        char right_key[SHARED_KEY_SIZE];
        int found = read_object(log->store, key, SHARED_SNAPSHOT, arena, &snapshot, err), held;

        if (found <= 0)
                return found;
        shared_log_key(SHARED_SNAPSHOT_PREFIX, snapshot.number, right_key);
        if (strcmp(key, right_key) != 0 || strcmp(snapshot.lineage, log->lineage) != 0)
                return fail_foreign(log, key, err);
        there.number = snapshot.number;
        there.epoch = snapshot.epoch;
        memcpy(there.hash, snapshot.previous, SHA256_SIZE);
        /* Its entry is written before it: where that is gone, or another one, the snapshot is of a log that is no more. */
        held = shared_log_holds(&there, err);
        if (held <= 0)
                return held < 0 ? -1 : fail_foreign(log, key, err);
        *log = there;
        *ret = snapshot;
        return 1;
}

int shared_log_snapshot_at(struct shared_log *log, uint64_t number, struct arena *arena,
                           struct shared_entry *ret, struct error *err) {
        char key[SHARED_KEY_SIZE];

        shared_log_key(SHARED_SNAPSHOT_PREFIX, number, key);
        return read_snapshot(log, key, arena, ret, err);
}

/* Without an index nothing was deleted yet: the newest that a list shows will do. */
static int read_listed_snapshot(struct shared_log *log, struct arena *arena, struct shared_entry *ret,
                                struct error *err) {
        struct object_store *store = log->store;
        const char **keys;
        size_t count;

        if (store->ops->list(store, SHARED_SNAPSHOT_PREFIX, arena, &keys, &count, err) != OBJECT_DONE)
                return -1;
        while (count-- > 0) {
                int found = is_numbered(keys[count], SHARED_SNAPSHOT_PREFIX)
                                    ? read_snapshot(log, keys[count], arena, ret, err)
                                    : 0;

                if (found != 0)
                        return found;
        }
        return 0;
}

int shared_log_snapshot(struct shared_log *log, uint64_t serial, struct arena *arena,
                        struct shared_entry *ret, struct error *err) {
        struct shared_index index = { 0 };

        for (int times = 0; times < SNAPSHOT_TRIES; times++) {
                int found = shared_index_read(log->store, log->lineage, arena, &index, err);
                bool older = false;

                if (found < 0)
                        return -1;
                if (found == 0)
                        return serial == SHARED_SERIAL_NEWEST ? read_listed_snapshot(log, arena, ret, err)
                                                              : 0;
                for (size_t i = index.count; i-- > 0;) {
                        char key[SHARED_KEY_SIZE];

                        if (index.snapshots[i].serial > serial)
                                continue;
                        older = true;
                        shared_log_key(SHARED_SNAPSHOT_PREFIX, index.snapshots[i].number, key);
                        found = read_snapshot(log, key, arena, ret, err);
                        if (found != 0)
                                return found;
                }
                if (!older && index.floor == 0)
                        return 0;
                if (!older)
                        return error_set_kind(
                                err, ERROR_NOT_FOUND,
                                "serial %" PRIu64
                                " of the state in %s is older than what is kept of it (%d days): the "
                                "oldest is %" PRIu64,
                                serial, log->store->place, SHARED_KEEP_DAYS, index.snapshots[0].serial);
        }
        if (index.floor == 0)
                return 0; /* they were removed: the log has all that they had */
        return error_set(err,
                         "the snapshots that %s/" SHARED_INDEX_KEY
                         " names are gone: put them back from their older versions (a rule that expires "
                         "objects must not hold for this place)",
                         log->store->place);
}

int shared_log_append(struct shared_log *log, struct shared_entry *entry, struct error *err) {
        struct strbuf bytes STRBUF_CLEANUP = STRBUF_SECRET;
        char key[SHARED_KEY_SIZE];
        int result;

        entry->kind = SHARED_LOG;
        entry->number = log->number + 1;
        memcpy(entry->lineage, log->lineage, sizeof(entry->lineage));
        memcpy(entry->previous, log->hash, SHA256_SIZE);
        if (shared_form_write(entry, &bytes, err) < 0)
                return -1;
        shared_log_key(SHARED_LOG_PREFIX, entry->number, key);
        result = put_own(log->store, key, entry, &bytes, err);
        if (result != SHARED_APPENDED)
                return result;
        log->number = entry->number;
        log->epoch = entry->epoch;
        memcpy(log->hash, entry->hash, SHA256_SIZE);
        return SHARED_APPENDED;
}

int shared_log_put_snapshot(const struct shared_log *log, struct shared_entry *snapshot, struct error *err) {
        struct strbuf bytes STRBUF_CLEANUP = STRBUF_SECRET;
        char key[SHARED_KEY_SIZE];
        int result;

        snapshot->kind = SHARED_SNAPSHOT;
        snapshot->number = log->number;
        snapshot->epoch = log->epoch;
        memcpy(snapshot->lineage, log->lineage, sizeof(snapshot->lineage));
        memcpy(snapshot->previous, log->hash, SHA256_SIZE);
        shared_log_key(SHARED_SNAPSHOT_PREFIX, snapshot->number, key);
        result = shared_form_write(snapshot, &bytes, err);
        if (result == 0)
                result = put_own(log->store, key, snapshot, &bytes, err);
        return result < 0 ? -1 : 0;
}
