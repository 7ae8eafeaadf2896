/* SPDX-License-Identifier: Apache-2.0 */
#include "base/guarded.h"

#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The group of root is root. */
static bool is_guarded(const struct stat *status, bool last) {
        bool writable = (status->st_mode & S_IWOTH) || ((status->st_mode & S_IWGRP) && status->st_gid != 0);

        return (status->st_uid == 0 || status->st_uid == geteuid()) &&
               (!writable || (!last && (status->st_mode & S_ISVTX)));
}

static int step(int from, const char *name, bool last, const char *path, size_t length, struct error *err) {
        int opened DESCRIPTOR_CLEANUP = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
                   result;
        struct stat status;

        if (opened < 0 && (errno == ELOOP || errno == ENOTDIR))
                return error_set_kind(
                        err, ERROR_REFUSED,
                        "%.*s is a link, or no folder: what is below it may be another's work. Name the "
                        "folder itself",
                        (int)length, path);
        if (opened < 0 || fstat(opened, &status) < 0)
                return error_set_kind(err, errno == ENOENT ? ERROR_NOT_FOUND : ERROR_FAILED, "%.*s: %s",
                                      (int)length, path, strerror(errno));
        if (!is_guarded(&status, last))
                return error_set_kind(
                        err, ERROR_REFUSED,
                        "%.*s belongs to user %u and has mode %04o: another than root and this user could put "
                        "something else in the place of what is below. It must be a folder of root's in which "
                        "nobody else may write",
                        (int)length, path, (unsigned)status.st_uid, (unsigned)(status.st_mode & 07777));
        result = opened;
        opened = -1;
        return result;
}

/* By whatever path the process was started with. */
static char *whole_path(const char *path) {
        char *here TEXT_CLEANUP = NULL;

        if (path[0] == '/')
                return strdup(path);
        here = getcwd(NULL, 0);
        return here ? path_join(here, path) : NULL;
}

int guarded_folder_open(const char *path, int *ret, struct error *err) {
        char *whole TEXT_CLEANUP = whole_path(path);
        int folder DESCRIPTOR_CLEANUP = -1;

        if (!whole)
                return error_set(err, "%s: %s", path, strerror(errno));
        folder = step(AT_FDCWD, "/", !whole[strspn(whole, "/")], "/", 1, err);
        for (char *at = whole + strspn(whole, "/"); folder >= 0 && *at;) {
                size_t length = strcspn(at, "/");
                char *next = at + length + strspn(at + length, "/");
                char *name TEXT_CLEANUP = strndup(at, length);
                int below = name ? step(folder, name, !*next, whole, (size_t)(at - whole) + length, err) : -1;

                close_descriptor(&folder);
                folder = below;
                at = next;
        }
        if (folder < 0)
                return -1;
        *ret = folder;
        folder = -1;
        return 0;
}
