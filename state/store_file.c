/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of the store's files before LMDB opens them. A file may be open once in a process: closing
 * a second descriptor of it would drop the first one's POSIX locks, and with them LMDB's idea of
 * who reads. So open files are listed by device and inode.
 */
#include "state/store_file.h"

#include "base/files.h"
#include "state/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

/* Room for the table of readers. It is allocated before LMDB maps it: on a full disk, writing to a hole in a mapped file kills by SIGBUS. */
#define LOCK_FILE_SIZE 32768
#define FILE_MODE 0600

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static struct store_file *open_files;

static int fail_open(const char *path, struct error *err) {
        return error_set_kind(err, errno == ENOENT ? ERROR_NOT_FOUND : ERROR_FAILED,
                              "cannot open the state file %s: %s", path, strerror(errno));
}

int store_file_enter(struct store_file *file, const char *path, struct error *err) {
        const struct store_file *other;
        struct stat status;

        if (stat(path, &status) < 0)
                return fail_open(path, err);
        pthread_mutex_lock(&open_lock);
        for (other = open_files; other; other = other->next) {
                if (other->device == status.st_dev && other->inode == status.st_ino)
                        break;
        }
        if (!other) {
                *file = (struct store_file){ status.st_dev, status.st_ino, open_files };
                open_files = file;
        }
        pthread_mutex_unlock(&open_lock);
        return other ? error_set(err, "the state file %s is open in this process already", path) : 0;
}

void store_file_leave(struct store_file *file) {
        pthread_mutex_lock(&open_lock);
        for (struct store_file **link = &open_files; *link; link = &(*link)->next) {
                if (*link == file) {
                        *link = file->next;
                        break;
                }
        }
        pthread_mutex_unlock(&open_lock);
}

int store_file_check_head(const char *path, size_t *ret_size, struct error *err) {
        int descriptor DESCRIPTOR_CLEANUP = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

        if (descriptor < 0)
                return fail_open(path, err);
        return pages_check_head(descriptor, path, ret_size, err);
}

int store_file_make_lock(const char *path) {
        int descriptor DESCRIPTOR_CLEANUP =
                open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, FILE_MODE);
        int code = descriptor < 0 ? errno : 0;

        /* Not posix_fallocate(): where the file system cannot, that one writes, and others may be using the file. */
        while (code == 0 && fallocate(descriptor, 0, 0, LOCK_FILE_SIZE) < 0) {
                if (errno != EINTR)
                        code = errno;
        }
        return code == EOPNOTSUPP ? 0 : code;
}
