/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of sessions on this machine: a database a table in a store of state/'s, values as sealed_value.h seals them (number 0
 * is the version, text 0 the value). A write is one transaction: conditions are looked at inside it, so nothing comes between.
 *
 * The folder has a lock, held for as long as the store is open: a second engine would believe that sandboxes are its own. A new
 * store is made in a folder beside and moved into place whole, so that a process that dies meanwhile leaves none or all of it.
 */
#include "sessions/store.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "base/text.h"
#include "state/sealed_value.h"
#include "state/store.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCK_FILE "engine.lock"
#define NEW_FOLDER "new"

/* From a commit until it is synced, at most: half of what is promised, since a sync takes its time. */
#define SYNC_MS 500

struct local_store {
        struct session_store store; /* first */
        /* Held for reading while `records` is used, for writing while it is opened anew. */
        pthread_rwlock_t in_use;
        struct store *records; /* NULL: it could not be opened anew */
        char *folder;
        atomic_bool suspect; /* a write failed: LMDB may take nothing more until it is opened anew */
        int lock;
        /* The thread that syncs what was committed, some time after the first commit that is not. */
        pthread_t thread;
        pthread_mutex_t sync_lock;
        pthread_cond_t sync_wanted;
        bool unsynced, stopping, has_thread;
};

static const enum store_database databases[SESSION_TABLE_COUNT] = {
        [SESSION_TABLE_SESSIONS] = STORE_SESSIONS,
        [SESSION_TABLE_CONVERSATIONS] = STORE_CONVERSATIONS,
        [SESSION_TABLE_EXECUTIONS] = STORE_EXECUTIONS,
        [SESSION_TABLE_KEYS] = STORE_KEYS,
};

static struct sealed_place place_of(enum session_table table, const char *key) {
        return (struct sealed_place){ store_layout_name(STORE_OF_SESSIONS, databases[table]), key };
}

/*
 * The records, until leave_records(). Where the disk refused the write by which a commit counts, LMDB does nothing any more; nothing
 * of that commit is there then, and opened anew it goes on. That a disk was full must not outlast it.
 */
static struct store *enter_records(struct local_store *local, struct error *err) {
        if (atomic_load(&local->suspect)) {
                pthread_rwlock_wrlock(&local->in_use);
                if (atomic_load(&local->suspect)) {
                        store_close(local->records);
                        local->records = NULL;
                        if (store_open_layout(local->folder, STORE_OF_SESSIONS, STORE_MODE_WRITE,
                                              &local->records, err) == 0)
                                atomic_store(&local->suspect, false);
                }
                pthread_rwlock_unlock(&local->in_use);
        }
        pthread_rwlock_rdlock(&local->in_use);
        if (local->records)
                return local->records;
        pthread_rwlock_unlock(&local->in_use);
        (void)error_context(err, "sessions' records");
        return NULL;
}

static void leave_records(struct local_store *local) {
        pthread_rwlock_unlock(&local->in_use);
}

/* Reading */

struct reading {
        enum session_table table;
        const char *key; /* get */
        /* list */
        const char *prefix, *after;
        bool backwards;
        size_t limit;
        struct arena *arena;
        struct session_item *items;
        size_t count;
};

/* Copies what the store has at the key into the arena. */
static int add_item(struct reading *reading, const char *key, struct slice value, struct error *err) {
        struct sealed_value form;

        if (sealed_value_parse(value.data, value.length, place_of(reading->table, key), 1, 1, &form, err) < 0)
                return -1;
        reading->items = array_grow(reading->arena, reading->items, reading->count, sizeof(*reading->items));
        reading->items[reading->count++] = (struct session_item){
                .table = reading->table,
                .key = key,
                .value = arena_strndup(reading->arena, form.texts[0].text, form.texts[0].length),
                .version = form.numbers[0],
        };
        return 0;
}

static int read_one(struct store_txn *txn, void *context, struct error *err) {
        struct reading *reading = context;
        struct slice value;
        int found = store_get(txn, databases[reading->table], reading->key, &value, err);

        if (found <= 0)
                return found;
        return add_item(reading, arena_strdup(reading->arena, reading->key), value, err) < 0 ? -1 : 1;
}

static int local_get(struct session_store *store, enum session_table table, const char *key,
                     struct arena *arena, struct session_item *ret, struct error *err) {
        struct local_store *local = (struct local_store *)store;
        struct reading reading = { .table = table, .key = key, .arena = arena };
        struct store *records = enter_records(local, err);
        int found;

        if (!records)
                return -1;
        found = store_read(records, read_one, &reading, err);
        leave_records(local);
        if (found > 0)
                *ret = reading.items[0];
        return found;
}

/*
 * Keys are printable ASCII, so DEL comes after all that begin with a prefix: backwards the first one is found in front of
 * that. What stands at `after` itself is left out.
 */
static int read_many(struct store_txn *txn, void *context, struct error *err) {
        struct reading *reading = context;
        struct store_cursor *cursor = NULL;
        struct slice key, value;
        const char *behind = arena_printf(reading->arena, "%s\x7f", reading->prefix);
        const char *from = reading->backwards ? behind : reading->prefix;
        int found = 0;

        /* Within what begins with the prefix, wherever `after` lies. */
        if (reading->after && (strcmp(reading->after, from) > 0) != reading->backwards)
                from = reading->after;
        if (store_cursor_open(txn, databases[reading->table], reading->backwards, &cursor, err) < 0)
                return -1;
        if (*from)
                store_cursor_seek(cursor, from);
        while (reading->count < reading->limit &&
               (found = store_cursor_next(cursor, &key, &value, err)) == 1) {
                const char *name = arena_strndup(reading->arena, key.data, key.length);

                if (reading->after && strcmp(name, reading->after) == 0)
                        continue;
                if (!text_begins_with(name, reading->prefix))
                        break;
                found = add_item(reading, name, value, err);
                if (found < 0)
                        break;
        }
        store_cursor_close(&cursor);
        return found < 0 ? -1 : 0;
}

static int local_list(struct session_store *store, enum session_table table, const char *prefix,
                      const char *after, bool backwards, size_t limit, struct arena *arena,
                      struct session_item **ret, size_t *ret_count, struct error *err) {
        struct local_store *local = (struct local_store *)store;
        struct reading reading = {
                .table = table,
                .prefix = prefix,
                .after = after,
                .backwards = backwards,
                .limit = limit,
                .arena = arena,
        };

        struct store *records = enter_records(local, err);
        int result;

        if (!records)
                return -1;
        result = store_read(records, read_many, &reading, err);
        leave_records(local);
        if (result < 0)
                return -1;
        *ret = reading.items;
        *ret_count = reading.count;
        return 0;
}

/* Writing */

struct writing {
        const struct session_change *changes;
        size_t count;
        struct arena *arena;
        uint64_t versions[SESSION_CHANGES_MAX]; /* of what is there; 0: nothing */
};

static int check_condition(struct store_txn *txn, struct writing *writing, size_t index, struct error *err) {
        const struct session_change *change = &writing->changes[index];
        struct sealed_value form = { 0 };
        struct slice value;
        int found = store_get(txn, databases[change->table], change->key, &value, err);

        if (found < 0 ||
            (found > 0 && sealed_value_parse(value.data, value.length, place_of(change->table, change->key),
                                             1, 1, &form, err) < 0))
                return -1;
        writing->versions[index] = found ? form.numbers[0] : 0;
        switch (change->expect) {
        case SESSION_EXPECT_ABSENT:
                return !found;
        case SESSION_EXPECT_VERSION:
                return found && form.numbers[0] == change->version;
        case SESSION_EXPECT_NOTHING:
                break;
        }
        return 1;
}

static int write_all(struct store_txn *txn, void *context, struct error *err) {
        struct writing *writing = context;

        for (size_t i = 0; i < writing->count; i++) {
                int holds = check_condition(txn, writing, i, err);

                if (holds <= 0)
                        return holds;
        }
        for (size_t i = 0; i < writing->count; i++) {
                const struct session_change *change = &writing->changes[i];
                struct sealed_value form = { 0 };
                uint8_t *bytes;
                size_t length;

                if (!change->value) {
                        if (store_delete(txn, databases[change->table], change->key, err) < 0)
                                return -1;
                        continue;
                }
                sealed_value_add_number(&form, writing->versions[i] + 1);
                sealed_value_add_text(&form, change->value);
                if (sealed_value_pack(&form, writing->arena, &bytes, &length, err) < 0)
                        return -1;
                sealed_value_seal(bytes, length, place_of(change->table, change->key));
                if (store_put(txn, databases[change->table], change->key, bytes, length, err) < 0)
                        return -1;
        }
        return 1;
}

static int local_write(struct session_store *store, const struct session_change *changes, size_t count,
                       struct error *err) {
        struct local_store *local = (struct local_store *)store;
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct writing writing = { .changes = changes, .count = count, .arena = arena };
        struct store *records;
        int stored;

        if (!(records = enter_records(local, err)))
                return -1;
        stored = store_write(records, write_all, &writing, err);
        if (stored < 0)
                atomic_store(&local->suspect, true);
        leave_records(local);
        if (stored > 0) {
                pthread_mutex_lock(&local->sync_lock);
                /* Where something else is not synced yet, the thread has its time already. */
                if (!local->unsynced)
                        pthread_cond_signal(&local->sync_wanted);
                local->unsynced = true;
                pthread_mutex_unlock(&local->sync_lock);
        }
        return stored;
}

/* Opening and closing */

static void *sync_now_and_then(void *context) {
        struct local_store *local = context;

        pthread_mutex_lock(&local->sync_lock);
        while (!local->stopping) {
                struct store *records;
                struct timespec until;
                struct error err;

                if (!local->unsynced) {
                        pthread_cond_wait(&local->sync_wanted, &local->sync_lock);
                        continue;
                }
                until = clock_after_ms(SYNC_MS);
                while (!local->stopping &&
                       pthread_cond_timedwait(&local->sync_wanted, &local->sync_lock, &until) == 0)
                        ;
                local->unsynced = false;
                pthread_mutex_unlock(&local->sync_lock);
                records = enter_records(local, &err);
                if (!records || store_sync(records, &err) < 0)
                        log_warning("sessions' records are not safe from a power loss: %s", err.message);
                if (records)
                        leave_records(local);
                pthread_mutex_lock(&local->sync_lock);
        }
        pthread_mutex_unlock(&local->sync_lock);
        return NULL;
}

static void local_close(struct session_store *store) {
        struct local_store *local = (struct local_store *)store;

        if (local->has_thread) {
                pthread_mutex_lock(&local->sync_lock);
                local->stopping = true;
                pthread_cond_signal(&local->sync_wanted);
                pthread_mutex_unlock(&local->sync_lock);
                pthread_join(local->thread, NULL);
        }
        store_close(local->records);
        pthread_rwlock_destroy(&local->in_use);
        free(local->folder);
        pthread_cond_destroy(&local->sync_wanted);
        pthread_mutex_destroy(&local->sync_lock);
        close_descriptor(&local->lock);
        free(local);
}

static const struct session_store_class local_class = {
        .get = local_get,
        .write = local_write,
        .list = local_list,
        .close = local_close,
};

static int lock_folder(const char *folder, int *ret, struct error *err) {
        char *path TEXT_CLEANUP = path_join(folder, LOCK_FILE);
        int descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

        if (descriptor < 0)
                return error_set(err, "cannot open %s: %s", path, strerror(errno));
        if (flock(descriptor, LOCK_EX | LOCK_NB) < 0) {
                int code = errno;

                close(descriptor);
                if (code == EWOULDBLOCK)
                        return error_set_kind(err, ERROR_LOCKED,
                                              "another server has the sessions in %s; there is one at a time",
                                              folder);
                return error_set(err, "cannot lock %s: %s", path, strerror(code));
        }
        *ret = descriptor;
        return 0;
}

static void remove_new(const char *made) {
        static const char *const names[] = { STORE_DATA_FILE, STORE_LOCK_FILE };

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                char *path TEXT_CLEANUP = path_join(made, names[i]);

                unlink(path);
        }
        rmdir(made);
}

static int make_records(const char *folder, struct error *err) {
        char *made TEXT_CLEANUP = path_join(folder, NEW_FOLDER);
        char *from TEXT_CLEANUP = path_join(made, STORE_DATA_FILE);
        char *to TEXT_CLEANUP = path_join(folder, STORE_DATA_FILE);
        char *synced TEXT_CLEANUP = path_join(folder, STORE_SYNCED_FILE);
        struct store *store;
        int result;

        remove_new(made); /* what a process that died has left */
        /* Of a file that is gone: it would be taken for what this one was last. */
        if (unlink(synced) < 0 && errno != ENOENT)
                return error_set(err, "cannot remove %s: %s", synced, strerror(errno));
        if (mkdir(made, 0700) < 0)
                return error_set(err, "cannot make the folder %s: %s", made, strerror(errno));
        result = store_open_layout(made, STORE_OF_SESSIONS, STORE_MODE_NEW, &store, err);
        if (result == 0) {
                store_close(store);
                result = path_move(from, to, err);
        }
        remove_new(made);
        return result;
}

int session_store_open(const char *folder, struct session_store **ret, struct error *err) {
        char *data TEXT_CLEANUP = path_join(folder, STORE_DATA_FILE);
        int lock DESCRIPTOR_CLEANUP = -1;
        struct local_store *local;
        pthread_condattr_t monotonic;
        struct store *records;
        int code;

        if (folder_make(folder, err) < 0 || lock_folder(folder, &lock, err) < 0)
                return -1;
        if (access(data, F_OK) < 0 && errno == ENOENT && make_records(folder, err) < 0)
                return error_context(err, "sessions' records");
        if (store_open_layout(folder, STORE_OF_SESSIONS, STORE_MODE_WRITE, &records, err) < 0)
                return error_context(err, "sessions' records");
        local = calloc(1, sizeof(*local));
        if (!local)
                abort();
        *local = (struct local_store){ .store.class = &local_class, .records = records, .lock = lock };
        local->folder = strdup(folder);
        if (!local->folder)
                abort();
        lock = -1;
        pthread_rwlock_init(&local->in_use, NULL);
        pthread_mutex_init(&local->sync_lock, NULL);
        if (pthread_condattr_init(&monotonic) != 0 ||
            pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) != 0 ||
            pthread_cond_init(&local->sync_wanted, &monotonic) != 0)
                abort();
        pthread_condattr_destroy(&monotonic);
        code = pthread_create(&local->thread, NULL, sync_now_and_then, local);
        if (code != 0) {
                local_close(&local->store);
                return error_set(err, "cannot start a thread: %s", strerror(code));
        }
        local->has_thread = true;
        *ret = &local->store;
        return 0;
}
