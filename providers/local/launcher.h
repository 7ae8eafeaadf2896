/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `berth launcher`: root's rights for a server that has none. It does one thing, over a Unix socket
 * that few users may open: start a sandbox's worker for an image of its store, within bounds, as a
 * host user that it chooses. A client can name no path, no user and no descriptor. Messages are
 * frames (process/frame.h):
 *
 *     client -> launcher   START     sandbox_starting_write(): limits, an image's digest; a name, for a worker that lasts
 *     launcher -> client   STARTED   the run's number and what of its limits is not held; with it the worker's socket, on which
 *                                    the rest is said (sandbox_messages.h, from ARGUMENTS on)
 *                          REFUSED   text; the next START may go better
 *     client -> launcher   MEASURE   a run's number
 *     launcher -> client   MEASURED  what its cgroup has used so far; all zero where the run has ended, or is another's
 *     client -> launcher   KILL      a run's number: for a worker that does not hear
 *     client -> launcher   RENAME    the name of a worker that lasts, and another by which it is found from now on
 *     launcher -> client   RENAMED   or REFUSED
 *     client -> launcher   SHARE     the name of a family, and what those of the client's that are of it may use of CPUs together
 *     client -> launcher   KEEP      the name of a workspace that stays, how large it may be, whether it is made or removed
 *     launcher -> client   KEPT      its root, a folder in which the client owns everything; nothing where there is none. Or REFUSED
 *                          BUSY      text: what shall be removed is in use, and need not be a moment later
 *     client -> launcher   NAMES     the name of a workspace that stays, or nothing
 *     launcher -> client   NAMED     the names of the client's that come after it, the first of them. Or REFUSED
 *     client -> launcher   CLEAR     the name of a worker that lasts, which is killed
 *     launcher -> client   ENDED     what was used: nothing of the run is left, and its host user is free
 *
 * Answers to START come in the order of the questions. A message that is none of these, or is not as it should be, ends the
 * connection that it came on; so does not taking what is sent. A run ends with the socket to its worker, with the
 * launcher, and where its worker lives longer than its deadline can explain.
 *
 * A run with a name is ended by none of these but the last, and by its deadline. Its worker listens at a path that the
 * configuration and the name make, and all connections of its user may ask about it; who asks for its end is told of it, or
 * REFUSED where none of the name lives. A launcher that is started again finds such workers (launcher_workers.h).
 */
#ifndef BERTH_PROVIDERS_LOCAL_LAUNCHER_H
#define BERTH_PROVIDERS_LOCAL_LAUNCHER_H

#include "base/error.h"
#include "base/interrupt.h"
#include "providers/local/sandbox/sandbox.h"
#include "providers/local/sandbox/sandbox_messages.h"
#include "providers/local/sandbox/sandbox_users.h"

#include <stdbool.h>
#include <sys/types.h>

#define LAUNCHER_RUNS_MAX 1024
#define LAUNCHER_CONNECTIONS_MAX 256 /* shared out evenly to the clients */
#define LAUNCHER_CLIENTS_MAX 16

struct launcher_config {
        const char *socket; /* its path, the first client's; NULL: systemd's */
        /* whose the socket is besides; -1: no group's. It opens the door; the list below decides */
        gid_t group;
        uid_t clients[LAUNCHER_CLIENTS_MAX]; /* who may ask, besides the launcher's own user */
        size_t client_count;
        const char *images; /* the image store's folder, or NULL: only the machine's own /usr */
        const char *
                workers; /* the folder in which workers that last have their sockets, UID.NAME; NULL: none lasts */
        const char *
                disk; /* a folder on the disk that workspaces may lie on, of workers that last; NULL: in memory */
        struct sandbox_users users;
        struct sandbox_limits most;
        unsigned runs_max;    /* at most LAUNCHER_RUNS_MAX */
        unsigned runs_each;   /* of one client */
        unsigned kept_each;   /* workspaces that stay, of one client */
        int64_t patience_ms;  /* the time that a client has to say what to run */
        bool accept_degraded; /* where cgroups cannot hold a limit */
};
/* As much as a sandbox can have at all, on this machine. */
struct sandbox_limits launcher_limits_default(void);

/* Until `interrupt` is raised; then all runs are ended. Must be root, or is the client's own user. */
int launcher_run(const struct launcher_config *config, const struct interrupt *interrupt,
                 struct error *err) MUST_USE;

/* Checks that the request is within `most`, and no less than the kernel can give. */
int launcher_check(const struct sandbox_limits *asked, const struct sandbox_limits *most,
                   struct error *err) MUST_USE;

#endif
