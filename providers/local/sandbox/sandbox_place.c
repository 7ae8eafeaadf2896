/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker does with root's rights, or with those that a user has in a namespace of its own, before they are gone. */
#include "base/clock.h"
#include "base/files.h"
#include "base/libc.h"
#include "providers/local/sandbox/sandbox_disk.h"
#include "providers/local/sandbox/sandbox_kept.h"
#include "providers/local/sandbox/sandbox_own.h"
#include "providers/local/sandbox/sandbox_parts.h"
#include "providers/local/sandbox/sandbox_view.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SCRATCH_BYTES_MAX (UINT64_C(512) * 1024 * 1024)
#define SCRATCH_FILES 50000
/* As many local sockets may be in flight: the kernel looks through them on its own time. As many has a process on AWS Lambda. */
#define OPEN_FILES 1024
#define PENDING_SIGNALS 1024
#define SHARES 8 /* of what is counted by user, an ordinary user's sandbox gets one part in SHARES */

static int limit(resource_limit resource, uint64_t value, struct error *err) {
        struct rlimit now, wanted = { value, value };

        if (getrlimit(resource, &now) == 0 && now.rlim_max < value)
                wanted = (struct rlimit){ now.rlim_max, now.rlim_max };
        if (setrlimit(resource, &wanted) < 0)
                return error_set(err, "cannot set a resource limit: %s", strerror(errno));
        return 0;
}

/*
 * RLIMIT_NPROC counts a user's processes within a user namespace: that of root's runs has a user of its own, and others
 * get a namespace of their own first. It holds the number where no cgroup does.
 */
int sandbox_set_limits(const struct sandbox_placing *placing, struct error *err) {
        const struct sandbox_limits *limits = &placing->limits;

        /*
         * No core files: of less than a page the kernel writes none (core(5)). 0 would do where core_pattern names a file; where it
         * begins with "|", the kernel would start that program outside, as root, and only 1 keeps it from that.
         */
        if (limit(RLIMIT_CORE, 1, err) < 0 || limit(RLIMIT_NOFILE, OPEN_FILES, err) < 0 ||
            limit(RLIMIT_NPROC, limits->processes, err) < 0 || limit(RLIMIT_MSGQUEUE, 0, err) < 0 ||
            limit(RLIMIT_SIGPENDING, PENDING_SIGNALS, err) < 0 ||
            limit(RLIMIT_FSIZE, limits->workspace_bytes, err) < 0)
                return -1;
        return placing->limit_address_space ? limit(RLIMIT_AS, limits->memory_bytes, err) : 0;
}

static int write_map(const char *path, const char *text, struct error *err) {
        int file DESCRIPTOR_CLEANUP = open(path, O_WRONLY | O_CLOEXEC);

        if (file < 0 || write(file, text, strlen(text)) < 0)
                return error_set(err, "cannot write %s: %s", path, strerror(errno));
        return 0;
}

/*
 * What the kernel counts by user, whatever the namespace, and a program could use up for its user's other programs: this
 * namespace, and those in it, get a part. Where /proc/sys cannot be written it stays shared.
 */
static void take_shares(void) {
        static const char *const counted[][2] = {
                { "/proc/sys/fs/inotify/max_user_instances", "/proc/sys/user/max_inotify_instances" },
                { "/proc/sys/fs/inotify/max_user_watches", "/proc/sys/user/max_inotify_watches" },
        };

        for (size_t i = 0; i < sizeof(counted) / sizeof(counted[0]); i++) {
                FILE *all = fopen(counted[i][0], "re"), *share = fopen(counted[i][1], "we");
                long number;

                if (all && share && fscanf(all, "%ld", &number) == 1)
                        fprintf(share, "%ld", number > SHARES ? number / SHARES : 1);
                if (all)
                        fclose(all);
                if (share)
                        fclose(share);
        }
}

/* The user namespace that a network belongs to: there this user, its maker, may enter it. */
static int enter_another(int network, struct error *err) {
        int users DESCRIPTOR_CLEANUP = ioctl(network, NS_GET_USERNS);

        if (users < 0 || setns(users, CLONE_NEWUSER) < 0 || unshare(CLONE_NEWNS | CLONE_NEWPID) < 0)
                return error_set(err, "cannot enter the user namespace of another sandbox: %s",
                                 strerror(errno));
        prctl(PR_SET_DUMPABLE, 0);
        return 0;
}

/*
 * Root may mount as it is. Others are given a user namespace in which they may, as themselves. The PID namespace is that of
 * the children: process 1 of it is sandbox_init.c's, and when that dies the kernel kills all others, those of namespaces
 * within among them.
 */
static int enter_namespaces(const struct sandbox_placing *placing, int network, struct error *err) {
        char map[64];

        if (geteuid() == 0) {
                if (unshare(CLONE_NEWNS | CLONE_NEWPID) < 0)
                        return error_set(
                                err,
                                "this root may not make mount and PID namespaces (%s): a container needs "
                                "CAP_SYS_ADMIN, or run Berth as an ordinary user",
                                strerror(errno));
                return 0;
        }
        /* Berth forbids core files and tracing for itself; the files below belong to root as long as that holds. */
        prctl(PR_SET_DUMPABLE, 1);
        if (network >= 0)
                return enter_another(network, err);
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID) < 0)
                return error_set(
                        err,
                        "this user may not make a user namespace (%s): allow it (sysctl "
                        "kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0, "
                        "user.max_user_namespaces above 0), or run Berth as root",
                        strerror(errno));
        if (write_map("/proc/self/setgroups", "deny", err) < 0)
                return -1;
        snprintf(map, sizeof(map), "%u %u 1", placing->uid, placing->uid);
        if (write_map("/proc/self/uid_map", map, err) < 0)
                return -1;
        snprintf(map, sizeof(map), "%u %u 1", placing->gid, placing->gid);
        if (write_map("/proc/self/gid_map", map, err) < 0)
                return -1;
        take_shares();
        prctl(PR_SET_DUMPABLE, 0);
        return 0;
}

static int make_placed_folder(const struct sandbox_placing *placing, const char *path, mode_t mode,
                              bool theirs, struct error *err) {
        if (mkdir(path, mode) < 0 || chmod(path, mode) < 0 ||
            (theirs && chown(path, placing->uid, placing->gid) < 0))
                return error_set(err, "cannot make %s: %s", path, strerror(errno));
        return 0;
}

static int mount_memory(const char *path, const char *options, struct error *err) {
        if (mount("berth", path, "tmpfs", MS_NOSUID | MS_NODEV, options) < 0)
                return error_set(
                        err,
                        "cannot mount a file system in memory (%s): where AppArmor restricts user namespaces, "
                        "sysctl kernel.apparmor_restrict_unprivileged_userns=0, or run Berth as root",
                        strerror(errno));
        return 0;
}

/*
 * Bubblewrap reads the list of all mounts for each of its own, some twenty times; no sandbox sees /sys and the dozen
 * file systems below it. An ordinary user may not take them away, and does without.
 */
static void shed_mounts(void) {
        (void)umount2("/sys", MNT_DETACH);
}

/* The workspace, and one more for /tmp and /dev/shm, each with its quota: in the working directory, which is the stage. */
static int mount_places(const struct sandbox_placing *placing, int disk, struct error *err) {
        const struct sandbox_limits *limits = &placing->limits;
        uint64_t scratch =
                limits->memory_bytes / 2 < SCRATCH_BYTES_MAX ? limits->memory_bytes / 2 : SCRATCH_BYTES_MAX;
        char options[128];

        if (make_placed_folder(placing, "workspace", 0700, false, err) < 0)
                return -1;
        snprintf(options, sizeof(options), "size=%llu,nr_inodes=%llu,mode=0700,uid=%u,gid=%u",
                 (unsigned long long)limits->workspace_bytes, (unsigned long long)limits->workspace_files + 1,
                 placing->uid, placing->gid);
        if ((placing->kept ? sandbox_kept_mount(disk, "workspace", err)
             : disk >= 0   ? sandbox_disk_mount(disk, "workspace", placing->uid, placing->gid, err)
                           : mount_memory("workspace", options, err)) < 0 ||
            make_placed_folder(placing, "scratch", 0755, false, err) < 0)
                return -1;
        snprintf(options, sizeof(options), "size=%llu,nr_inodes=%u,mode=0755", (unsigned long long)scratch,
                 SCRATCH_FILES);
        if (mount_memory("scratch", options, err) < 0 ||
            make_placed_folder(placing, "scratch/tmp", 01777, true, err) < 0 ||
            make_placed_folder(placing, "scratch/shm", 01777, true, err) < 0)
                return -1;
        return sandbox_own_make("scratch/shm", err);
}

/*
 * A folder of the machine's (an image's root) as this mount namespace has it: what is open belongs to the one that was left, and cannot be bound
 * here. The name is the kernel's own, and what is there must be the very folder that we were given.
 */
static int reopen(int given_folder, const char *what, struct error *err) {
        int folder DESCRIPTOR_CLEANUP = -1, found;
        char link[64], path[4096];
        struct stat given, here;
        ssize_t length;

        snprintf(link, sizeof(link), "/proc/self/fd/%d", given_folder);
        length = readlink(link, path, sizeof(path) - 1);
        path[length > 0 ? length : 0] = '\0';
        folder = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (folder < 0 || fstat(given_folder, &given) < 0 || fstat(folder, &here) < 0)
                return error_set(err, "cannot open %s %s: %s", what, path, strerror(errno));
        if (given.st_dev != here.st_dev || given.st_ino != here.st_ino)
                return error_set(err, "%s %s was replaced meanwhile", what, path);
        found = folder;
        folder = -1;
        return found;
}

int sandbox_enter(const struct sandbox_placing *placing, int network, struct error *err) {
        umask(022);
        if (enter_namespaces(placing, network, err) < 0)
                return -1;
        if (chdir("/") < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                return error_set(err, "cannot make the mounts private: %s", strerror(errno));
        shed_mounts();
        return 0;
}

/*
 * A small file system over the stage folder, and on it what bubblewrap binds: the workspace, /tmp, /dev,
 * and the image's root (which the sandbox's user could not reach through folders that are root's alone) or an /etc.
 */
int sandbox_place(const struct sandbox_placing *placing, const char *stage, const char *bubblewrap, int image,
                  int disk, int *ret_workspace, int *ret_names, struct error *err) {
        int workspace DESCRIPTOR_CLEANUP = -1, folder DESCRIPTOR_CLEANUP = -1, kept DESCRIPTOR_CLEANUP = -1;

        /* Before the stage is mounted over: the image may lie below it. */
        if (image >= 0 && (folder = reopen(image, "the image's root folder", err)) < 0)
                return -1;
        /* Root's is a mount of its own already. */
        if (placing->kept && geteuid() != 0 && (kept = reopen(disk, "the workspace", err)) < 0)
                return -1;
        if (mount_memory(stage, "size=4m,nr_inodes=80,mode=0755", err) < 0)
                return -1;
        if (chdir(stage) < 0)
                return error_set(err, "cannot enter %s: %s", stage, strerror(errno));
        if (mount_places(placing, kept >= 0 ? kept : disk, err) < 0)
                return -1;
        if (image >= 0 ? sandbox_view_mount(folder, NULL, stage, "image", err) < 0 ||
                                 sandbox_etc_make_hosts(err) < 0
                       : sandbox_view_host(stage, err) < 0 || sandbox_etc_make(stage, err) < 0)
                return -1;
        /* Behind the views, which would be the machine's own files where something is mounted below them. */
        if (sandbox_own_bubblewrap(bubblewrap, err) < 0)
                return -1;
        *ret_names = open(image >= 0 ? SANDBOX_ETC_HOSTS : "etc/hosts", O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
        workspace = open("workspace", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (workspace < 0 || chdir("/") < 0)
                return error_set(err, "cannot open the workspace: %s", strerror(errno));
        *ret_workspace = workspace;
        workspace = -1;
        return 0;
}

int sandbox_drop_rights(const struct sandbox_placing *placing, struct error *err) {
        struct __user_cap_header_struct version = { .version = _LINUX_CAPABILITY_VERSION_3 };
        struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { 0 };

        if (geteuid() == 0 &&
            (setgroups(0, NULL) < 0 || setresgid(placing->gid, placing->gid, placing->gid) < 0 ||
             setresuid(placing->uid, placing->uid, placing->uid) < 0 || setuid(0) == 0))
                return error_set(err, "cannot give up root's rights: %s", strerror(errno));
        if (syscall(SYS_capset, &version, none) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
            prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
                return error_set(err, "cannot give up rights: %s", strerror(errno));
        return 0;
}
