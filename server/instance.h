/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One daemon a folder: its lock, and its Unix socket there. The lock file names the process that
 * runs, and is locked while it runs: the kernel drops it with the process, so that a socket without
 * a locked lock file is a dead daemon's.
 */
#ifndef BERTH_SERVER_INSTANCE_H
#define BERTH_SERVER_INSTANCE_H

#include "base/error.h"

#include <stdbool.h>
#include <sys/un.h>

struct instance {
        const char *name; /* borrowed: "controller" has controller.lock and controller.sock */
        char *lock_path;
        int folder, lock;
        bool has_socket;
};

#define INSTANCE_NONE \
        { .folder = -1, .lock = -1 }

/* ERROR_LOCKED where one of that name runs there. After a failure too it ends with instance_close(). */
int instance_open(const char *folder, const char *name, struct instance *ret, struct error *err) MUST_USE;
/* Listens on NAME.sock, of mode 0600; what lies there is a dead daemon's, and replaced. *ret is the caller's to close. */
int instance_listen(struct instance *instance, int *ret_socket, struct error *err) MUST_USE;
/* Whether the folder is the one that was locked, and locked it is: false where it was removed or replaced. Any thread. */
bool instance_is_in_place(const struct instance *instance);
/* Removes the socket, and lets go of the lock. */
void instance_close(struct instance *instance);

/* The address of NAME.sock in an open folder: a socket's name takes 107 bytes, and states lie deeper than that. */
struct sockaddr_un instance_address(int folder, const char *name);

#endif
