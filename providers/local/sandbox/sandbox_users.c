/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/sandbox/sandbox_users.h"

#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define USER_OTHERWISE 65534U

/* How many of the range, from its first on, this user namespace has in a row: that of a container may have few. */
static int count_mapped(const char *map, unsigned first, unsigned count, unsigned *ret, struct error *err) {
        FILE *file = fopen(map, "re");
        unsigned long inside, outside, length;
        unsigned mapped = 0;

        if (!file)
                return error_set(err, "cannot read %s: %s", map, strerror(errno));
        while (mapped == 0 && fscanf(file, "%lu %lu %lu", &inside, &outside, &length) == 3) {
                if (first >= inside && first - inside < length)
                        mapped = length - (first - inside) < count ? (unsigned)(length - (first - inside))
                                                                   : count;
        }
        fclose(file);
        *ret = mapped;
        return 0;
}

/* Both maps must have them: a user and its group have the same number. */
static int count_users(unsigned first, unsigned count, unsigned *ret, struct error *err) {
        unsigned by_uid, by_gid;

        if (count_mapped("/proc/self/uid_map", first, count, &by_uid, err) < 0 ||
            count_mapped("/proc/self/gid_map", first, count, &by_gid, err) < 0)
                return -1;
        *ret = by_uid < by_gid ? by_uid : by_gid;
        return 0;
}

/* The folder must be root's alone: a user who can write there decides which run gets which user. */
static int open_users_folder(const char *path, struct error *err) {
        int folder DESCRIPTOR_CLEANUP = -1, found;
        struct stat status;

        if (folder_make(path, err) < 0)
                return -1;
        folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (folder < 0 || fstat(folder, &status) < 0)
                return error_set(err, "cannot open %s: %s", path, strerror(errno));
        if (status.st_uid != geteuid() || (status.st_mode & 077))
                return error_set(err, "%s keeps the users of sandboxes: it must be root's, mode 0700", path);
        found = folder;
        folder = -1;
        return found;
}

/* 1: it is ours now; 0: taken; -1 with errno. */
static int try_user(int folder, unsigned number, int *ret_lock) {
        int file DESCRIPTOR_CLEANUP = -1;
        struct stat status;
        char name[16];

        snprintf(name, sizeof(name), "%u", number);
        file = openat(folder, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (file < 0)
                return -1;
        if (flock(file, LOCK_EX | LOCK_NB) < 0)
                return errno == EWOULDBLOCK ? 0 : -1;
        if (fstat(file, &status) < 0)
                return -1;
        if (status.st_size > 0)
                return 0;
        *ret_lock = file;
        file = -1;
        return 1;
}

int sandbox_user_take(const struct sandbox_users *users, struct sandbox_user *ret, struct error *err) {
        unsigned count, otherwise = 0;
        int folder DESCRIPTOR_CLEANUP = -1, lock, taken;

        *ret = (struct sandbox_user){ geteuid(), getegid(), -1 };
        if (ret->uid != 0)
                return 0;
        if (count_users(users->first, users->count, &count, err) < 0 ||
            (count == 0 && count_users(USER_OTHERWISE, 1, &otherwise, err) < 0))
                return -1;
        if (count == 0 && otherwise == 0)
                return error_set(
                        err,
                        "root has no other user here for a sandbox to run as: this user namespace needs "
                        "one, %u at least, in /proc/self/uid_map and gid_map (unshare --map-users and "
                        "--map-groups), or run Berth as the user who made it",
                        USER_OTHERWISE);
        if (count == 0) {
                ret->uid = ret->gid = USER_OTHERWISE;
                return 0;
        }
        folder = open_users_folder(users->folder, err);
        if (folder < 0)
                return -1;
        for (unsigned i = 0; i < count; i++) {
                taken = try_user(folder, users->first + i, &lock);
                if (taken < 0)
                        return error_set(err, "cannot lock %s/%u: %s", users->folder, users->first + i,
                                         strerror(errno));
                if (taken > 0) {
                        *ret = (struct sandbox_user){ users->first + i, users->first + i, lock };
                        return 0;
                }
        }
        return error_set(err, "all %u users for sandboxes are taken (%s)", count, users->folder);
}
