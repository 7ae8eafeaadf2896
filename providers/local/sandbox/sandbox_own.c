/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that bubblewrap would take from the machine, made for one sandbox instead. The kernel keeps watches (inotify) and locks
 * for each inode: on a shared one a sandbox sees when others use the file, tells them things by locking it, and makes each use of it
 * slower for the whole machine.
 */
#include "providers/local/sandbox/sandbox_own.h"

#include "base/files.h"
#include "base/libc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/*
 * An instance of its own: the machine has some 3,000 terminals for all, and charges what waits in
 * them to no limit.
 */
#define TERMINALS "newinstance,ptmxmode=0666,mode=0620,max=64"
#define DEVICES SANDBOX_OWN_DEVICES
#define BUBBLEWRAP "bubblewrap"
#define UMASK 022

/* Numbers as in the kernel's admin-guide/devices.txt. */
static const struct {
        const char *name;
        unsigned major_number, minor_number;
} devices[] = {
        { "null", 1, 3 },   { "zero", 1, 5 },    { "full", 1, 7 },
        { "random", 1, 8 }, { "urandom", 1, 9 }, { "tty", 5, 0 },
};

static const struct {
        const char *path, *target;
} links[] = {
        { DEVICES "/fd", "/proc/self/fd" },       { DEVICES "/stdin", "/proc/self/fd/0" },
        { DEVICES "/stdout", "/proc/self/fd/1" }, { DEVICES "/stderr", "/proc/self/fd/2" },
        { DEVICES "/core", "/proc/kcore" },       { DEVICES "/ptmx", "pts/ptmx" },
};

static int make_empty(const char *path) {
        int file DESCRIPTOR_CLEANUP = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);

        return file < 0 ? -1 : 0;
}

/* Read-only: programs write to the device, and cannot set the dates of the machine's node. */
static int bind_device(const char *of_machine, const char *path) {
        struct mount_attr attributes = { .attr_set =
                                                 MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC };

        if (make_empty(path) < 0 || mount(of_machine, path, NULL, MS_BIND, NULL) < 0)
                return -1;
        return mount_setattr(AT_FDCWD, path, 0, &attributes, sizeof(attributes));
}

/*
 * The machine's own nodes if this process may make none: in a user namespace the kernel allows no
 * process to, and root of a container may be without CAP_MKNOD.
 */
static int make_devices(struct error *err) {
        char path[32], of_machine[32];

        for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
                dev_t number = makedev(devices[i].major_number, devices[i].minor_number);

                snprintf(path, sizeof(path), DEVICES "/%s", devices[i].name);
                snprintf(of_machine, sizeof(of_machine), "/dev/%s", devices[i].name);
                if (mknod(path, S_IFCHR | 0666, number) < 0 &&
                    (errno != EPERM || bind_device(of_machine, path) < 0))
                        return error_set(err, "cannot make %s for a sandbox: %s", of_machine,
                                         strerror(errno));
        }
        return 0;
}

static int make_links(struct error *err) {
        for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
                if (symlink(links[i].target, links[i].path) < 0)
                        return error_set(err, "cannot make %s: %s", links[i].path, strerror(errno));
        }
        return 0;
}

/*
 * All of /dev in one mount with others below: bubblewrap, which reads the list of all mounts for each of its own, binds it as a
 * whole. The only file system on the stage on which nodes are devices, and nothing can be added to it.
 */
static int make_dev(const char *shared_memory, struct error *err) {
        int result;

        if (mkdir(DEVICES, 0755) < 0 ||
            mount("berth", DEVICES, "tmpfs", MS_NOSUID | MS_NOEXEC, "size=64k,nr_inodes=32,mode=0755") < 0)
                return error_set(err, "cannot mount a /dev: %s", strerror(errno));
        umask(0);
        result = make_devices(err);
        umask(UMASK);
        if (result < 0 || make_links(err) < 0)
                return -1;
        if (mkdir(DEVICES "/pts", 0755) < 0 ||
            mount("berth", DEVICES "/pts", "devpts", MS_NOSUID | MS_NOEXEC, TERMINALS) < 0)
                return error_set(err, "cannot mount pseudo-terminals: %s", strerror(errno));
        if (mkdir(DEVICES "/shm", 0755) < 0 ||
            mount(shared_memory, DEVICES "/shm", NULL, MS_BIND, NULL) < 0 ||
            mount(NULL, DEVICES, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NOEXEC, NULL) < 0)
                return error_set(err, "cannot mount /dev/shm: %s", strerror(errno));
        return 0;
}

int sandbox_own_make(const char *shared_memory, struct error *err) {
        if (make_empty(SANDBOX_OWN_NO_FILE) < 0 || mkdir(SANDBOX_OWN_NO_FOLDER, 0555) < 0)
                return error_set(err, "cannot make what covers parts of /proc: %s", strerror(errno));
        return make_dev(shared_memory, err);
}

int sandbox_own_bubblewrap(const char *path, struct error *err) {
        int source DESCRIPTOR_CLEANUP = open(path, O_RDONLY | O_CLOEXEC), copy DESCRIPTOR_CLEANUP = -1;
        struct stat status;

        if (source < 0 || fstat(source, &status) < 0)
                return error_set(err, "cannot read %s: %s", path, strerror(errno));
        copy = open(BUBBLEWRAP, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0555);
        if (copy < 0 || sendfile(copy, source, NULL, (size_t)status.st_size) != (ssize_t)status.st_size)
                return error_set(err, "cannot copy %s for a sandbox: %s", path, strerror(errno));
        close_descriptor(&copy); /* what is open for writing cannot be started */
        if (mount(BUBBLEWRAP, path, NULL, MS_BIND, NULL) < 0 ||
            mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) < 0)
                return error_set(err, "cannot mount a copy of %s: %s", path, strerror(errno));
        return 0;
}
