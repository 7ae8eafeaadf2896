/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a launcher does with its disk: workspaces that stay are made, opened, removed and told of, and one is made for a sandbox that
 * begins. Each is a work (launcher_works.h), which knows nothing of connections and runs. Those that stay lie in
 *
 *     {disk}/kept/UID/NAME/    of each client in a folder of its own: a client has no word for another's
 */
#ifndef BERTH_PROVIDERS_LOCAL_LAUNCHER_DISK_H
#define BERTH_PROVIDERS_LOCAL_LAUNCHER_DISK_H

#include "base/arena.h"
#include "base/error.h"
#include "providers/local/launcher.h"
#include "providers/local/launcher_works.h"
#include "providers/local/sandbox/sandbox_messages.h"
#include "providers/local/sandbox/sandbox_users.h"

#include <stddef.h>
#include <sys/types.h>

struct launcher_disk {
        struct launcher_work work; /* whose `run` is one of the three below */
        const struct launcher_config *config;
        struct arena *arena;
        gid_t group;                      /* the client's */
        struct sandbox_keeping keeping;   /* what is asked for, of KEEP */
        const char *after;                /* of NAMES: those behind it */
        struct sandbox_starting starting; /* of START, as is the next one */
        struct sandbox_user user;
        /* The result. */
        int result, opened; /* -1: none of it is opened */
        struct error err;
        const char **
                names; /* of NAMES, SANDBOX_NAMES_MAX at most: who wants more asks for those behind the last */
        size_t name_count;
};

/* The workspace's root in `opened`; -1 if it is removed, or does not exist. */
void launcher_disk_keep(struct launcher_work *given);
void launcher_disk_names(struct launcher_work *given);
/* What the workspace of the sandbox lies on in `opened`: none where this host cannot have it on a disk, and it is in memory. */
void launcher_disk_start(struct launcher_work *given);

/* Memory and descriptors of the work. */
void launcher_disk_release(struct launcher_disk *disk);

#endif
