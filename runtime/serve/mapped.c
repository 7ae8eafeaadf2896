/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/serve/mapped.h"

#include "base/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdalign.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Several of them: what the kernel gives at once, and one that is as long as can be. */
#define LINES 16384

/* No call sets the time of change; but each that sets another one does. */
static void touch(const char *path) {
        struct stat status;

        if (lstat(path, &status) == 0 && S_ISREG(status.st_mode))
                (void)!utimensat(AT_FDCWD, path,
                                 (const struct timespec[2]){ status.st_atim, { .tv_nsec = UTIME_OMIT } },
                                 AT_SYMLINK_NOFOLLOW);
}

/* False where the folder is empty for certain. The list of a process's mappings takes the kernel much longer. */
static bool has_any(int folder) {
        alignas(struct dirent64) char entries[1024];
        long length = lseek(folder, 0, SEEK_SET) < 0
                              ? -1
                              : syscall(SYS_getdents64, folder, entries, sizeof(entries));

        for (long at = 0; at < length;) {
                const struct dirent64 *entry = (const void *)(entries + at);

                if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
                        return true;
                at += entry->d_reclen;
        }
        return length < 0;
}

/* "ADDRESSES rw-s OFFSET DEVICE INODE   PATH"; of a file without a name PATH names none that is there. */
static bool touch_named(const char *line, const char *folder, size_t length) {
        const char *mode = strchr(line, ' '), *path;

        if (!mode || strlen(mode) < 5 || mode[2] != 'w' || mode[4] != 's')
                return false;
        path = strchr(mode, '/');
        if (!path || strncmp(path, folder, length) != 0 || path[length] != '/')
                return false;
        touch(path);
        return true;
}

/* A line that does not fit has a name that is no file's: they are shorter, but for what is escaped in them. */
static bool touch_listed(int maps, const char *folder, size_t length) {
        char text[LINES], *line, *end;
        bool found = false;
        size_t held = 0;
        ssize_t count;

        while ((count = read(maps, text + held, sizeof(text) - 1 - held)) > 0) {
                text[held + (size_t)count] = '\0';
                for (line = text; (end = strchr(line, '\n')); line = end + 1) {
                        *end = '\0';
                        found |= touch_named(line, folder, length);
                }
                held = strlen(line);
                held = held >= sizeof(text) - 1 ? 0 : held;
                memmove(text, line, held);
        }
        return found;
}

static bool touch_those_of(pid_t pid, int folder) {
        char name[64], path[PATH_MAX];
        int maps DESCRIPTOR_CLEANUP = -1;
        ssize_t length;

        snprintf(name, sizeof(name), "/proc/%d/maps", (int)pid);
        maps = open(name, O_RDONLY | O_CLOEXEC);
        if (maps < 0)
                return false;
        snprintf(name, sizeof(name), "/proc/self/fd/%d", folder);
        length = readlink(name, path, sizeof(path));
        return length > 1 && touch_listed(maps, path, (size_t)length);
}

bool mapped_touch(const struct descendants *processes, int folder) {
        bool found = false;

        for (size_t i = 0; i < processes->count && has_any(folder); i++)
                found |= touch_those_of(processes->items[i].pid, folder);
        return found;
}
