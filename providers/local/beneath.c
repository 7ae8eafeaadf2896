/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel gives up with EAGAIN where somebody renames folders meanwhile. */
#define TRIES 128

static int open_by(int folder, const char *path, int flags, unsigned resolve) {
        struct open_how how = {
                .flags = (unsigned)(flags | O_CLOEXEC | (flags & O_PATH ? 0 : O_NONBLOCK | O_NOCTTY)),
                .resolve = resolve | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
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
        return open_by(folder, path, flags, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
}

int beneath_follow(int folder, const char *path, int flags) {
        return open_by(folder, path, flags, RESOLVE_IN_ROOT);
}
