/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mount maps users by an empty user namespace: a process is made in a new one, its map is
 * written, the mount is given the namespace, and the process is ended. It runs nothing but calls of
 * the kernel, so that it may be made beside threads.
 */
#include "providers/local/sandbox/sandbox_kept.h"

#include "base/arena.h"
#include "base/files.h"
#include "base/guarded.h"
#include "base/libc.h"
#include "providers/local/sandbox/sandbox_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The owner of its files, on the disk. */
#define OWNER 1000
#define IMAGE "disk"
#define PRIVATE 0700

static int cannot(const struct sandbox_kept *kept, const char *why, struct error *err) {
        return error_set_kind(err, ERROR_REFUSED,
                              "the workspace that containers of an agent share cannot be kept within its "
                              "quota here: %s. %s, or accept one without a quota (--accept-degraded)",
                              why, kept->remedy);
}

/* --- its owner --- */

static int write_map(pid_t pid, const char *name, unsigned outside) {
        char path[64], text[64];
        int file DESCRIPTOR_CLEANUP = -1;

        snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
        snprintf(text, sizeof(text), "%u %u 1", OWNER, outside);
        file = open(path, O_WRONLY | O_CLOEXEC);
        return file < 0 || write(file, text, strlen(text)) < 0 ? -1 : 0;
}

/* Runs in the new namespace until it is killed, or its maker is dead. */
static void be_there(pid_t maker, int told) {
        int users = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);

        if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == maker && users >= 0 &&
            write(told, &users, sizeof(users)) == (ssize_t)sizeof(users))
                for (;;)
                        pause();
        _exit(1);
}

/* What the process tells; -1 where it ends without a word. */
static int hear_of(int told, int pidfd) {
        struct pollfd waited[] = { { .fd = told, .events = POLLIN }, { .fd = pidfd, .events = POLLIN } };
        int users = -1;

        while (poll(waited, 2, -1) < 0 && errno == EINTR)
                ;
        errno = EPERM;
        return waited[0].revents && read(told, &users, sizeof(users)) == (ssize_t)sizeof(users) ? users : -1;
}

/*
 * A user namespace in which OWNER is that user; -1 with errno. Its own process opens it, in a table
 * of descriptors that is shared with us: other processes cannot open it by /proc, since neither may
 * be traced, and a launcher has no right to trace.
 */
static int users_of(uid_t uid, gid_t gid) {
        int ends[2], users = -1, pidfd = -1, reason;
        pid_t maker = getpid(), pid;

        if (pipe2(ends, O_CLOEXEC) < 0)
                return -1;
        pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | CLONE_FILES | CLONE_PIDFD | SIGCHLD, NULL, &pidfd,
                             NULL, NULL);
        if (pid == 0)
                be_there(maker, ends[1]);
        if (pid > 0)
                users = hear_of(ends[0], pidfd);
        if (users >= 0 && (write_map(pid, "uid_map", uid) < 0 || write_map(pid, "gid_map", gid) < 0)) {
                reason = errno;
                close_descriptor(&users);
                errno = reason;
        }
        reason = errno;
        close(ends[0]);
        close(ends[1]);
        close_descriptor(&pidfd);
        if (pid > 0) {
                (void)kill(pid, SIGKILL);
                (void)waitpid(pid, NULL, 0);
        }
        errno = reason;
        return users;
}

static int map_owner(int root, uid_t uid, gid_t gid, struct error *err) {
        int users DESCRIPTOR_CLEANUP = users_of(uid, gid);
        struct mount_attr attributes = { .attr_set = MOUNT_ATTR_IDMAP | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
                                         .userns_fd = (unsigned)users };

        if (users < 0)
                return error_set(err, "cannot make a user namespace for the workspace's mount: %s",
                                 strerror(errno));
        if (mount_setattr(root, "", AT_EMPTY_PATH, &attributes, sizeof(attributes)) < 0)
                return error_set(err,
                                 "cannot give the workspace to its user (%s): mounts that map users need "
                                 "Linux 5.12, and a file system that knows them (ext4, XFS, btrfs)",
                                 strerror(errno));
        return 0;
}

/* --- what is in it --- */

static int make_inner(int root, const char *name, bool theirs) {
        if (mkdirat(root, name, PRIVATE) < 0)
                return errno == EEXIST ? 0 : -1;
        return theirs ? fchownat(root, name, OWNER, OWNER, AT_SYMLINK_NOFOLLOW) : 0;
}

/* The workspace last: where that is, all is. */
static int make_inside(int mount, bool theirs, struct error *err) {
        int root DESCRIPTOR_CLEANUP = openat(mount, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (root >= 0 && faccessat(root, SANDBOX_KEPT_WORKSPACE, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
                return 0;
        if (root < 0 || (theirs && unlinkat(root, "lost+found", AT_REMOVEDIR) < 0 && errno != ENOENT) ||
            (theirs && (fchmod(root, PRIVATE) < 0 || fchown(root, OWNER, OWNER) < 0)) ||
            make_inner(root, SANDBOX_KEPT_INCOMING, theirs) < 0 ||
            make_inner(root, SANDBOX_KEPT_WORKSPACE, theirs) < 0)
                return error_set(err, "cannot make the workspace: %s", strerror(errno));
        return 0;
}

/*
 * For root each folder on the way is checked, since a user who may write in one could lead it into
 * another's folder; from then on its path leads nowhere else. The last one may belong to the user
 * whose files are in it.
 */
static int open_kept_folder(const struct sandbox_kept *kept, bool make, int *ret, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *name = strrchr(kept->folder, '/') + 1, *above = path_folder(kept->folder, arena);
        int folder DESCRIPTOR_CLEANUP = -1;

        if (geteuid() == 0) {
                if ((make ? guarded_folder_make : guarded_folder_open)(above, &folder, err) < 0)
                        return -1;
        } else {
                if (make && folder_make(above, err) < 0)
                        return -1;
                folder = open(above, O_PATH | O_DIRECTORY | O_CLOEXEC);
        }
        if (folder >= 0 && (!make || mkdirat(folder, name, PRIVATE) == 0 || errno == EEXIST))
                *ret = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return *ret < 0 ? error_set_kind(err,
                                         errno == ENOENT                      ? ERROR_NOT_FOUND
                                         : errno == ELOOP || errno == ENOTDIR ? ERROR_REFUSED
                                                                              : ERROR_FAILED,
                                         "%s: %s", kept->folder, strerror(errno))
                        : 0;
}

/* In the last folder, too, no other user may put an image: the kernel reads it with all rights. */
static int open_guarded(const struct sandbox_kept *kept, int *ret, struct error *err) {
        close_descriptor(ret);
        return guarded_folder_open(kept->folder, ret, err);
}

/* 1, 0, or -1: what cannot be looked at may be there. */
static int has_name(const struct sandbox_kept *kept, int folder, const char *name, struct error *err) {
        if (faccessat(folder, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
                return 1;
        return errno == ENOENT || errno == ENOTDIR
                       ? 0
                       : error_set(err, "%s/%s: %s", kept->folder, name, strerror(errno));
}

/* *ret_folder: it is open; -1 if absent. */
static int find_kept(const struct sandbox_kept *kept, int *ret_folder, enum sandbox_kept_kind *ret,
                     struct error *err) {
        int folder DESCRIPTOR_CLEANUP = -1, image, plain;
        struct error why = { 0 };

        *ret = SANDBOX_KEPT_NONE;
        if (open_kept_folder(kept, false, &folder, &why) < 0) {
                if (why.kind == ERROR_NOT_FOUND)
                        return 0;
                *err = why;
                return -1;
        }
        if ((image = has_name(kept, folder, IMAGE, err)) < 0 ||
            (plain = has_name(kept, folder, SANDBOX_KEPT_WORKSPACE, err)) < 0)
                return -1;
        if (image && geteuid() == 0 && open_guarded(kept, &folder, err) < 0)
                return -1;
        *ret = image ? SANDBOX_KEPT_IMAGE : plain ? SANDBOX_KEPT_PLAIN : SANDBOX_KEPT_NONE;
        *ret_folder = folder;
        folder = -1;
        return 0;
}

int sandbox_kept_find(const struct sandbox_kept *kept, enum sandbox_kept_kind *ret, struct error *err) {
        int folder DESCRIPTOR_CLEANUP = -1;

        return find_kept(kept, &folder, ret, err);
}

/* An image where there can be one, else a plain folder where that will do. Of two that make it at once, both have the one. */
static int make_new(const struct sandbox_kept *kept, int *ret_folder, enum sandbox_kept_kind *ret,
                    struct error *err) {
        int folder DESCRIPTOR_CLEANUP = -1, guarded DESCRIPTOR_CLEANUP = -1;
        struct error why = { 0 };

        if (open_kept_folder(kept, true, &folder, err) < 0)
                return -1;
        if ((geteuid() != 0 || open_guarded(kept, &guarded, &why) == 0) &&
            sandbox_disk_keep(guarded >= 0 ? guarded : folder, IMAGE, kept->bytes, kept->files, &why) == 0) {
                *ret = SANDBOX_KEPT_IMAGE;
        } else if ((why.kind == ERROR_NOT_FOUND || why.kind == ERROR_REFUSED) && kept->accept_degraded) {
                *ret = SANDBOX_KEPT_PLAIN;
        } else {
                (void)rmdir(kept->folder);
                if (why.kind == ERROR_NOT_FOUND)
                        return cannot(kept, why.message, err);
                *err = why;
                return -1;
        }
        *ret_folder = folder;
        folder = -1;
        return 0;
}

/* It stays of the kind that it was made. */
static int find_or_make(const struct sandbox_kept *kept, bool may_make, int *ret_folder,
                        enum sandbox_kept_kind *ret, struct error *err) {
        if (find_kept(kept, ret_folder, ret, err) < 0)
                return -1;
        if (*ret == SANDBOX_KEPT_NONE) {
                close_descriptor(ret_folder);
                return may_make ? make_new(kept, ret_folder, ret, err)
                                : error_set_kind(err, ERROR_NOT_FOUND, "there is no such workspace");
        }
        if (*ret == SANDBOX_KEPT_IMAGE && geteuid() != 0)
                return error_set_kind(err, ERROR_REFUSED,
                                      "%s/" IMAGE
                                      ": root made it, and only root can open it: start the server as root",
                                      kept->folder);
        if (*ret == SANDBOX_KEPT_PLAIN && !kept->accept_degraded)
                return cannot(kept, "it was made as a plain folder, where that had been accepted", err);
        return 0;
}

/* A plain one is its user's, and the kernel is given no file system of it. */
static int open_plain(const struct sandbox_kept *kept, int folder, int *ret, struct error *err) {
        *ret = geteuid() == 0 ? open_tree(folder, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH)
                              : openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return *ret < 0 ? error_set(err, "cannot open %s: %s", kept->folder, strerror(errno)) : 0;
}

int sandbox_kept_open(const struct sandbox_kept *kept, bool make, uid_t uid, gid_t gid, int *ret_root,
                      struct error *err) {
        int opened DESCRIPTOR_CLEANUP = -1, folder DESCRIPTOR_CLEANUP = -1;
        enum sandbox_kept_kind kind;
        bool root = geteuid() == 0;

        if (find_or_make(kept, make, &folder, &kind, err) < 0)
                return -1;
        if (kind == SANDBOX_KEPT_IMAGE && sandbox_disk_open(folder, IMAGE, &opened, err) < 0)
                return error_context(err, "%s", kept->folder);
        if (kind == SANDBOX_KEPT_PLAIN && open_plain(kept, folder, &opened, err) < 0)
                return -1;
        if (make_inside(opened, root, err) < 0 || (root && map_owner(opened, uid, gid, err) < 0))
                return error_context(err, "%s", kept->folder);
        *ret_root = opened;
        opened = -1;
        return 0;
}

int sandbox_kept_remove(const struct sandbox_kept *kept, struct error *err) {
        int folder DESCRIPTOR_CLEANUP = -1;
        enum sandbox_kept_kind kind;

        if (find_kept(kept, &folder, &kind, err) < 0)
                return -1;
        if (kind == SANDBOX_KEPT_IMAGE && sandbox_disk_remove(folder, IMAGE, err) < 0)
                return error_context(err, "%s", kept->folder);
        if (rmdir(kept->folder) < 0 && errno != ENOENT && errno != ENOTEMPTY)
                return error_set(err, "cannot remove %s: %s", kept->folder, strerror(errno));
        return 0;
}

/* --- in a sandbox's mount namespace --- */

static int attach_mount(int mount, const char *from, const char *path) {
        return move_mount(mount, from, AT_FDCWD, path, from[0] ? 0 : MOVE_MOUNT_F_EMPTY_PATH);
}

/*
 * Of root's, the whole is attached for a moment, since older kernels clone nothing that is attached nowhere. What another user has is a
 * folder, of which the inner one is cloned.
 */
int sandbox_kept_mount(int root, const char *path, struct error *err) {
        struct mount_attr attributes = { .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV };
        int inner DESCRIPTOR_CLEANUP = -1;
        bool attached = geteuid() == 0 && attach_mount(root, "", path) == 0;

        if (geteuid() != 0 || attached)
                inner = open_tree(root, SANDBOX_KEPT_WORKSPACE,
                                  OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
        if (inner < 0 || (attached && umount2(path, MNT_DETACH) < 0) ||
            mount_setattr(inner, "", AT_EMPTY_PATH, &attributes, sizeof(attributes)) < 0 ||
            attach_mount(inner, "", path) < 0)
                return error_set(err, "cannot mount the workspace: %s", strerror(errno));
        return 0;
}
