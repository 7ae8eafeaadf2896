/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/mapped.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* No call sets the time of change; but each that sets another one does. */
static void touch(const char *path) {
        struct stat status;

        if (lstat(path, &status) == 0 && S_ISREG(status.st_mode))
                (void)!utimensat(AT_FDCWD, path,
                                 (const struct timespec[2]){ status.st_atim, { .tv_nsec = UTIME_OMIT } },
                                 AT_SYMLINK_NOFOLLOW);
}

/* "ADDRESSES rw-s OFFSET DEVICE INODE   PATH"; of a file without a name PATH names none that is there. */
static void touch_those_of(pid_t pid, const char *folder, size_t length) {
        char name[64], *line = NULL, mode[5];
        size_t room = 0;
        FILE *maps;

        snprintf(name, sizeof(name), "/proc/%d/maps", (int)pid);
        maps = fopen(name, "re");
        while (maps && getline(&line, &room, maps) > 0) {
                char *path = strchr(line, '/');

                if (!path || sscanf(line, "%*s %4s", mode) != 1 || mode[1] != 'w' || mode[3] != 's' ||
                    strncmp(path, folder, length) != 0 || path[length] != '/')
                        continue;
                path[strcspn(path, "\n")] = '\0';
                touch(path);
        }
        free(line);
        if (maps)
                fclose(maps);
}

void mapped_touch(const struct descendants *processes, int folder) {
        char name[64], path[PATH_MAX];
        ssize_t length;

        snprintf(name, sizeof(name), "/proc/self/fd/%d", folder);
        length = readlink(name, path, sizeof(path));
        for (size_t i = 0; length > 1 && i < processes->count; i++)
                touch_those_of(processes->items[i].pid, path, (size_t)length);
}
