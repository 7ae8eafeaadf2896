/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A copy is made aside and moved into place as a whole folder, since a store's lock file belongs to
 * one data file: a process that has the old folder open goes on with it, as with any copy that was
 * removed.
 */
#include "state/shared_cache.h"

#include "base/array.h"
#include "base/files.h"
#include "base/log.h"
#include "state/sealed_value.h"
#include "state/state_parts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define COPY_MARK "berth-copy"
#define OLD_COPY ".old"
#define RANDOM_LETTERS "XXXXXX" /* mkdtemp's */
#define MAKINGS_MAX 3           /* where others make the same copy at the same time */

bool shared_cache_is_shared(enum store_database database, const char *key) {
        return database != STORE_META ||
               (strcmp(key, STORE_SEAL_KEY) != 0 && strcmp(key, SHARED_CACHE_META) != 0 &&
                strcmp(key, META_LEASE) != 0);
}

uint64_t shared_changes_bytes(const struct shared_change *changes, size_t count) {
        uint64_t bytes = 0;

        for (size_t i = 0; i < count; i++)
                bytes += strlen(changes[i].key) + changes[i].length;
        return bytes;
}

/* Folders */

/* NULL where the environment names none. */
static char *cache_folder(const char *lineage) {
        const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
        char *folder, *berth TEXT_CLEANUP = NULL;

        if (cache && *cache == '/') {
                berth = path_join(cache, "berth");
        } else if (home && *home == '/') {
                char *base TEXT_CLEANUP = path_join(home, ".cache");

                berth = path_join(base, "berth");
        } else {
                return NULL;
        }
        folder = path_join(berth, lineage);
        return folder;
}

static void remove_copy(const char *folder) {
        static const char *const names[] = { STORE_DATA_FILE, STORE_LOCK_FILE, STATE_LINEAGE_FILE,
                                             STATE_IGNORE_FILE, COPY_MARK };

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                char *path TEXT_CLEANUP = path_join(folder, names[i]);

                unlink(path);
        }
        rmdir(folder);
}

void shared_cache_close(struct shared_cache *cache) {
        store_close(cache->store);
        if (cache->temporary && cache->folder)
                remove_copy(cache->folder);
        if (cache->mark > 0)
                close(cache->mark);
        free(cache->folder);
        *cache = (struct shared_cache)SHARED_CACHE_INIT;
}

/*
 * What a process makes for itself has a file that it holds a lock on for as long as it lives. The file gets its name when it is
 * locked: one of that name whose lock is free is a dead process's.
 */
static int mark(const char *folder) {
        char *path TEXT_CLEANUP = path_join(folder, COPY_MARK), *unmarked TEXT_CLEANUP = NULL;
        int descriptor;

        unmarked = path_join(folder, COPY_MARK ".new");
        descriptor = open(unmarked, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (descriptor >= 0 && flock(descriptor, LOCK_EX | LOCK_NB) == 0 && rename(unmarked, path) == 0)
                return descriptor;
        if (descriptor >= 0)
                close(descriptor);
        unlink(unmarked);
        return -1;
}

/* A folder without a mark, or of another user, is left alone. */
static void remove_dead(const char *folder) {
        char *path TEXT_CLEANUP = path_join(folder, COPY_MARK);
        struct stat status;
        int descriptor DESCRIPTOR_CLEANUP = -1;

        if (lstat(folder, &status) < 0 || !S_ISDIR(status.st_mode) || status.st_uid != geteuid())
                return;
        descriptor = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
        if (descriptor >= 0 && flock(descriptor, LOCK_EX | LOCK_NB) == 0)
                remove_copy(folder);
}

/* Whether a name is this one but for its last letters; ".old" may follow, as move_into_place() has it. */
static bool is_alike(const char *name, const char *own) {
        size_t length = strlen(own);

        return strncmp(name, own, length - strlen(RANDOM_LETTERS)) == 0 && strlen(name) >= length &&
               (!name[length] || strcmp(name + length, OLD_COPY) == 0);
}

/* What killed runs have left beside this folder. */
static void sweep_beside(const char *folder) {
        const char *slash = strrchr(folder, '/');
        char *base TEXT_CLEANUP = strndup(folder, (size_t)(slash - folder));
        struct dirent *entry;
        DIR *stream = base ? opendir(base) : NULL;

        while (stream && (entry = readdir(stream))) {
                char *path TEXT_CLEANUP = path_join(base, entry->d_name);

                if (is_alike(entry->d_name, slash + 1) && strcmp(path, folder) != 0)
                        remove_dead(path);
        }
        if (stream)
                closedir(stream);
}

static struct shared_cache mark_own(char *folder) {
        struct shared_cache cache = { .folder = folder, .temporary = true, .mark = mark(folder) };

        sweep_beside(folder);
        return cache;
}

int shared_cache_temporary(struct shared_cache *ret, struct error *err) {
        const char *base = getenv("TMPDIR");
        char *folder = path_join(base && *base == '/' ? base : "/tmp", "berth-state-" RANDOM_LETTERS);

        if (!mkdtemp(folder)) {
                (void)error_set(
                        err,
                        "cannot make the folder %s: %s; set XDG_CACHE_HOME to one that can be written to",
                        folder, strerror(errno));
                free(folder);
                return -1;
        }
        *ret = mark_own(folder);
        return 0;
}

/* A new folder beside where the copy of that lineage lies; else a temporary one. */
static int make_cache_folder(const char *lineage, struct shared_cache *ret, struct error *err) {
        char *place TEXT_CLEANUP = cache_folder(lineage);
        struct strbuf name STRBUF_CLEANUP = STRBUF_INIT;
        struct error unmade;

        if (!place)
                return shared_cache_temporary(ret, err);
        strbuf_printf(&name, "%.*s", (int)(strlen(place) - strlen(lineage) - 1), place);
        if (folder_make(strbuf_text(&name), &unmade) < 0) {
                log_debug("state: %s", unmade.message);
                return shared_cache_temporary(ret, err);
        }
        strbuf_printf(&name, "/%s." RANDOM_LETTERS, lineage);
        if (!mkdtemp(name.data)) {
                log_debug("state: cannot make the folder %s: %s", name.data, strerror(errno));
                return shared_cache_temporary(ret, err);
        }
        *ret = mark_own(strbuf_take(&name));
        return 0;
}

/* Where the copy stands */

enum { PLACE_NUMBER, PLACE_EPOCH, PLACE_SNAPSHOT, PLACE_SNAPSHOT_BYTES, PLACE_LOG_BYTES, PLACE_NUMBERS };

static int put_place(struct store_txn *txn, const struct shared_place *place, struct error *err) {
        const uint64_t numbers[PLACE_NUMBERS] = {
                [PLACE_NUMBER] = place->number,       [PLACE_EPOCH] = place->epoch,
                [PLACE_SNAPSHOT] = place->snapshot,   [PLACE_SNAPSHOT_BYTES] = place->snapshot_bytes,
                [PLACE_LOG_BYTES] = place->log_bytes,
        };
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct sealed_value form = { 0 };
        char hex[SHA256_HEX_SIZE];
        uint8_t *bytes;
        size_t length;

        for (size_t i = 0; i < PLACE_NUMBERS; i++)
                sealed_value_add_number(&form, numbers[i]);
        digest_hex(place->hash, SHA256_SIZE, hex);
        sealed_value_add_text(&form, hex);
        if (sealed_value_pack(&form, arena, &bytes, &length, err) < 0)
                return -1;
        return state_put_sealed(txn, STORE_META, SHARED_CACHE_META, bytes, length, err);
}

static int get_place(struct store_txn *txn, struct shared_place *ret, struct error *err) {
        const struct sealed_place where = { store_database_name(STORE_META), SHARED_CACHE_META };
        struct sealed_value form;
        struct slice value;
        int found = store_get(txn, STORE_META, SHARED_CACHE_META, &value, err);

        if (found < 0)
                return -1;
        if (found == 0)
                return error_set(err, "the copy does not say where it stands");
        if (sealed_value_parse(value.data, value.length, where, PLACE_NUMBERS, 1, &form, err) < 0)
                return -1;
        *ret = (struct shared_place){
                .number = form.numbers[PLACE_NUMBER],
                .epoch = form.numbers[PLACE_EPOCH],
                .snapshot = form.numbers[PLACE_SNAPSHOT],
                .snapshot_bytes = form.numbers[PLACE_SNAPSHOT_BYTES],
                .log_bytes = form.numbers[PLACE_LOG_BYTES],
        };
        return shared_hash_read(form.texts[0].text, ret->hash)
                       ? 0
                       : error_set(err, "the copy does not say where it stands");
}

static int read_place(struct store_txn *txn, void *context, struct error *err) {
        return get_place(txn, context, err);
}

int shared_cache_check(struct store_txn *txn, const struct shared_log *log, struct error *err) {
        struct shared_place place;

        if (get_place(txn, &place, err) < 0)
                return -1;
        if (place.number == log->number && memcmp(place.hash, log->hash, SHA256_SIZE) == 0)
                return 0;
        return error_set_kind(
                err, ERROR_LOCKED,
                "the copy of the state of %s on this machine stands elsewhere than this run: another process writes "
                "to that state, or to another place that was copied from it. This run records nothing more; run "
                "it again",
                log->store->place);
}

/* Opening and making */

/* Most runs make no folder of their own, and find what others have left. */
static void sweep_copies_of(const char *copy) {
        struct strbuf alike STRBUF_CLEANUP = STRBUF_INIT;

        strbuf_printf(&alike, "%s." RANDOM_LETTERS, copy);
        sweep_beside(strbuf_text(&alike));
}

int shared_cache_open(const char *lineage, struct shared_cache *ret, struct error *err) {
        struct shared_cache cache = { .folder = cache_folder(lineage) };

        if (!cache.folder)
                return error_set(err, "neither XDG_CACHE_HOME nor HOME is set");
        if (store_open(cache.folder, STORE_MODE_WRITE, &cache.store, err) < 0 ||
            store_read(cache.store, read_place, &cache.place, err) < 0) {
                shared_cache_close(&cache);
                return -1;
        }
        store_may_vanish(cache.store);
        sweep_copies_of(cache.folder);
        *ret = cache;
        return 0;
}

struct filling {
        const struct shared_entry *base;
        struct shared_place place;
};

int shared_cache_put(struct store_txn *txn, const struct shared_change *changes, size_t count,
                     struct error *err) {
        for (size_t i = 0; i < count; i++) {
                const struct shared_change *change = &changes[i];
                int result;

                if (!shared_cache_is_shared(change->database, change->key))
                        continue;
                result = change->value ? store_put(txn, change->database, change->key, change->value,
                                                   change->length, err)
                                       : store_delete(txn, change->database, change->key, err);
                if (result < 0)
                        return -1;
        }
        return 0;
}

static int fill(struct store_txn *txn, void *context, struct error *err) {
        const struct filling *filling = context;

        return shared_cache_put(txn, filling->base->changes, filling->base->count, err) < 0
                       ? -1
                       : put_place(txn, &filling->place, err);
}

/* Puts the folder where the copy lies, in place of one that is there. */
static int move_into_place(const struct shared_cache *made, const char *place) {
        struct strbuf aside STRBUF_CLEANUP = STRBUF_INIT;

        strbuf_printf(&aside, "%s" OLD_COPY, made->folder);
        if (rename(place, strbuf_text(&aside)) == 0)
                remove_copy(strbuf_text(&aside));
        return rename(made->folder, place);
}

int shared_cache_make_aside(const struct shared_log *log, const struct shared_entry *base,
                            struct shared_cache *ret, struct error *err) {
        struct filling filling = { .base = base };
        struct shared_cache made;
        int result;

        filling.place = (struct shared_place){
                .number = log->number,
                .epoch = log->epoch,
                .snapshot = log->number,
                .snapshot_bytes = shared_changes_bytes(base->changes, base->count),
        };
        memcpy(filling.place.hash, log->hash, SHA256_SIZE);
        if (make_cache_folder(log->lineage, &made, err) < 0)
                return -1;
        result = store_open(made.folder, STORE_MODE_NEW, &made.store, err);
        if (result == 0)
                result = store_write(made.store, fill, &filling, err);
        if (result < 0) {
                shared_cache_close(&made);
                return error_context(err, "the copy of the state on this machine");
        }
        made.place = filling.place;
        *ret = made;
        return 0;
}

int shared_cache_make(const struct shared_log *log, const struct shared_entry *base, struct shared_cache *ret,
                      struct error *err) {
        char *place TEXT_CLEANUP = cache_folder(log->lineage);
        struct shared_cache made;

        if (shared_cache_make_aside(log, base, &made, err) < 0)
                return -1;
        store_close(made.store);
        made.store = NULL;
        for (int times = 0; place && times < MAKINGS_MAX; times++) {
                struct error failure;

                if (move_into_place(&made, place) < 0)
                        continue;
                made.temporary = false;
                shared_cache_close(&made);
                if (shared_cache_open(log->lineage, ret, &failure) == 0)
                        return 0;
                *err = failure;
                return -1;
        }
        /* Where it cannot be put there it serves this process alone. */
        if (store_open(made.folder, STORE_MODE_WRITE, &made.store, err) < 0) {
                shared_cache_close(&made);
                return -1;
        }
        store_may_vanish(made.store);
        *ret = made;
        return 0;
}

/* Going on */

struct applying {
        const struct shared_entry *entries;
        size_t count;
        struct shared_place place;
        bool gap;
};

static int apply_entry(struct store_txn *txn, struct applying *applying, const struct shared_entry *entry,
                       struct error *err) {
        if (applying->place.number >= entry->number)
                return 0;
        if (applying->place.number + 1 != entry->number ||
            memcmp(applying->place.hash, entry->previous, SHA256_SIZE) != 0) {
                applying->gap = true;
                return 0;
        }
        applying->place.number = entry->number;
        applying->place.epoch = entry->epoch;
        applying->place.log_bytes += shared_changes_bytes(entry->changes, entry->count);
        memcpy(applying->place.hash, entry->hash, SHA256_SIZE);
        return shared_cache_put(txn, entry->changes, entry->count, err);
}

static int apply_entries(struct store_txn *txn, void *context, struct error *err) {
        struct applying *applying = context;
        uint64_t before;

        applying->gap = false;
        if (get_place(txn, &applying->place, err) < 0)
                return -1;
        before = applying->place.number;
        for (size_t i = 0; i < applying->count && !applying->gap; i++) {
                if (apply_entry(txn, applying, &applying->entries[i], err) < 0)
                        return -1;
        }
        return applying->place.number == before ? 0 : put_place(txn, &applying->place, err);
}

int shared_cache_apply(struct shared_cache *cache, const struct shared_entry *entries, size_t count,
                       bool *ret_gap, struct error *err) {
        struct applying applying = { .entries = entries, .count = count };

        if (store_write(cache->store, apply_entries, &applying, err) < 0)
                return -1;
        cache->place = applying.place;
        *ret_gap = applying.gap;
        return 0;
}

static int write_place(struct store_txn *txn, void *context, struct error *err) {
        return put_place(txn, context, err);
}

int shared_cache_note_snapshot(struct shared_cache *cache, uint64_t bytes, struct error *err) {
        struct shared_place place = cache->place;

        place.snapshot = place.number;
        place.snapshot_bytes = bytes;
        place.log_bytes = 0;
        if (store_write(cache->store, write_place, &place, err) < 0)
                return -1;
        cache->place = place;
        return 0;
}

/* Everything */

struct dump {
        const struct shared_log *log; /* where the copy must stand; NULL: anywhere */
        struct arena *arena;
        struct shared_change *changes;
        size_t count;
};

static int dump_database(struct store_txn *txn, enum store_database database, struct dump *dump,
                         struct error *err) {
        struct store_cursor *cursor STORE_CURSOR_CLEANUP = NULL;
        struct slice key, value;
        int found;

        if (store_cursor_open(txn, database, false, &cursor, err) < 0)
                return -1;
        while ((found = store_cursor_next(cursor, &key, &value, err)) > 0) {
                const char *name = arena_strndup(dump->arena, key.data, key.length);

                if (!shared_cache_is_shared(database, name))
                        continue;
                dump->changes = array_grow(dump->arena, dump->changes, dump->count, sizeof(*dump->changes));
                dump->changes[dump->count++] = (struct shared_change){
                        .database = database,
                        .key = name,
                        .value = arena_strndup(dump->arena, value.data, value.length),
                        .length = value.length,
                };
        }
        return found;
}

static int dump_all(struct store_txn *txn, void *context, struct error *err) {
        const struct dump *dump = context;

        if (dump->log && shared_cache_check(txn, dump->log, err) < 0)
                return -1;
        for (int database = 0; database < STORE_DATABASE_COUNT; database++) {
                if (dump_database(txn, (enum store_database)database, context, err) < 0)
                        return -1;
        }
        return 0;
}

int shared_cache_dump(struct store *store, struct arena *arena, struct shared_change **ret, size_t *ret_count,
                      struct error *err) {
        return shared_cache_dump_at(store, NULL, arena, ret, ret_count, err);
}

int shared_cache_dump_at(struct store *store, const struct shared_log *log, struct arena *arena,
                         struct shared_change **ret, size_t *ret_count, struct error *err) {
        struct dump dump = { .log = log, .arena = arena };

        if (store_read(store, dump_all, &dump, err) < 0)
                return -1;
        *ret = dump.changes;
        *ret_count = dump.count;
        return 0;
}

/* Comparing */

static int compare_changes(const struct shared_change *a, const struct shared_change *b) {
        if (a->database != b->database)
                return a->database < b->database ? -1 : 1;
        return strcmp(a->key, b->key);
}

static bool are_equal(const struct shared_change *a, const struct shared_change *b) {
        return a->length == b->length && memcmp(a->value, b->value, a->length) == 0;
}

void shared_cache_compare(const struct shared_change *now, size_t now_count, const struct shared_change *then,
                          size_t then_count, shared_told *told, void *context) {
        size_t i = 0, j = 0;

        while (i < now_count || j < then_count) {
                int order = i == now_count ? 1 : j == then_count ? -1 : compare_changes(&now[i], &then[j]);

                if (order < 0)
                        told(context, SHARED_GONE,
                             &(struct shared_change){ .database = now[i].database, .key = now[i].key });
                else if (order > 0)
                        told(context, SHARED_NEW, &then[j]);
                else if (!are_equal(&now[i], &then[j]))
                        told(context, SHARED_OTHER, &then[j]);
                i += order <= 0;
                j += order >= 0;
        }
}
