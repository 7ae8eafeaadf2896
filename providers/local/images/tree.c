/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/images/tree.h"

#include "base/beneath.h"
#include "base/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Deeper than any folder that is unpacked here. */
#define DEPTH_MAX 256

static int remove_content(int folder, int depth);

static int remove_folder(int folder, const char *name, int depth) {
        int inner DESCRIPTOR_CLEANUP = beneath_open(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);

        if (inner < 0)
                return -1;
        if (depth == DEPTH_MAX) {
                errno = ELOOP;
                return -1;
        }
        return remove_content(inner, depth + 1) < 0 ? -1 : unlinkat(folder, name, AT_REMOVEDIR);
}

static int remove_any(int folder, const char *name, int depth) {
        struct stat status;

        if (fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0 : -1;
        if (S_ISDIR(status.st_mode))
                return remove_folder(folder, name, depth);
        return unlinkat(folder, name, 0);
}

static int remove_content(int folder, int depth) {
        int again = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *stream = again < 0 ? NULL : fdopendir(again);
        const struct dirent *entry;
        int result = 0, reason;

        if (!stream) {
                close_descriptor(&again);
                return -1;
        }
        while (result == 0 && (entry = readdir(stream))) {
                if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
                        result = remove_any(folder, entry->d_name, depth);
        }
        reason = errno;
        closedir(stream);
        errno = reason;
        return result;
}

int tree_remove(int folder, const char *name) {
        return remove_any(folder, name, 0);
}

int tree_empty(int folder) {
        return remove_content(folder, 0);
}
