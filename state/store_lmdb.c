/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store on LMDB; the only file that includes lmdb.h.
 *
 * Transactions are durable as LMDB makes them: pages are written beside those in use, synced, and one meta page is
 * switched with a synced write. The file is written by pwrite() (no MDB_WRITEMAP), so a full disk is an error and not
 * SIGBUS. Read transactions are not bound to threads (MDB_NOTLS).
 */
#include "state/store.h"

#include "base/arena.h"
#include "base/digest.h"
#include "base/files.h"
#include "base/library.h"
#include "base/log.h"
#include "process/identity.h"
#include "state/pages.h"
#include "state/sealed_value.h"
#include "state/store_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include <lmdb.h>

/* pages.c reads the layout of this line of LMDB. */
#if MDB_VERSION_MAJOR != 0 || MDB_VERSION_MINOR != 9 || MDB_VERSION_PATCH >= 70
#error "Berth's check of the state file knows LMDB 0.9 only"
#endif

#define LMDB_SYMBOLS(X)           \
        X(mdb_cursor_close)       \
        X(mdb_cursor_get)         \
        X(mdb_cursor_open)        \
        X(mdb_dbi_open)           \
        X(mdb_del)                \
        X(mdb_env_close)          \
        X(mdb_env_copyfd2)        \
        X(mdb_env_create)         \
        X(mdb_env_get_fd)         \
        X(mdb_env_info)           \
        X(mdb_env_open)           \
        X(mdb_env_set_mapsize)    \
        X(mdb_env_set_maxdbs)     \
        X(mdb_env_set_maxreaders) \
        X(mdb_env_stat)           \
        X(mdb_get)                \
        X(mdb_put)                \
        X(mdb_reader_check)       \
        X(mdb_stat)               \
        X(mdb_strerror)           \
        X(mdb_txn_abort)          \
        X(mdb_txn_begin)          \
        X(mdb_txn_commit)         \
        X(mdb_txn_id)

LMDB_SYMBOLS(LIBRARY_POINTER)
static const struct library_symbol lmdb_symbols[] = { LMDB_SYMBOLS(LIBRARY_SYMBOL) };
static struct library lmdb = LIBRARY(LMDB_SONAME, "liblmdb0", "the state", lmdb_symbols);

#define FIRST_MAP_SIZE ((size_t)16 << 20)
#define LARGEST_MAP_SIZE ((size_t)1 << 40)
#define READERS_MAX 254
#define NO_SPACE_LEFT 65536
#define FILE_MODE 0600
#define ENTRIES_MAPPED 4096 /* read by a cursor before it lets go of the map's pages */

/* What store_write()'s attempt answers when the map must grow first. */
#define GROW 2

struct store {
        MDB_env *env;
        MDB_dbi databases[STORE_DATABASE_COUNT];
        char *path; /* of the data file */
        /*
         * Held for reading by each transaction, for writing while the map is replaced. A thread
         * that wants it comes by the gate.
         */
        pthread_rwlock_t map_lock;
        pthread_mutex_t map_gate;
        size_t map_size;
        bool lost_map; /* it could not be mapped again: nothing works any more */
        enum store_layout layout;
        bool read_only;
        MDB_txn *
                pinned; /* grouped layouts: reads what was synced last, so that its pages are not used again */
        char *synced;   /* path of the file that says what that was; NULL: each commit is synced */
        bool may_vanish;
        bool unlocked; /* opened without a lock file: nothing keeps a writer from what we read */
        struct store_file file;
};

struct store_txn {
        struct store *store;
        MDB_txn *txn;
        bool writes, changed, map_full;
        const struct rehearsal *rehearsal; /* or NULL */
};

/* The receiver of a rehearsed transaction's writes. */
struct rehearsal {
        store_told *told;
        void *context;
};

struct store_cursor {
        struct store_txn *txn;
        MDB_cursor *cursor;
        bool begun, backwards;
        const char *sought; /* where it begins, until it has begun; borrowed */
        /* The range that was read since the map's pages were last let go. */
        uintptr_t low, high;
        size_t entries;
};

static const char *const database_names[STORE_DATABASE_COUNT] = {
        [STORE_META] = "meta",         [STORE_RECORDED] = "recorded", [STORE_OBSERVED] = "observed",
        [STORE_BINDINGS] = "bindings", [STORE_JOURNAL] = "journal",   [STORE_OVERRIDES] = "overrides",
        [STORE_HISTORY] = "history",
};
static const char *const sessions_names[STORE_SESSIONS_COUNT] = {
        [STORE_META] = "meta",
        [STORE_SESSIONS] = "sessions",
        [STORE_CONVERSATIONS] = "conversations",
        [STORE_EXECUTIONS] = "executions",
        [STORE_KEYS] = "keys",
};
static const struct layout {
        const char *const *names;
        int count;
} layouts[] = {
        [STORE_OF_STATE] = { database_names, STORE_DATABASE_COUNT },
        [STORE_OF_SESSIONS] = { sessions_names, STORE_SESSIONS_COUNT },
};

const char *store_database_name(enum store_database database) {
        return database_names[database];
}

const char *store_layout_name(enum store_layout layout, enum store_database database) {
        return layouts[layout].names[database];
}

/* A write that the disk cut short reaches us as EIO. */
static bool disk_full(const char *path) {
        struct statvfs status;

        return statvfs(path, &status) == 0 && status.f_bavail * status.f_frsize < NO_SPACE_LEFT;
}

static int fail_lmdb(const char *path, int code, const char *verb, struct error *err) {
        if (code == ENOSPC || code == EDQUOT || (code == EIO && disk_full(path)))
                return error_set(
                        err,
                        "cannot %s the state file %s: no space left on its disk; the state is as it was "
                        "before: free some space and run again",
                        verb, path);
        switch (code) {
        case EIO:
                return error_set(
                        err,
                        "cannot %s the state file %s: the disk reports an input/output error; check the "
                        "disk, and the state with `berth state verify`",
                        verb, path);
        case MDB_PANIC:
                return error_set(err, "cannot %s the state file %s: an earlier write to it failed; run again",
                                 verb, path);
        case MDB_CORRUPTED:
        case MDB_PAGE_NOTFOUND:
        case MDB_INVALID:
        case MDB_VERSION_MISMATCH:
        case MDB_INCOMPATIBLE:
                return error_set(err, "the state file %s is damaged (%s); " STATE_REMEDY, path,
                                 sym_mdb_strerror(code));
        case MDB_READERS_FULL:
                return error_set(err, "cannot %s the state file %s: more than %d processes read it", verb,
                                 path, READERS_MAX);
        default:
                return error_set(err, "cannot %s the state file %s: %s", verb, path, sym_mdb_strerror(code));
        }
}

/* The map */

static size_t map_size_for(size_t bytes) {
        size_t size = FIRST_MAP_SIZE;

        while (size < bytes && size < LARGEST_MAP_SIZE)
                size *= 2;
        return size;
}

/*
 * Not while a thread waits to replace the map: otherwise a steady stream of readers could keep it
 * from growing forever.
 */
static void hold_map(struct store *store) {
        pthread_mutex_lock(&store->map_gate);
        pthread_rwlock_rdlock(&store->map_lock);
        pthread_mutex_unlock(&store->map_gate);
}

/*
 * Doubles the map where a transaction found `used` too small and no other thread has grown it since, or takes over
 * what another process has made of the file.
 */
static int grow_map(struct store *store, size_t used, bool full, struct error *err) {
        size_t size, needed;
        MDB_envinfo info;
        MDB_stat status;
        int code = ENOMEM;

        pthread_mutex_lock(&store->map_gate);
        pthread_rwlock_wrlock(&store->map_lock);
        if (!store->lost_map) {
                sym_mdb_env_info(store->env, &info);
                sym_mdb_env_stat(store->env, &status);
                needed = map_size_for((info.me_last_pgno + 1) * status.ms_psize + 1);
                size = full && store->map_size == used ? used * 2 : store->map_size;
                size = size > needed ? size : needed;
                code = size > LARGEST_MAP_SIZE ? EFBIG : sym_mdb_env_set_mapsize(store->env, size);
                if (code == 0)
                        store->map_size = size;
                else if (code != EFBIG)
                        store->lost_map = true; /* LMDB has let go of the old one */
        }
        pthread_rwlock_unlock(&store->map_lock);
        pthread_mutex_unlock(&store->map_gate);
        return code == 0 ? 0 : fail_lmdb(store->path, code, "map more of", err);
}

/* Transactions. The map lock is held from begin_txn() to end_txn(). */

static int begin_txn(struct store *store, bool write, struct store_txn *ret, struct error *err) {
        for (;;) {
                struct store_txn txn = { .store = store, .writes = write };
                size_t map_size;
                int code;

                hold_map(store);
                map_size = store->map_size;
                code = store->lost_map
                               ? ENOMEM
                               : sym_mdb_txn_begin(store->env, NULL, write ? 0 : MDB_RDONLY, &txn.txn);
                if (code == MDB_READERS_FULL && sym_mdb_reader_check(store->env, NULL) == 0)
                        code = sym_mdb_txn_begin(store->env, NULL, MDB_RDONLY, &txn.txn);
                if (code == 0) {
                        *ret = txn;
                        return 0;
                }
                pthread_rwlock_unlock(&store->map_lock);
                if (code != MDB_MAP_RESIZED)
                        return fail_lmdb(store->path, code, write ? "write" : "read", err);
                if (grow_map(store, map_size, false, err) < 0)
                        return -1;
        }
}

static void end_txn(struct store_txn *txn) {
        if (txn->txn)
                sym_mdb_txn_abort(txn->txn);
        txn->txn = NULL;
        pthread_rwlock_unlock(&txn->store->map_lock);
}

/*
 * Without the lock file a writer does not know of us, and may use the pages of our view again two commits later. Such a
 * view is not believed.
 */
static int check_view_is_current(const struct store_txn *txn, struct error *err) {
        MDB_envinfo info;

        if (!txn->store->unlocked)
                return 0;
        sym_mdb_env_info(txn->store->env, &info);
        if (info.me_last_txnid <= sym_mdb_txn_id(txn->txn) + 1)
                return 0;
        return error_set(
                err,
                "the state file %s changed while it was read, and its folder cannot be written to so as "
                "to hold it still: try again, or get write permission to the folder",
                txn->store->path);
}

int store_read(struct store *store, store_body *body, void *context, struct error *err) {
        struct store_txn txn = { .store = store };
        int result;

        if (begin_txn(store, false, &txn, err) < 0)
                return -1;
        result = body(&txn, context, err);
        if (check_view_is_current(&txn, err) < 0)
                result = -1;
        end_txn(&txn);
        return result;
}

/*
 * Each transaction that changes something writes its own number into a value, the seal. Where the disk gives back an older
 * meta page than was written, number and seal do not agree, and that is seen when the state is opened.
 */
static int put_seal(struct store_txn *txn, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct sealed_value form = { 0 };
        uint8_t *bytes;
        size_t length;

        sealed_value_add_number(&form, store_txn_number(txn));
        if (sealed_value_pack(&form, arena, &bytes, &length, err) < 0)
                return -1;
        sealed_value_seal(bytes, length, (struct sealed_place){ database_names[STORE_META], STORE_SEAL_KEY });
        return store_put(txn, STORE_META, STORE_SEAL_KEY, bytes, length, err);
}

static int commit_txn(struct store_txn *txn, struct error *err) {
        int code = sym_mdb_txn_commit(txn->txn);

        txn->txn = NULL;
        if (code == MDB_MAP_FULL)
                return GROW;
        return code == 0 ? 0 : fail_lmdb(txn->store->path, code, "write to", err);
}

/*
 * A commit to a file that was removed or replaced would be lost, since no process can open that
 * file by its name any more.
 */
static int check_place(const struct store *store, struct error *err) {
        mdb_filehandle_t descriptor;

        if (store->may_vanish || (sym_mdb_env_get_fd(store->env, &descriptor) == 0 &&
                                  descriptor_is_at(descriptor, store->path) == 1))
                return 0;
        return error_set(err,
                         "the state file %s was removed or replaced while it was in use: what is done now "
                         "would be recorded nowhere",
                         store->path);
}

/*
 * One transaction: the caller's body, the seal, the commit. GROW where the map was too small for any of them: nothing
 * is kept then, and the body runs again.
 */
static int attempt_write(struct store *store, store_body *body, void *context,
                         const struct rehearsal *rehearsal, size_t *ret_map_size, struct error *err) {
        struct store_txn txn = { .store = store };
        int result, committed = 0;

        if (begin_txn(store, true, &txn, err) < 0)
                return -1;
        txn.rehearsal = rehearsal;
        *ret_map_size = store->map_size;
        result = body(&txn, context, err);
        if (result >= 0 && txn.changed && !rehearsal && put_seal(&txn, err) < 0)
                result = -1;
        if (result >= 0 && txn.changed && !rehearsal && check_place(store, err) < 0)
                result = -1;
        if (result >= 0 && !rehearsal)
                committed = commit_txn(&txn, err);
        end_txn(&txn);
        if (txn.map_full)
                return GROW;
        return committed ? committed : result;
}

static int write_or_rehearse(struct store *store, store_body *body, void *context,
                             const struct rehearsal *rehearsal, struct error *err) {
        struct error failure; /* an attempt may fail and the next succeed: `err` is untouched then */
        int result;

        if (store->read_only)
                return error_set(err, "the state file %s was opened for reading only", store->path);
        for (;;) {
                size_t map_size;

                result = attempt_write(store, body, context, rehearsal, &map_size, &failure);
                if (result == GROW)
                        result = grow_map(store, map_size, true, &failure) < 0 ? -1 : GROW;
                if (result != GROW)
                        break;
        }
        if (result < 0)
                *err = failure;
        return result;
}

int store_write(struct store *store, store_body *body, void *context, struct error *err) {
        return write_or_rehearse(store, body, context, NULL, err);
}

int store_rehearse(struct store *store, store_body *body, void *context, store_told *told, void *told_context,
                   struct error *err) {
        const struct rehearsal rehearsal = { told, told_context };

        return write_or_rehearse(store, body, context, &rehearsal, err);
}

void store_may_vanish(struct store *store) {
        store->may_vanish = true;
}

uint64_t store_txn_number(const struct store_txn *txn) {
        return sym_mdb_txn_id(txn->txn);
}

/* Entries */

static MDB_val lmdb_key(const char *key) {
        return (MDB_val){ .mv_size = strlen(key), .mv_data = (void *)(uintptr_t)key };
}

static int check_key(MDB_val key, struct error *err) {
        if (key.mv_size >= 1 && key.mv_size <= STORE_KEY_MAX)
                return 0;
        return error_set(err, "a name of %zu bytes cannot be kept in the state", key.mv_size);
}

int store_get(struct store_txn *txn, enum store_database database, const char *key, struct slice *ret,
              struct error *err) {
        MDB_val name = lmdb_key(key), value;
        int code;

        if (check_key(name, err) < 0)
                return -1;
        code = sym_mdb_get(txn->txn, txn->store->databases[database], &name, &value);
        if (code == MDB_NOTFOUND)
                return 0;
        if (code != 0)
                return fail_lmdb(txn->store->path, code, "read", err);
        *ret = (struct slice){ value.mv_data, value.mv_size };
        return 1;
}

static int note_change(struct store_txn *txn, int code, struct error *err) {
        if (code == 0) {
                txn->changed = true;
                return 0;
        }
        txn->map_full = code == MDB_MAP_FULL;
        return fail_lmdb(txn->store->path, code, "write to", err);
}

int store_put(struct store_txn *txn, enum store_database database, const char *key, const void *data,
              size_t length, struct error *err) {
        MDB_val name = lmdb_key(key), value = { .mv_size = length, .mv_data = (void *)(uintptr_t)data };

        if (check_key(name, err) < 0)
                return -1;
        if (txn->rehearsal)
                txn->rehearsal->told(txn->rehearsal->context, database, key, data, length);
        return note_change(txn, sym_mdb_put(txn->txn, txn->store->databases[database], &name, &value, 0),
                           err);
}

int store_delete(struct store_txn *txn, enum store_database database, const char *key, struct error *err) {
        MDB_val name = lmdb_key(key);
        int code;

        if (check_key(name, err) < 0)
                return -1;
        if (txn->rehearsal)
                txn->rehearsal->told(txn->rehearsal->context, database, key, NULL, 0);
        code = sym_mdb_del(txn->txn, txn->store->databases[database], &name, NULL);
        return code == MDB_NOTFOUND ? 0 : note_change(txn, code, err);
}

int store_count(struct store_txn *txn, enum store_database database, size_t *ret, struct error *err) {
        MDB_stat status;
        int code = sym_mdb_stat(txn->txn, txn->store->databases[database], &status);

        if (code != 0)
                return fail_lmdb(txn->store->path, code, "read", err);
        *ret = status.ms_entries;
        return 0;
}

int store_cursor_open(struct store_txn *txn, enum store_database database, bool backwards,
                      struct store_cursor **ret, struct error *err) {
        struct store_cursor *cursor;
        MDB_cursor *inner;
        int code = sym_mdb_cursor_open(txn->txn, txn->store->databases[database], &inner);

        if (code != 0)
                return fail_lmdb(txn->store->path, code, "read", err);
        cursor = calloc(1, sizeof(*cursor));
        if (!cursor)
                abort();
        *cursor = (struct store_cursor){
                .txn = txn,
                .cursor = inner,
                .backwards = backwards,
                .low = UINTPTR_MAX,
        };
        *ret = cursor;
        return 0;
}

/*
 * What the caller has been given and has copied need not stay mapped, else the whole file counts as
 * this process's memory. The pages remain in the kernel's cache, and come back if they are read
 * again. Not while writing: pages that the transaction has changed are LMDB's own memory, which
 * would come back as zeros.
 */
static void release_mapped_pages(struct store_cursor *cursor) {
        uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = cursor->low & ~(page - 1);

        if (cursor->high > start && !cursor->txn->writes)
                madvise((void *)start, cursor->high - start, MADV_DONTNEED);
        cursor->low = UINTPTR_MAX;
        cursor->high = 0;
        cursor->entries = 0;
}

static void note_entry_read(struct store_cursor *cursor, const MDB_val *value) {
        uintptr_t start = (uintptr_t)value->mv_data, end = start + value->mv_size;

        cursor->low = start < cursor->low ? start : cursor->low;
        cursor->high = end > cursor->high ? end : cursor->high;
        cursor->entries++;
}

void store_cursor_seek(struct store_cursor *cursor, const char *key) {
        cursor->begun = false;
        cursor->sought = key;
}

/* LMDB finds the first that does not come before a key: of what comes before it, the last is the one in front of that. */
static int first_entry(struct store_cursor *cursor, MDB_val *key, MDB_val *value) {
        int code;

        if (!cursor->sought)
                return sym_mdb_cursor_get(cursor->cursor, key, value,
                                          cursor->backwards ? MDB_LAST : MDB_FIRST);
        *key = lmdb_key(cursor->sought);
        code = sym_mdb_cursor_get(cursor->cursor, key, value, MDB_SET_RANGE);
        if (!cursor->backwards || (code != 0 && code != MDB_NOTFOUND))
                return code;
        return sym_mdb_cursor_get(cursor->cursor, key, value, code == 0 ? MDB_PREV : MDB_LAST);
}

int store_cursor_next(struct store_cursor *cursor, struct slice *ret_key, struct slice *ret_value,
                      struct error *err) {
        MDB_val key, value;
        int code;

        if (cursor->entries == ENTRIES_MAPPED)
                release_mapped_pages(cursor);
        code = cursor->begun ? sym_mdb_cursor_get(cursor->cursor, &key, &value,
                                                  cursor->backwards ? MDB_PREV : MDB_NEXT)
                             : first_entry(cursor, &key, &value);
        if (code == MDB_NOTFOUND)
                return 0;
        if (code != 0)
                return fail_lmdb(cursor->txn->store->path, code, "read", err);
        cursor->begun = true;
        note_entry_read(cursor, &value);
        *ret_key = (struct slice){ key.mv_data, key.mv_size };
        *ret_value = (struct slice){ value.mv_data, value.mv_size };
        return 1;
}

void store_cursor_close(struct store_cursor **cursor) {
        if (!*cursor)
                return;
        release_mapped_pages(*cursor);
        sym_mdb_cursor_close((*cursor)->cursor);
        free(*cursor);
        *cursor = NULL;
}

int store_copy(struct store *store, int descriptor, struct error *err) {
        int code;

        hold_map(store);
        code = store->lost_map ? ENOMEM : sym_mdb_env_copyfd2(store->env, descriptor, 0);
        pthread_rwlock_unlock(&store->map_lock);
        if (code == 0 && fsync(descriptor) < 0)
                code = errno;
        if (code == ENOSPC || code == EDQUOT)
                return error_set(err, "no space left on the disk");
        return code == 0 ? 0 : fail_lmdb(store->path, code, "copy", err);
}

int store_check(struct store *store, struct error *err) {
        const struct timespec pause = { .tv_nsec = 1000 * 1000 };
        int descriptor, result = 1;

        if (sym_mdb_env_get_fd(store->env, &descriptor) != 0)
                return error_set(err, "the state file %s is not open", store->path);
        for (int attempts = 0; attempts < 1000 && result == 1; attempts++) {
                struct store_txn txn = { .store = store };

                if (attempts > 0)
                        nanosleep(&pause, NULL);
                if (begin_txn(store, false, &txn, err) < 0)
                        return -1;
                result = pages_check_trees(descriptor, store->path, sym_mdb_txn_id(txn.txn), err);
                end_txn(&txn);
        }
        if (result == 1)
                return error_set(err, "the state file %s changes too fast to be checked: try again",
                                 store->path);
        return result;
}

/* Opening */

static int make_env(struct store *store, size_t size, struct error *err) {
        int code;

        pthread_rwlock_init(&store->map_lock, NULL);
        pthread_mutex_init(&store->map_gate, NULL);
        store->map_size = map_size_for(size + size / 2);
        code = sym_mdb_env_create(&store->env);
        if (code == 0)
                code = sym_mdb_env_set_maxdbs(store->env, STORE_DATABASE_COUNT + 8);
        if (code == 0)
                code = sym_mdb_env_set_maxreaders(store->env, READERS_MAX);
        if (code == 0)
                code = sym_mdb_env_set_mapsize(store->env, store->map_size);
        return code == 0 ? 0 : fail_lmdb(store->path, code, "open", err);
}

/*
 * LMDB's readers register in the lock file and so must write to it. A process that may not (a
 * read-only file system, no permission, a full disk) reads without (MDB_NOLOCK): there may be
 * writers then, see check_view_is_current().
 */
static int open_env(struct store *store, const char *folder, enum store_mode mode, struct error *err) {
        char *lock TEXT_CLEANUP = path_join(folder, STORE_LOCK_FILE);
        unsigned flags =
                MDB_NOTLS | (mode == STORE_MODE_READ ? MDB_RDONLY : 0) | (store->synced ? MDB_NOSYNC : 0);
        int code = store_file_make_lock(lock), descriptor;

        if (code != 0) {
                if (mode != STORE_MODE_READ)
                        return fail_lmdb(lock, code, "make the lock of", err);
                flags |= MDB_NOLOCK;
                store->unlocked = true;
        }
        code = sym_mdb_env_open(store->env, *folder ? folder : ".", flags, FILE_MODE);
        if (code != 0)
                return fail_lmdb(store->path, code, "open", err);
        /* LMDB leaves this one descriptor open for programs that we start: a sandbox could read the secret key. */
        if (sym_mdb_env_get_fd(store->env, &descriptor) != 0 || fcntl(descriptor, F_SETFD, FD_CLOEXEC) < 0)
                return fail_lmdb(store->path, errno, "open", err);
        if (!store->unlocked)
                sym_mdb_reader_check(store->env, NULL);
        return 0;
}

static int open_databases(struct store_txn *txn, bool create, struct error *err) {
        const struct layout *layout = &layouts[txn->store->layout];

        for (int i = 0; i < layout->count; i++) {
                int code = sym_mdb_dbi_open(txn->txn, layout->names[i], create ? MDB_CREATE : 0,
                                            &txn->store->databases[i]);

                if (code == MDB_NOTFOUND)
                        return error_set(
                                err,
                                "the file %s is not a state file of Berth (it has no database \"%s\"); " STATE_REMEDY,
                                txn->store->path, layout->names[i]);
                if (code != 0)
                        return fail_lmdb(txn->store->path, code, "read", err);
        }
        return 0;
}

static int check_seal(struct store_txn *txn, struct error *err) {
        struct slice value = { 0 };
        struct sealed_value form;
        int found = store_get(txn, STORE_META, STORE_SEAL_KEY, &value, err);

        if (found < 0)
                return -1;
        if (found == 0)
                return error_set(err,
                                 "the file %s is not a state file of Berth (it has no seal); " STATE_REMEDY,
                                 txn->store->path);
        if (sealed_value_parse(value.data, value.length,
                               (struct sealed_place){ database_names[STORE_META], STORE_SEAL_KEY }, 1, 0,
                               &form, err) < 0)
                return error_context(err, "%s", txn->store->path);
        if (form.numbers[0] != sym_mdb_txn_id(txn->txn))
                return error_set(
                        err, "the state file %s is damaged (transaction %llu passes for %llu); " STATE_REMEDY,
                        txn->store->path, (unsigned long long)form.numbers[0],
                        (unsigned long long)sym_mdb_txn_id(txn->txn));
        return 0;
}

/* Handles made in a transaction stay only where it is committed, also one that reads. */
static int open_existing(struct store *store, struct error *err) {
        struct store_txn txn = { .store = store };
        int result, code;

        if (store_check(store, err) < 0 || begin_txn(store, false, &txn, err) < 0)
                return -1;
        result = open_databases(&txn, false, err);
        if (result == 0)
                result = check_seal(&txn, err);
        if (result == 0) {
                code = sym_mdb_txn_commit(txn.txn);
                txn.txn = NULL;
                if (code != 0)
                        result = fail_lmdb(store->path, code, "read", err);
        }
        end_txn(&txn);
        return result;
}

static int make_databases(struct store_txn *txn, void *context, struct error *err) {
        (void)context;
        txn->changed = true;
        return open_databases(txn, true, err);
}

/* --- commits that are synced in groups --- */

/*
 * LMDB with MDB_NOSYNC leaves the order of writes to the kernel: after a power loss the newest meta page may be there, and the pages
 * that it means not. So the meta page of what was synced last is kept in a file beside, with the boot in which that was: a
 * store that is opened in another boot begins with that page. The pages it means are still there, since a reader is open at that
 * transaction until the next one is synced: LMDB uses again only what no reader can see. Without a power loss the page cache
 * has all that was written, and the newest meta page holds.
 */
#define SYNCED_KEY "synced"

static const struct sealed_place synced_place = { STORE_SYNCED_FILE, SYNCED_KEY };

static int write_synced(struct store *store, const uint8_t meta[PAGES_META_SIZE], struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct sealed_value form = { 0 };
        char hex[2 * PAGES_META_SIZE + 1];
        uint8_t *bytes;
        size_t length;

        digest_hex(meta, PAGES_META_SIZE, hex);
        sealed_value_add_number(&form, identity_of_self().boot);
        sealed_value_add_text(&form, hex);
        if (sealed_value_pack(&form, arena, &bytes, &length, err) < 0)
                return -1;
        sealed_value_seal(bytes, length, synced_place);
        return file_write_atomic(store->synced, bytes, length, FILE_MODE, err);
}

/* Before the file is opened: in another boot than that of the last sync, it becomes what it was then. */
static int restore_synced(struct store *store, struct error *err) {
        int descriptor DESCRIPTOR_CLEANUP = -1;
        struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT;
        uint8_t meta[PAGES_META_SIZE];
        struct sealed_value form;
        struct error failure = { 0 };

        if (file_read(store->synced, 4096, &bytes, &failure) < 0) {
                if (failure.kind == ERROR_NOT_FOUND)
                        return 0; /* nothing was committed since it was made */
                *err = failure;
                return -1;
        }
        if (sealed_value_parse(strbuf_text(&bytes), bytes.length, synced_place, 1, 1, &form, err) < 0)
                return -1;
        if (form.numbers[0] == identity_of_self().boot)
                return 0;
        if (form.texts[0].length != (size_t)2 * PAGES_META_SIZE)
                return error_set(err, "%s is corrupt; " STATE_REMEDY, store->synced);
        for (size_t i = 0; i < PAGES_META_SIZE; i++) {
                int high = digest_from_hex(form.texts[0].text[2 * i]);
                int low = digest_from_hex(form.texts[0].text[2 * i + 1]);

                if (high < 0 || low < 0)
                        return error_set(err, "%s is corrupt; " STATE_REMEDY, store->synced);
                meta[i] = (uint8_t)(high << 4 | low);
        }
        descriptor = open(store->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        if (descriptor < 0)
                return error_set(err, "cannot open the state file %s: %s", store->path, strerror(errno));
        return pages_restore_meta(descriptor, store->path, meta, err);
}

/* A reader of the newest transaction, and the meta page of that: no writer comes in between. */
static int pin_newest(struct store *store, MDB_txn **ret, uint8_t meta[PAGES_META_SIZE], int *ret_descriptor,
                      struct error *err) {
        MDB_txn *writer = NULL, *reader = NULL;
        int result = -1, code;

        hold_map(store);
        code = store->lost_map ? ENOMEM : sym_mdb_txn_begin(store->env, NULL, 0, &writer);
        if (code == 0)
                code = sym_mdb_txn_begin(store->env, NULL, MDB_RDONLY, &reader);
        if (code == 0)
                code = sym_mdb_env_get_fd(store->env, ret_descriptor);
        if (code != 0)
                (void)fail_lmdb(store->path, code, "sync", err);
        else
                result = pages_save_meta(*ret_descriptor, store->path, sym_mdb_txn_id(reader), meta, err);
        if (writer)
                sym_mdb_txn_abort(writer);
        pthread_rwlock_unlock(&store->map_lock);
        if (result == 1)
                result = error_set(err, "another process wrote to the state file %s", store->path);
        if (result < 0 && reader)
                sym_mdb_txn_abort(reader);
        else
                *ret = reader;
        return result;
}

int store_sync(struct store *store, struct error *err) {
        uint8_t meta[PAGES_META_SIZE];
        MDB_txn *reader = NULL;
        int descriptor = -1;

        if (!store->synced)
                return 0;
        if (pin_newest(store, &reader, meta, &descriptor, err) < 0)
                return -1;
        if (fdatasync(descriptor) < 0) {
                (void)fail_lmdb(store->path, errno, "sync", err);
        } else if (write_synced(store, meta, err) == 0) {
                if (store->pinned)
                        sym_mdb_txn_abort(store->pinned);
                store->pinned = reader;
                return 0;
        }
        sym_mdb_txn_abort(reader);
        return -1;
}

static int open_store(struct store *store, const char *folder, enum store_mode mode, struct error *err) {
        size_t size = 0;

        if (store->synced && restore_synced(store, err) < 0)
                return -1;
        /* Closing a file that the process has open elsewhere would drop that one's locks: this comes first. */
        if (mode != STORE_MODE_NEW && (store_file_enter(&store->file, store->path, err) < 0 ||
                                       store_file_check_head(store->path, &size, err) < 0))
                return -1;
        if (make_env(store, size, err) < 0 || open_env(store, folder, mode, err) < 0)
                return -1;
        if (mode == STORE_MODE_NEW)
                return store_write(store, make_databases, NULL, err);
        if (open_existing(store, err) < 0)
                return -1;
        return store_sync(store, err);
}

int store_open(const char *folder, enum store_mode mode, struct store **ret, struct error *err) {
        return store_open_layout(folder, STORE_OF_STATE, mode, ret, err);
}

int store_open_layout(const char *folder, enum store_layout layout, enum store_mode mode, struct store **ret,
                      struct error *err) {
        struct store *store;

        if (library_load(&lmdb, err) < 0)
                return -1;
        store = calloc(1, sizeof(*store));
        if (!store)
                abort();
        store->path = path_join(folder, STORE_DATA_FILE);
        store->layout = layout;
        if (layout == STORE_OF_SESSIONS && mode == STORE_MODE_WRITE)
                store->synced = path_join(folder, STORE_SYNCED_FILE);
        store->read_only = mode == STORE_MODE_READ;
        if (open_store(store, folder, mode, err) < 0) {
                store_close(store);
                return -1;
        }
        *ret = store;
        return 0;
}

void store_close(struct store *store) {
        if (!store)
                return;
        if (store->pinned) {
                struct error ignored;

                /* Commits that cannot be synced now are those that a power loss may take. */
                if (store_sync(store, &ignored) < 0)
                        log_debug("%s", ignored.message);
                sym_mdb_txn_abort(store->pinned);
        }
        if (store->env) {
                sym_mdb_env_close(store->env);
                pthread_rwlock_destroy(&store->map_lock);
                pthread_mutex_destroy(&store->map_gate);
        }
        store_file_leave(&store->file);
        free(store->path);
        free(store->synced);
        free(store);
}
