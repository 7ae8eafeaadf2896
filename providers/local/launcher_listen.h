/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launcher's Unix socket: made at a path, or given by systemd (sd_listen_fds(3)). A path is one
 * launcher's: PATH.lock is locked as long as it lives, so that two that start at once do not take
 * each other's socket away. An entry at the path is removed only if it is a socket at which no
 * process listens any more.
 */
#ifndef BERTH_PROVIDERS_LOCAL_LAUNCHER_LISTEN_H
#define BERTH_PROVIDERS_LOCAL_LAUNCHER_LISTEN_H

#include "base/error.h"

#include <sys/types.h>

struct launcher_listener {
        int socket, lock;
        const char *path; /* borrowed; NULL: the socket is systemd's */
        dev_t device;     /* of what was made at the path */
        ino_t inode;
};
#define LAUNCHER_LISTENER_NONE \
        { .socket = -1, .lock = -1 }

/* Mode 0600 and `owner`'s; with a group other than -1 also that group's, mode 0660. ERROR_LOCKED where one listens there. */
int launcher_listen(const char *path, uid_t owner, gid_t group, struct launcher_listener *ret,
                    struct error *err) MUST_USE;
/*
 * Removes a socket at which no process listens any more; ERROR_LOCKED if one does. Anything but a
 * socket stays, and is an error.
 */
int launcher_listen_clear(const char *path, struct error *err) MUST_USE;
/* The socket of a lasting worker: without a lock, and left there by its maker. */
int launcher_listen_for_worker(const char *path, uid_t owner, int *ret_socket, struct error *err) MUST_USE;
/* What systemd passed: one listening Unix socket, and no more. ERROR_NOT_FOUND where it passed none. */
int launcher_listen_inherited(struct launcher_listener *ret, struct error *err) MUST_USE;
/* The name goes only where it is still that of the socket that was made. Harmless when called again. */
void launcher_listener_close(struct launcher_listener *listener);

#endif
