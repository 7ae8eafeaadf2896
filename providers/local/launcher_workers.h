/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder of workers that outlive the launcher: of each its socket, UID.NAME, and beside it UID.NAME.worker, which says which
 * process it is and what it was started with. So a launcher that is started again knows them as the one did that started them.
 * The folder is root's alone, and so is all that it is told by.
 */
#ifndef BERTH_PROVIDERS_LOCAL_LAUNCHER_WORKERS_H
#define BERTH_PROVIDERS_LOCAL_LAUNCHER_WORKERS_H

#include "base/arena.h"
#include "base/error.h"
#include "process/process.h"
#include "providers/local/sandbox/sandbox_messages.h"

#include <sys/types.h>

/* The socket of a new one, listening for its user; the folder is made where it is missing. Nothing of a living one is touched. */
int launcher_workers_listen(const char *folder, uid_t client, const char *name, struct arena *arena,
                            const char **ret_path, int *ret_listener, struct error *err) MUST_USE;
/* Which process it is: before that is told to be one. */
int launcher_workers_record(const char *path, pid_t worker, const struct sandbox_starting *starting,
                            struct error *err) MUST_USE;
/*
 * It is found by another name from now on, which no living one has. A launcher that dies in the
 * middle leaves it with the one or the other: a record without a socket does not count.
 */
int launcher_workers_rename(const char *folder, uid_t client, const char *path, pid_t worker,
                            const struct sandbox_starting *as, struct arena *arena, const char **ret_path,
                            struct error *err) MUST_USE;
void launcher_workers_remove(const char *path);

struct launcher_worker {
        uid_t client;
        const char *path; /* in the arena, as what is in the next one */
        struct sandbox_starting starting;
        struct process process; /* not a child: its pidfd tells its end, and is the caller's */
};
/*
 * All that live, in the arena. What dead ones have left here is removed; *ret_dead says that there were any. A folder that
 * is not there has none.
 */
int launcher_workers_find(const char *folder, struct arena *arena, struct launcher_worker **ret,
                          size_t *ret_count, bool *ret_dead, struct error *err) MUST_USE;

#endif
