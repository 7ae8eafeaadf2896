/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All four are openat2(2) with other flags. The kernel checks each step of the path while it walks it: a path that
 * was checked before it is opened could be exchanged between the two.
 *
 * Where openat2 is denied (systemd's RestrictSUIDSGID=, which DynamicUser= sets; filters of containers that do not know it)
 * the path is walked here, by the same rules: each step opens one name in the folder that is open already, and never follows
 * a link. Links that are allowed are read and walked like the rest of the path. ".." is never asked of the kernel, since a
 * folder may be moved out while we stand in it: the names that led here, but for the last, are walked once more.
 */
#include "base/beneath.h"

#include "base/files.h"
#include "base/libc.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

/* The kernel gives up with EAGAIN if folders are renamed meanwhile. */
#define TRIES 128
/* As many as the kernel follows. */
#define LINKS_MAX 40
/* Names that are opened for one path. Each ".." walks again what led there: from deep folders, links of links could ask for millions. */
#define STEPS_MAX 65536

/* --- where openat2 is denied --- */

struct walk {
        int top, at;      /* the folder, and how far we are: the same at first */
        uint64_t mount;   /* of the folder */
        uint64_t resolve; /* RESOLVE_ flags */
        int links;        /* followed so far */
        int steps;
        char names[PATH_MAX]; /* what led from `top` to `at`: folders alone, each behind a '/' */
        char ahead[PATH_MAX]; /* what is still to be walked */
};

static int set_errno(int error) {
        errno = error;
        return -1;
}

/* Which mount it lies in. A kernel without such numbers (before 5.8) has at least those of devices. */
static int examine(int descriptor, uint64_t *ret_mount, mode_t *ret_mode) {
        struct statx status;

        if (statx(descriptor, "", AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW, STATX_TYPE | STATX_MNT_ID, &status) <
            0)
                return -1;
        *ret_mode = status.stx_mode;
        *ret_mount = status.stx_mask & STATX_MNT_ID
                             ? status.stx_mnt_id
                             : (uint64_t)status.stx_dev_major << 32 | status.stx_dev_minor;
        return 0;
}

static void go_to(struct walk *walk, int folder) {
        if (walk->at != walk->top)
                close(walk->at);
        walk->at = folder;
}

static void go_to_top(struct walk *walk) {
        go_to(walk, walk->top);
        walk->names[0] = '\0';
}

/* Into a folder that lies where we are. `ret_link`: it is a link, opened, and we stay; NULL: then it is refused. */
static int enter(struct walk *walk, const char *name, int *ret_link) {
        int next DESCRIPTOR_CLEANUP = openat(walk->at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        uint64_t mount;
        mode_t mode;

        if (next < 0 || examine(next, &mount, &mode) < 0)
                return -1;
        if ((walk->resolve & RESOLVE_NO_XDEV) && mount != walk->mount)
                return set_errno(EXDEV);
        if (S_ISLNK(mode) && ret_link) {
                *ret_link = next;
                next = -1;
                return 0;
        }
        if (!S_ISDIR(mode))
                return set_errno(S_ISLNK(mode) ? ELOOP : ENOTDIR);
        go_to(walk, next);
        next = -1;
        return 0;
}

static int go_into(struct walk *walk, const char *name, int *ret_link) {
        size_t length = strlen(walk->names);

        if (length + 1 + strlen(name) >= sizeof(walk->names))
                return set_errno(ENAMETOOLONG);
        if (++walk->steps > STEPS_MAX)
                return set_errno(ELOOP);
        if (enter(walk, name, ret_link) < 0)
                return -1;
        if (!ret_link || *ret_link < 0) {
                walk->names[length] = '/';
                memcpy(walk->names + length + 1, name, strlen(name) + 1);
        }
        return 0;
}

static int go_up(struct walk *walk) {
        char names[PATH_MAX], *rest = NULL, *last = strrchr(walk->names, '/');

        if (!last)
                return walk->resolve & RESOLVE_IN_ROOT ? 0 : set_errno(EXDEV);
        *last = '\0';
        memcpy(names, walk->names, sizeof(names));
        go_to_top(walk);
        for (char *name = strtok_r(names, "/", &rest); name; name = strtok_r(NULL, "/", &rest)) {
                if (go_into(walk, name, NULL) < 0)
                        return -1;
        }
        return 0;
}

/* Its target comes before what is still ahead. */
static int follow_link(struct walk *walk, int link) {
        char target[PATH_MAX];
        struct statfs system;
        ssize_t length;
        size_t ahead = strlen(walk->ahead);

        if ((walk->resolve & RESOLVE_NO_SYMLINKS) || ++walk->links > LINKS_MAX)
                return set_errno(ELOOP);
        /* A magic link leads to something else than it says. */
        if (fstatfs(link, &system) < 0 || system.f_type == PROC_SUPER_MAGIC)
                return set_errno(ELOOP);
        length = readlinkat(link, "", target, sizeof(target));
        if (length <= 0)
                return length < 0 ? -1 : set_errno(ENOENT);
        if (target[0] == '/' && !(walk->resolve & RESOLVE_IN_ROOT))
                return set_errno(EXDEV);
        if (target[0] == '/')
                go_to_top(walk);
        if ((size_t)length + 1 + ahead >= sizeof(walk->ahead))
                return set_errno(ENAMETOOLONG);
        memmove(walk->ahead + length + 1, walk->ahead, ahead + 1);
        memcpy(walk->ahead, target, (size_t)length);
        walk->ahead[length] = '/';
        if (ahead == 0) /* what it leads to need not be a folder, unless it says so itself */
                walk->ahead[length] = '\0';
        return 0;
}

/*
 * The last name. -1 with *ret_link set: a link that must be followed. Opening never follows one:
 * what becomes a link after it was looked at is refused.
 */
static int open_last(struct walk *walk, const char *name, int flags, unsigned mode, int *ret_link) {
        bool kept = (flags & O_NOFOLLOW) || (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL);
        int found DESCRIPTOR_CLEANUP = openat(walk->at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        uint64_t mount;
        mode_t type;
        int opened;

        if (found < 0 && (errno != ENOENT || !(flags & O_CREAT)))
                return -1;
        if (found >= 0) {
                if (examine(found, &mount, &type) < 0)
                        return -1;
                if ((walk->resolve & RESOLVE_NO_XDEV) && mount != walk->mount)
                        return set_errno(EXDEV);
                if (S_ISLNK(type) && !kept) {
                        *ret_link = found;
                        found = -1;
                        return -1;
                }
        }
        opened = openat(walk->at, name, flags | O_NOFOLLOW, mode);
        if (opened < 0 || found < 0)
                return opened;
        if (examine(opened, &mount, &type) < 0 || (S_ISLNK(type) && !kept) ||
            ((walk->resolve & RESOLVE_NO_XDEV) && mount != walk->mount)) {
                close(opened);
                return set_errno(EAGAIN);
        }
        return opened;
}

static int walk_on(struct walk *walk, int flags, unsigned mode) {
        for (;;) {
                int link DESCRIPTOR_CLEANUP = -1, opened;
                char name[NAME_MAX + 1], *from = walk->ahead + strspn(walk->ahead, "/");
                size_t length = strcspn(from, "/");
                bool is_last = from[length] == '\0', is_up;

                if (length > NAME_MAX)
                        return set_errno(ENAMETOOLONG);
                memcpy(name, from, length);
                name[length] = '\0';
                memmove(walk->ahead, from + length, strlen(from + length) + 1);
                is_up = strcmp(name, "..") == 0;
                if (is_up && go_up(walk) < 0)
                        return -1;
                if (is_up || strcmp(name, ".") == 0 || length == 0) {
                        if (is_last)
                                return openat(walk->at, ".", flags | O_NOFOLLOW, mode);
                        continue;
                }
                if (!is_last) {
                        /* As the kernel says of "name/", whatever it is. */
                        if ((flags & O_CREAT) && walk->ahead[strspn(walk->ahead, "/")] == '\0')
                                return set_errno(EISDIR);
                        if (go_into(walk, name, &link) < 0 || (link >= 0 && follow_link(walk, link) < 0))
                                return -1;
                        continue;
                }
                opened = open_last(walk, name, flags, mode, &link);
                if (link < 0)
                        return opened;
                if (follow_link(walk, link) < 0)
                        return -1;
        }
}

static int open_by_steps(int folder, const char *path, int flags, unsigned mode, uint64_t resolve) {
        struct walk walk = { .top = folder, .at = folder, .resolve = resolve };
        size_t length = strlen(path);
        mode_t type;
        int opened, error;

        if (length == 0 || length >= sizeof(walk.ahead))
                return set_errno(length == 0 ? ENOENT : ENAMETOOLONG);
        if (path[0] == '/' && !(resolve & RESOLVE_IN_ROOT))
                return set_errno(EXDEV);
        if (examine(folder, &walk.mount, &type) < 0)
                return -1;
        memcpy(walk.ahead, path, length + 1);
        opened = walk_on(&walk, flags, mode);
        error = errno;
        go_to_top(&walk);
        errno = error;
        return opened;
}

/* --- all four --- */

static int open_by(int folder, const char *path, int flags, unsigned mode, unsigned resolve) {
        struct open_how how = {
                .flags = (unsigned)(flags | O_CLOEXEC | (flags & O_PATH ? 0 : O_NONBLOCK | O_NOCTTY)),
                .mode = mode,
                .resolve = resolve | RESOLVE_NO_MAGICLINKS,
        };
        long descriptor = -1;

        for (int i = 0; i < TRIES; i++) {
                descriptor = syscall(SYS_openat2, folder, path, &how, sizeof(how));
                if (descriptor < 0 && (errno == ENOSYS || errno == EPERM))
                        descriptor = open_by_steps(folder, path, (int)how.flags, mode, how.resolve);
                if (descriptor >= 0 || (errno != EAGAIN && errno != EINTR))
                        break;
        }
        return (int)descriptor;
}

int beneath_open(int folder, const char *path, int flags) {
        return open_by(folder, path, flags, 0, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
}

int beneath_create(int folder, const char *path, int flags, unsigned mode) {
        return open_by(folder, path, flags | O_CREAT, mode, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
}

int beneath_open_linked(int folder, const char *path, int flags) {
        return open_by(folder, path, flags, 0, RESOLVE_BENEATH);
}

int beneath_follow(int folder, const char *path, int flags) {
        return open_by(folder, path, flags, 0, RESOLVE_IN_ROOT | RESOLVE_NO_XDEV);
}
