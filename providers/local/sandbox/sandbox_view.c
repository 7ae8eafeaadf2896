/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/sandbox/sandbox_view.h"

#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <mntent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

/* The second layer, since an overlay without a writable one needs two. Beside the views, on the stage. */
#define NOTHING "nothing"

const char *const sandbox_view_names[] = { "usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", NULL };

/* An overlay shows the file system that a folder is on, and none that is mounted below it. */
static bool has_mounts_below(const char *path) {
        FILE *file = path ? setmntent("/proc/self/mounts", "re") : NULL;
        size_t length = path ? strlen(path) : 0;
        char buffer[8192];
        struct mntent entry;
        bool found = false;

        while (file && !found && getmntent_r(file, &entry, buffer, sizeof(buffer)))
                found = strncmp(entry.mnt_dir, path, length) == 0 && entry.mnt_dir[length] == '/';
        if (file)
                endmntent(file);
        return found;
}

/*
 * The layer is named ".": mountinfo repeats the words that it was mounted with. Attributes that an image's files could carry
 * to redirect the kernel elsewhere are not obeyed. With `xino` and `index`, which only a layer that is written to needs, the kernel would
 * put a line into its log for each mount.
 */
static int mount_overlay(int folder, const char *stage, const char *target) {
        char options[256];

        if (snprintf(options, sizeof(options),
                     "lowerdir=.:%s/" NOTHING ",redirect_dir=nofollow,metacopy=off,xino=off,index=off",
                     stage) >= (int)sizeof(options)) {
                errno = ENAMETOOLONG;
                return -1;
        }
        if (fchdir(folder) < 0)
                return -1;
        return mount("berth", target, "overlay", MS_RDONLY | MS_NOSUID | MS_NODEV, options);
}

int sandbox_view_mount(int folder, const char *path, const char *stage, const char *name, struct error *err) {
        char *target TEXT_CLEANUP = path_join(stage, name), *nothing TEXT_CLEANUP = path_join(stage, NOTHING);
        char source[64];
        int result;

        if (mkdir(target, 0755) < 0 || (mkdir(nothing, 0755) < 0 && errno != EEXIST))
                return error_set(err, "cannot make %s: %s", target, strerror(errno));
        result = has_mounts_below(path) ? -1 : mount_overlay(folder, stage, target);
        if (result < 0) {
                /* By its descriptor: the stage may hide the path already. */
                snprintf(source, sizeof(source), "/proc/self/fd/%d", folder);
                result = mount(source, target, NULL, MS_BIND | MS_REC, NULL);
        }
        if (result < 0 || chdir(stage) < 0)
                return error_set(err, "cannot bind %s: %s", name, strerror(errno));
        return 0;
}

static int view_entry(const char *stage, const char *name, struct error *err) {
        char *path TEXT_CLEANUP = path_join("/", name),
                   *place TEXT_CLEANUP = path_join(SANDBOX_VIEW_HOST, name), target[4096];
        int folder DESCRIPTOR_CLEANUP = -1;
        struct stat status;
        ssize_t length;

        if (lstat(path, &status) < 0)
                return 0;
        if (S_ISLNK(status.st_mode)) {
                length = readlink(path, target, sizeof(target) - 1);
                if (length <= 0)
                        return 0;
                target[length] = '\0';
                return symlink(target, place) < 0
                               ? error_set(err, "cannot make %s: %s", place, strerror(errno))
                               : 0;
        }
        folder = S_ISDIR(status.st_mode) ? open(path, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
        return folder < 0 ? 0 : sandbox_view_mount(folder, path, stage, place, err);
}

int sandbox_view_host(const char *stage, struct error *err) {
        if (chdir(stage) < 0 || mkdir(SANDBOX_VIEW_HOST, 0755) < 0)
                return error_set(err, "cannot make a folder in %s: %s", stage, strerror(errno));
        for (const char *const *name = sandbox_view_names; *name; name++) {
                if (view_entry(stage, *name, err) < 0)
                        return -1;
        }
        return 0;
}
