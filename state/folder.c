/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state's folder: data.mdb (the store), lock.mdb (LMDB's readers and writer), lineage (a text that names the state
 * beside the store, so that a lost store is noticed).
 */
#include "state/codec.h"
#include "state/state_parts.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define NEW_FOLDER "new" /* where a state is made before it is moved into place */
/* A file's times may be as coarse as the kernel's tick, and some file systems' as a second or two. */
#define MARK_YOUNG_S 3

static int look_for_file(const char *folder, const char *name, bool *ret_present, struct error *err) {
        char *path TEXT_CLEANUP = path_join(folder, name);
        struct stat status;

        *ret_present = lstat(path, &status) == 0;
        if (*ret_present || errno == ENOENT)
                return 0;
        if (errno == ENOTDIR)
                return error_set(err, "the state folder %s is not a folder", folder);
        return error_set(err, "cannot look into the state folder %s: %s", folder, strerror(errno));
}

int folder_look(const char *folder, bool *ret_present, struct error *err) {
        static const char *const marks[] = { STATE_LINEAGE_FILE, STORE_LOCK_FILE };
        bool data = false, mark = false;

        if (look_for_file(folder, STORE_DATA_FILE, &data, err) < 0)
                return -1;
        for (size_t i = 0; !data && i < sizeof(marks) / sizeof(marks[0]); i++) {
                if (look_for_file(folder, marks[i], &mark, err) < 0)
                        return -1;
                if (mark)
                        return error_set(
                                err,
                                "the state folder %s holds %s but no " STORE_DATA_FILE
                                ": the state file is lost; Berth does not start over with an empty "
                                "state: " STATE_REMEDY
                                ". Without one, remove the folder; what this stack made on AWS is taken into a new state by "
                                "berth state adopt",
                                folder, marks[i]);
        }
        *ret_present = data;
        return 0;
}

bool state_folder_holds(const char *folder) {
        struct error ignored;
        bool data = false;

        return look_for_file(folder, STORE_DATA_FILE, &data, &ignored) == 0 && data;
}

/* No program can set a ctime. */
static bool mark_file(const char *path, int64_t now_s, int64_t ret[5]) {
        struct stat status;

        if (lstat(path, &status) < 0 || status.st_ctim.tv_sec > now_s - MARK_YOUNG_S)
                return false;
        ret[0] = (int64_t)status.st_dev;
        ret[1] = (int64_t)status.st_ino;
        ret[2] = (int64_t)status.st_size;
        ret[3] = status.st_ctim.tv_sec;
        ret[4] = status.st_ctim.tv_nsec;
        return true;
}

bool state_mark_take(const char *folder, struct state_mark *ret) {
        char *data TEXT_CLEANUP = path_join(folder, STORE_DATA_FILE),
                   *lineage TEXT_CLEANUP = path_join(folder, STATE_LINEAGE_FILE);
        const int64_t now_s = clock_wall_ms() / 1000;
        struct state_mark mark = { 0 };

        if (!mark_file(data, now_s, mark.parts) || !mark_file(lineage, now_s, mark.parts + 5))
                return false;
        *ret = mark;
        return true;
}

bool state_mark_is(const struct state_mark *mark, const struct state_mark *other) {
        return memcmp(mark->parts, other->parts, sizeof(mark->parts)) == 0;
}

bool state_lies_in(const char *folder, const char *lineage) {
        char *path TEXT_CLEANUP = path_join(folder, STATE_LINEAGE_FILE);
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct error ignored;

        return file_read(path, UUID_SIZE + 1, &text, &ignored) == 0 &&
               strncmp(strbuf_text(&text), lineage, strlen(lineage)) == 0 && state_folder_holds(folder);
}

int folder_write_lineage(const char *folder, const char *lineage, struct error *err) {
        char *path TEXT_CLEANUP = path_join(folder, STATE_LINEAGE_FILE);
        char text[UUID_SIZE + 1];
        int length = snprintf(text, sizeof(text), "%s\n", lineage);

        return file_write_atomic(path, text, (size_t)length, 0600, err);
}

int folder_read_lineage(const char *folder, char ret[UUID_SIZE], struct error *err) {
        char *path TEXT_CLEANUP = path_join(folder, STATE_LINEAGE_FILE);
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct error failure;

        ret[0] = '\0';
        if (file_read(path, 4096, &text, &failure) < 0) {
                if (failure.kind == ERROR_NOT_FOUND)
                        return 0;
                *err = failure;
                return -1;
        }
        if (text.length >= UUID_SIZE && text.data[UUID_SIZE - 1] == '\n')
                snprintf(ret, UUID_SIZE, "%.*s", UUID_SIZE - 1, text.data);
        else
                /* Anything else is no lineage, and must not pass for a missing one. */
                snprintf(ret, UUID_SIZE, "unreadable");
        return 0;
}

static void make_uuid(char ret[UUID_SIZE]) {
        uint8_t bytes[16];
        char hex[33];

        random_bytes(bytes, sizeof(bytes));
        bytes[6] = (uint8_t)((bytes[6] & 0x0f) | 0x40);
        bytes[8] = (uint8_t)((bytes[8] & 0x3f) | 0x80);
        digest_hex(bytes, sizeof(bytes), hex);
        snprintf(ret, UUID_SIZE, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16, hex + 20);
}

static int fill_new_store(struct store_txn *txn, void *lineage, struct error *err) {
        uint64_t format = STATE_FORMAT, zero = 0, key[SHA256_SIZE / sizeof(uint64_t)];
        int result;

        random_bytes(key, sizeof(key));
        result = meta_put_numbers(txn, META_SECRET, key, sizeof(key) / sizeof(key[0]), err);
        explicit_bzero(key, sizeof(key));
        if (result < 0 || meta_put_text(txn, META_LINEAGE, lineage, err) < 0 ||
            meta_put_numbers(txn, META_SERIAL, &zero, 1, err) < 0 ||
            meta_put_numbers(txn, META_RUN, &zero, 1, err) < 0)
                return -1;
        return meta_put_numbers(txn, META_FORMAT, &format, 1, err);
}

static void remove_new(const char *new_folder) {
        static const char *const names[] = { STORE_DATA_FILE, STORE_LOCK_FILE };

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                char *path TEXT_CLEANUP = path_join(new_folder, names[i]);

                unlink(path);
        }
        rmdir(new_folder);
}

/* The store is made aside and moved into place when it is whole: a process that dies meanwhile leaves no half state. */
static int make_store(const char *folder, const char *new_folder, const char *lineage, store_body *body,
                      void *context, struct error *err) {
        char *from TEXT_CLEANUP = path_join(new_folder, STORE_DATA_FILE);
        char *to TEXT_CLEANUP = path_join(folder, STORE_DATA_FILE);
        struct store *store;
        int result;

        if (mkdir(new_folder, 0700) < 0)
                return error_set(err, "cannot make the folder %s: %s", new_folder, strerror(errno));
        if (store_open(new_folder, STORE_MODE_NEW, &store, err) < 0)
                return -1;
        result = store_write(store, body, context, err);
        store_close(store);
        if (result < 0)
                return -1;
        if (path_move(from, to, err) < 0)
                return -1;
        return folder_write_lineage(folder, lineage, err);
}

static int lock_folder(int descriptor) {
        int result;

        do
                result = flock(descriptor, LOCK_EX);
        while (result < 0 && errno == EINTR);
        return result;
}

/*
 * The state has the key of its keyed hashes, and a folder of manifests is often a repository: `git add -A` must not take the
 * state along. A file that is there, whatever it says, is its owner's.
 */
static void ignore_in_git(const char *folder) {
        static const char text[] = "# Berth keeps its state here, and the keys that belong to it.\n*\n";
        char *path TEXT_CLEANUP = path_join(folder, STATE_IGNORE_FILE);
        int descriptor DESCRIPTOR_CLEANUP =
                open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

        if (descriptor >= 0 && descriptor_write(descriptor, text, sizeof(text) - 1) < 0)
                log_debug("state: cannot write %s: %s", path, strerror(errno));
}

/* 1 where there is one already. */
static int create_with(const char *folder, const char *lineage, store_body *body, void *context,
                       struct error *err) {
        char *new_folder TEXT_CLEANUP = path_join(folder, NEW_FOLDER);
        int descriptor DESCRIPTOR_CLEANUP = -1;
        bool present = false;
        int result;

        if (folder_make(*folder ? folder : ".", err) < 0)
                return error_context(err, "the state");
        descriptor = open(*folder ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        /* Of two processes that create, the second waits here and finds the state made. */
        if (descriptor < 0 || lock_folder(descriptor) < 0)
                return error_set(err, "cannot open the state folder %s: %s", folder, strerror(errno));
        if (folder_look(folder, &present, err) < 0)
                return -1;
        if (present)
                return 1;
        /*
         * A copy that was made aside and left has no lineage beside it: a folder with one is a
         * state.
         */
        if (look_for_file(new_folder, STATE_LINEAGE_FILE, &present, err) < 0)
                return -1;
        if (present)
                return error_set(
                        err,
                        "cannot create the state in %s: another one lies in %s, where it would be made: give "
                        "another folder",
                        folder, new_folder);
        remove_new(new_folder);
        result = make_store(folder, new_folder, lineage, body, context, err);
        remove_new(new_folder);
        if (result < 0)
                return error_context(err, "cannot create the state in %s", folder);
        ignore_in_git(*folder ? folder : ".");
        log_debug("state: made %s", folder);
        return 0;
}

int folder_create(const char *folder, struct error *err) {
        char lineage[UUID_SIZE];

        make_uuid(lineage);
        return create_with(folder, lineage, fill_new_store, lineage, err) < 0 ? -1 : 0;
}

int folder_create_of(const char *folder, const char *lineage, store_body *body, void *context,
                     struct error *err) {
        int result = create_with(folder, lineage, body, context, err);

        return result > 0
                       ? error_set_kind(err, ERROR_LOCKED,
                                        "another run has just created the state in %s: run it again", folder)
                       : result;
}
