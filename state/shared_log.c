/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything rests on one thing: put_if_absent() lets one writer have each number. What makes it long is that a put's answer may be
 * lost, or tell of a condition that our own first try has broken. Then the object is read: the random id in it tells whose it is.
 */
#include "state/shared_log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PUTS_MAX \
        4 /* of the same bytes, where no answer tells what became of them; each was tried more than once below */

void shared_log_key(const char *prefix, uint64_t number, char ret[SHARED_KEY_SIZE]) {
        snprintf(ret, SHARED_KEY_SIZE, "%s%012" PRIu64, prefix, number);
}

/* "s3://bucket/prefix/log/000000000007". */
static const char *place_of(const struct object_store *store, const char *key, struct arena *arena) {
        return arena_printf(arena, "%s/%s", store->place, key);
}

/*
 * 1 and the entry, 0 where there is none. Bytes that do not hold together may be an answer's that was cut off: they are asked for
 * once more before they count as damaged.
 */
static int read_object(struct object_store *store, const char *key, enum shared_kind kind,
                       struct arena *arena, struct shared_entry *ret, struct error *err) {
        const char *place = place_of(store, key, arena);
        struct error failure = { 0 };

        for (int times = 0; times < 2; times++) {
                struct object_answer answer OBJECT_ANSWER_CLEANUP = OBJECT_ANSWER_INIT;
                int outcome = store->ops->get(store, key, &answer, err);

                if (outcome == OBJECT_ABSENT)
                        return 0;
                if (outcome != OBJECT_DONE)
                        return -1;
                if (shared_form_read(arena_strndup(arena, strbuf_text(&answer.body), answer.body.length),
                                     answer.body.length, kind, place, arena, ret, &failure) == 0)
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
        struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT;
        int result;

        root->kind = SHARED_SNAPSHOT;
        root->number = 0;
        memset(root->previous, 0, sizeof(root->previous));
        result = shared_form_write(root, &bytes, err);
        if (result == 0)
                result = put_own(store, SHARED_ROOT, root, &bytes, err);
        strbuf_wipe(&bytes); /* the secret key is in it */
        if (result == SHARED_TAKEN)
                return error_set_kind(err, ERROR_LOCKED,
                                      "somebody else has just made the state in %s: run it again",
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

int shared_log_next(struct shared_log *log, struct arena *arena, struct shared_entry *ret,
                    struct error *err) {
        char key[SHARED_KEY_SIZE];
        struct shared_entry entry;
        int found;

        shared_log_key(SHARED_LOG_PREFIX, log->number + 1, key);
        found = read_object(log->store, key, SHARED_LOG, arena, &entry, err);
        if (found <= 0)
                return found;
        if (strcmp(entry.lineage, log->lineage) != 0 || entry.number != log->number + 1 ||
            memcmp(entry.previous, log->hash, SHA256_SIZE) != 0)
                return fail_foreign(log, key, err);
        log->number = entry.number;
        log->epoch = entry.epoch;
        memcpy(log->hash, entry.hash, SHA256_SIZE);
        *ret = entry;
        return 1;
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
        return strcmp(entry.lineage, log->lineage) == 0 && memcmp(entry.hash, log->hash, SHA256_SIZE) == 0;
}

/* What else lies there (a folder's marker, a copy that somebody keeps, another state) is no snapshot. */
static bool is_numbered(const char *key, const char *prefix) {
        const char *number = key + strlen(prefix);

        return *number && !number[strspn(number, "0123456789")];
}

int shared_log_snapshot(struct shared_log *log, struct arena *arena, struct shared_entry *ret,
                        struct error *err) {
        struct object_store *store = log->store;
        const char **keys;
        size_t count;

        if (store->ops->list(store, SHARED_SNAPSHOT_PREFIX, arena, &keys, &count, err) != OBJECT_DONE)
                return -1;
        while (count-- > 0) {
                struct shared_log there = *log;
                struct shared_entry snapshot;
                char key[SHARED_KEY_SIZE];
                int found = is_numbered(keys[count], SHARED_SNAPSHOT_PREFIX)
                                    ? read_object(store, keys[count], SHARED_SNAPSHOT, arena, &snapshot, err)
                                    : 0;
                int held;

                if (found < 0)
                        return -1;
                if (found == 0)
                        continue; /* it has just gone, or the list lags */
                shared_log_key(SHARED_SNAPSHOT_PREFIX, snapshot.number, key);
                if (strcmp(key, keys[count]) != 0 || strcmp(snapshot.lineage, log->lineage) != 0)
                        return fail_foreign(log, keys[count], err);
                if (snapshot.number <= log->number)
                        return 0;
                there.number = snapshot.number;
                there.epoch = snapshot.epoch;
                memcpy(there.hash, snapshot.previous, SHA256_SIZE);
                /* Its entry is written before it: where that is gone, or another one, the snapshot is of a log that is no more. */
                held = shared_log_holds(&there, err);
                if (held <= 0)
                        return held < 0 ? -1 : fail_foreign(log, keys[count], err);
                *log = there;
                *ret = snapshot;
                return 1;
        }
        return 0;
}

int shared_log_append(struct shared_log *log, struct shared_entry *entry, struct error *err) {
        struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT;
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
        struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT;
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
        strbuf_wipe(&bytes);
        return result < 0 ? -1 : 0;
}
