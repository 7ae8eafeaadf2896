/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A backup is a state: a folder with a data file that was copied within one read transaction, opened and checked, and
 * the lineage beside it. The copy is made in a folder "new" inside of the target and moved into place when it is
 * whole, so that no half copy ever stands where a state would. Whatever fails, what was made is removed.
 */
#include "state/backup.h"

#include "base/files.h"
#include "state/codec.h"
#include "state/state_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int make_backup_folder(const char *path, bool *ret_made, struct error *err) {
        *ret_made = mkdir(path, 0700) == 0;
        if (*ret_made)
                return 0;
        if (errno == ENOENT) {
                if (folder_make(path, err) < 0)
                        return -1;
                *ret_made = true;
                return 0;
        }
        if (errno != EEXIST)
                return error_set(err, "cannot make the folder %s: %s", path, strerror(errno));
        /* Only an empty folder can be removed. */
        if (rmdir(path) < 0 || mkdir(path, 0700) < 0)
                return error_set(
                        err,
                        "%s already exists and is not an empty folder: name another place for the backup",
                        path);
        return 0;
}

static int copy_store_to(struct store *store, const char *path, struct error *err) {
        int descriptor DESCRIPTOR_CLEANUP = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

        if (descriptor < 0)
                return error_set(err, "cannot create %s: %s", path, strerror(errno));
        return store_copy(store, descriptor, err);
}

struct lineage_read {
        char lineage[UUID_SIZE];
};

static int read_lineage(struct store_txn *txn, void *context, struct error *err) {
        struct lineage_read *read = context;
        struct slice value;
        const char *text;
        int found = store_get(txn, STORE_META, META_LINEAGE, &value, err);

        if (found <= 0)
                return found < 0 ? -1 : error_set(err, "the state has no lineage; " STATE_REMEDY);
        if (codec_decode_text(value.data, value.length, META_LINEAGE, &text, err) < 0)
                return -1;
        snprintf(read->lineage, sizeof(read->lineage), "%s", text ? text : "");
        return 0;
}

/* Opening the copy checks all its pages. */
static int check_copy(const char *folder, struct lineage_read *ret, struct error *err) {
        struct store *copy;
        int result;

        if (store_open(folder, STORE_MODE_READ, &copy, err) < 0)
                return -1;
        result = store_read(copy, read_lineage, ret, err);
        store_close(copy);
        return result;
}

static void remove_file(const char *folder, const char *name) {
        char *path TEXT_CLEANUP = path_join(folder, name);

        unlink(path);
}

static int fill_target(struct store *store, const char *path, const char *part, struct error *err) {
        char *partial TEXT_CLEANUP = path_join(part, STORE_DATA_FILE);
        char *final TEXT_CLEANUP = path_join(path, STORE_DATA_FILE);
        struct lineage_read read;

        if (mkdir(part, 0700) < 0)
                return error_set(err, "cannot make the folder %s: %s", part, strerror(errno));
        if (copy_store_to(store, partial, err) < 0 || check_copy(part, &read, err) < 0)
                return -1;
        if (path_move(partial, final, err) < 0)
                return -1;
        return folder_write_lineage(path, read.lineage, err);
}

int backup_store(struct store *store, const char *path, struct error *err) {
        char *part TEXT_CLEANUP = path_join(path, "new");
        bool made;
        int result;

        if (make_backup_folder(path, &made, err) < 0)
                return -1;
        result = fill_target(store, path, part, err);
        remove_file(part, STORE_DATA_FILE);
        remove_file(part, STORE_LOCK_FILE);
        rmdir(part);
        if (result == 0)
                return 0;
        remove_file(path, STORE_DATA_FILE);
        remove_file(path, STATE_LINEAGE_FILE);
        if (made)
                rmdir(path);
        return error_context(err, "cannot back the state up to %s", path);
}
