/* SPDX-License-Identifier: Apache-2.0 */
/* Between fork and exec. The process is single-threaded, so that all of the C library may be used here. */
#include "base/files.h"
#include "providers/local/sandbox/sandbox_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define SCRATCH_BYTES_MAX (UINT64_C(512) * 1024 * 1024)
#define SCRATCH_FILES 50000
#define OPEN_FILES 4096
#define PENDING_SIGNALS 1024
#define SHARES 8 /* of what is counted by user, an ordinary user's sandbox gets one of so many */
#define TOLD_MAX 512

/* Bubblewrap, and then the sandbox, is started without anything of ours in its environment. */
static char *const no_environment[] = { NULL };

/* Sends text, and with it a descriptor where there is one. Empty text is "all is well". */
static void tell(int channel, const char *text, int descriptor) {
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(int))];
        } control = { .space = { 0 } };
        struct iovec part = { (char *)text, strlen(text) + 1 };
        struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
        struct cmsghdr *header = &control.header;

        if (descriptor >= 0) {
                message.msg_control = control.space;
                message.msg_controllen = sizeof(control.space);
                header->cmsg_level = SOL_SOCKET;
                header->cmsg_type = SCM_RIGHTS;
                header->cmsg_len = CMSG_LEN(sizeof(int));
                memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
        }
        if (sendmsg(channel, &message, MSG_NOSIGNAL) < 0)
                _exit(EXIT_FAILURE);
}

static void give_up(const struct sandbox_child *child, const char *format, ...)
        __attribute__((format(printf, 2, 3), noreturn));
static void give_up(const struct sandbox_child *child, const char *format, ...) {
        char text[TOLD_MAX];
        va_list arguments;

        va_start(arguments, format);
        vsnprintf(text, sizeof(text), format, arguments);
        va_end(arguments);
        tell(child->channel, text, -1);
        _exit(EXIT_FAILURE);
}

static void limit(const struct sandbox_child *child, __rlimit_resource_t resource, uint64_t value) {
        struct rlimit now, wanted = { value, value };

        if (getrlimit(resource, &now) == 0 && now.rlim_max < value)
                wanted = (struct rlimit){ now.rlim_max, now.rlim_max };
        if (setrlimit(resource, &wanted) < 0)
                give_up(child, "cannot set a resource limit: %s", strerror(errno));
}

/*
 * RLIMIT_NPROC counts a user's processes within a user namespace: that of root's runs has a user of its own, and others
 * get a namespace of their own first. It holds the number where no cgroup does.
 */
static void set_limits(const struct sandbox_child *child) {
        const struct sandbox_limits *limits = &child->spec->limits;

        limit(child, RLIMIT_CORE, 0);
        limit(child, RLIMIT_NOFILE, OPEN_FILES);
        limit(child, RLIMIT_NPROC, limits->processes);
        limit(child, RLIMIT_MSGQUEUE, 0);
        limit(child, RLIMIT_SIGPENDING, PENDING_SIGNALS);
        limit(child, RLIMIT_FSIZE, limits->workspace_bytes);
        if (cgroup_missing(child->group) & CGROUP_MEMORY)
                limit(child, RLIMIT_AS, limits->memory_bytes);
}

static void write_map(const struct sandbox_child *child, const char *path, const char *text) {
        int file DESCRIPTOR_CLEANUP = open(path, O_WRONLY | O_CLOEXEC);

        if (file < 0 || write(file, text, strlen(text)) < 0)
                give_up(child, "cannot write %s: %s", path, strerror(errno));
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

/* Root may mount as it is. Others are given a user namespace in which they may, as themselves. */
static void enter_namespaces(const struct sandbox_child *child) {
        char map[64];

        if (geteuid() == 0) {
                if (unshare(CLONE_NEWNS) < 0)
                        give_up(child,
                                "this root may not make a mount namespace (%s): a container needs CAP_SYS_ADMIN, "
                                "or run Berth as an ordinary user",
                                strerror(errno));
                return;
        }
        /* Berth forbids core files and tracing for itself; the files below belong to root as long as that holds. */
        prctl(PR_SET_DUMPABLE, 1);
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
                give_up(child,
                        "this user may not make a user namespace (%s): allow it (sysctl "
                        "kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0, "
                        "user.max_user_namespaces above 0), or run Berth as root",
                        strerror(errno));
        write_map(child, "/proc/self/setgroups", "deny");
        snprintf(map, sizeof(map), "%u %u 1", child->uid, child->uid);
        write_map(child, "/proc/self/uid_map", map);
        snprintf(map, sizeof(map), "%u %u 1", child->gid, child->gid);
        write_map(child, "/proc/self/gid_map", map);
        take_shares();
}

static void make_folder(const struct sandbox_child *child, const char *path, mode_t mode, bool theirs) {
        if (mkdir(path, mode) < 0 || chmod(path, mode) < 0 ||
            (theirs && chown(path, child->uid, child->gid) < 0))
                give_up(child, "cannot make %s: %s", path, strerror(errno));
}

static void mount_memory(const struct sandbox_child *child, const char *path, const char *options) {
        if (mount("berth", path, "tmpfs", MS_NOSUID | MS_NODEV, options) < 0)
                give_up(child,
                        "cannot mount a file system in memory (%s): where AppArmor restricts user namespaces, "
                        "sysctl kernel.apparmor_restrict_unprivileged_userns=0, or run Berth as root",
                        strerror(errno));
}

/*
 * Bubblewrap reads the list of all mounts for each of its own, some twenty times; no sandbox sees /sys and the dozen
 * file systems below it. An ordinary user may not take them away, and does without.
 */
static void shed_mounts(void) {
        (void)umount2("/sys", MNT_DETACH);
}

/* The workspace, and one more for /tmp and /dev/shm, each with its quota: in the working directory, which is the stage. */
static void mount_places(const struct sandbox_child *child) {
        const struct sandbox_limits *limits = &child->spec->limits;
        uint64_t scratch =
                limits->memory_bytes / 2 < SCRATCH_BYTES_MAX ? limits->memory_bytes / 2 : SCRATCH_BYTES_MAX;
        char options[128];

        make_folder(child, "workspace", 0700, false);
        snprintf(options, sizeof(options), "size=%llu,nr_inodes=%llu,mode=0700,uid=%u,gid=%u",
                 (unsigned long long)limits->workspace_bytes, (unsigned long long)limits->workspace_files + 1,
                 child->uid, child->gid);
        mount_memory(child, "workspace", options);
        make_folder(child, "scratch", 0755, false);
        snprintf(options, sizeof(options), "size=%llu,nr_inodes=%u,mode=0755", (unsigned long long)scratch,
                 SCRATCH_FILES);
        mount_memory(child, "scratch", options);
        make_folder(child, "scratch/tmp", 01777, true);
        make_folder(child, "scratch/shm", 01777, true);
}

/* By its descriptor: the stage may hide the path by now. */
static void bind_image(const struct sandbox_child *child, int folder) {
        char path[64];

        make_folder(child, "image", 0755, false);
        snprintf(path, sizeof(path), "/proc/self/fd/%d", folder);
        if (mount(path, "image", NULL, MS_BIND | MS_REC, NULL) < 0)
                give_up(child, "cannot bind %s: %s", child->spec->image_root, strerror(errno));
}

/*
 * A small file system over the stage folder, and on it what bubblewrap binds: the workspace, /tmp with /dev/shm, and the
 * image's root (which the sandbox's user could not reach through folders that are root's alone) or an /etc. The workspace's
 * folder, open.
 */
static int make_mounts(const struct sandbox_child *child) {
        const char *image = child->spec->image_root;
        int image_folder = -1, workspace;

        if (image && (image_folder = open(image, O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0)
                give_up(child, "cannot open %s: %s", image, strerror(errno));
        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                give_up(child, "cannot make the mounts private: %s", strerror(errno));
        shed_mounts();
        mount_memory(child, child->stage, "size=2m,nr_inodes=64,mode=0755");
        if (chdir(child->stage) < 0)
                give_up(child, "cannot enter %s: %s", child->stage, strerror(errno));
        mount_places(child);
        if (image)
                bind_image(child, image_folder);
        else if (sandbox_etc_make() < 0)
                give_up(child, "cannot put /etc together: %s", strerror(errno));
        workspace = open("workspace", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (workspace < 0 || chdir("/") < 0)
                give_up(child, "cannot open the workspace: %s", strerror(errno));
        return workspace;
}

static void wait_for_go(const struct sandbox_child *child) {
        char byte;

        if (read(child->channel, &byte, 1) != 1)
                _exit(EXIT_FAILURE);
}

/* From here on the process has no right that an ordinary, unknown user would not have. */
static void drop_privileges(const struct sandbox_child *child) {
        if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setresgid(child->gid, child->gid, child->gid) < 0 ||
                               setresuid(child->uid, child->uid, child->uid) < 0 || setuid(0) == 0))
                _exit(EXIT_FAILURE);
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                _exit(EXIT_FAILURE);
        /* After the change of user, which forgets it. Bubblewrap asks for the same for its own children. */
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != child->parent)
                _exit(EXIT_FAILURE);
}

/* Descriptors 0 to 2 become the sandbox's; of the others only those that bubblewrap reads survive exec. */
static void arrange_descriptors(const struct sandbox_child *child) {
        for (int i = 0; i < 3; i++) {
                if (dup2(child->standard[i], i) < 0)
                        _exit(EXIT_FAILURE);
        }
        if (close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) < 0)
                _exit(EXIT_FAILURE);
        for (size_t i = 0; i < child->root->passed.count; i++) {
                if (fcntl(child->root->passed.descriptors[i], F_SETFD, 0) < 0)
                        _exit(EXIT_FAILURE);
        }
}

static void start(const struct sandbox_child *child) {
        const char *const *launcher = cgroup_launcher(child->group);
        const char *words[64 + SANDBOX_ARGUMENTS_MAX];
        char number[16];
        size_t count = 0;
        bool scoped = launcher[0] != NULL;

        snprintf(number, sizeof(number), "%d", child->root->words);
        while (*launcher)
                words[count++] = *launcher++;
        words[count++] = child->bubblewrap;
        words[count++] = "--args";
        words[count++] = number;
        words[count++] = "--";
        for (const char *const *word = child->spec->argv;
             *word && count + 1 < sizeof(words) / sizeof(words[0]); word++)
                words[count++] = *word;
        words[count] = NULL;
        /* systemd-run finds its manager by variables, and passes them on to bubblewrap, which clears them. */
        if (scoped)
                execv(words[0], (char *const *)words);
        else
                execve(words[0], (char *const *)words, no_environment);
        dprintf(STDERR_FILENO, "cannot start %s: %s\n", words[0], strerror(errno));
        _exit(EXIT_FAILURE);
}

void sandbox_child_main(const struct sandbox_child *child) {
        int workspace;

        if (!child->limited)
                give_up(child, "cannot enter the cgroup that was made for it: %s", strerror(errno));
        for (int number = 1; number < NSIG; number++)
                signal(number, SIG_DFL);
        sigprocmask(SIG_SETMASK, child->unmasked, NULL);
        umask(022);
        setsid();
        enter_namespaces(child);
        workspace = make_mounts(child);
        set_limits(child);
        /* The last that it tells: nobody listens any more while the program runs. */
        tell(child->channel, "", workspace);
        if (child->spec->fill)
                wait_for_go(child);
        drop_privileges(child);
        arrange_descriptors(child);
        start(child);
        _exit(EXIT_FAILURE);
}

int sandbox_child_workspace(int channel, int *ret_folder, struct error *err) {
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(int))];
        } control = { .space = { 0 } };
        char text[TOLD_MAX] = "";
        struct iovec part = { text, sizeof(text) - 1 };
        struct msghdr message = { .msg_iov = &part,
                                  .msg_iovlen = 1,
                                  .msg_control = control.space,
                                  .msg_controllen = sizeof(control.space) };
        struct cmsghdr *header;

        if (recvmsg(channel, &message, MSG_CMSG_CLOEXEC) <= 0)
                return error_set(err, "the sandbox's process died before it was set up");
        if (text[0])
                return error_set(err, "%s", text);
        header = CMSG_FIRSTHDR(&message);
        if (!header || header->cmsg_type != SCM_RIGHTS)
                return error_set(err, "the sandbox's process gave no workspace");
        memcpy(ret_folder, CMSG_DATA(header), sizeof(int));
        return 0;
}

int sandbox_child_go(int channel, struct error *err) {
        if (send(channel, "g", 1, MSG_NOSIGNAL) != 1)
                return error_set(err, "the sandbox's process died before it was started");
        return 0;
}
