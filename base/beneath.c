/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All four are openat2(2) with other flags. The kernel checks each step of the path while it walks it: a path that
 * was checked before it is opened could be exchanged between the two.
 */
#include "base/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel gives up with EAGAIN where somebody renames folders meanwhile. */
#define TRIES 128

static int open_by(int folder, const char *path, int flags, unsigned mode, unsigned resolve) {
        struct open_how how = {
                .flags = (unsigned)(flags | O_CLOEXEC | (flags & O_PATH ? 0 : O_NONBLOCK | O_NOCTTY)),
                .mode = mode,
                .resolve = resolve | RESOLVE_NO_MAGICLINKS,
        };
        long descriptor = -1;

        for (int i = 0; i < TRIES; i++) {
                descriptor = syscall(SYS_openat2, folder, path, &how, sizeof(how));
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
