/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sandbox that outlives the process that started it, as a session's does: its worker is found
 * again at a socket. The messages are in sandbox_messages.h; here it is started, found, and cleared
 * away.
 *
 * Beside the socket PATH lies PATH.worker: which process it is, so that its finder knows its
 * cgroup.
 */
#ifndef BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_LASTING_H
#define BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_LASTING_H

#include "base/arena.h"
#include "base/error.h"
#include "process/process.h"
#include "providers/local/sandbox/cgroup.h"
#include "providers/local/sandbox/sandbox.h"

#include <stdbool.h>

struct sandbox_lasting {
        int socket;                  /* to the worker; -1: none. Does not block */
        struct process worker;       /* where this process is its parent */
        pid_t pid;                   /* of a worker that was found, where it is known; else 0 */
        struct cgroup *group;        /* NULL: not known */
        struct cgroup_gauges gauges; /* given by its worker with READY, or opened when they are first read */
        char *path;                  /* owned */
        const char *launcher;        /* that placed it, where one did; borrowed */
};
#define SANDBOX_LASTING_NONE \
        { .socket = -1, .worker = PROCESS_NONE, .gauges = CGROUP_GAUGES_NONE }

/*
 * Starts one with the spec's program, which speaks by its standard input and output as a session's does. `image` is the image's root,
 * locked, or -1: the lock is the sandbox's from now on. Fails where a limit cannot be held, unless the spec accepts
 * that. The path is at most 100 bytes long. Lives in the arena, which must live as long as it.
 *
 * Where the spec has a launcher, that places it and holds the image, and the path is the one that it has for the worker
 * (sandbox_launched_last()).
 */
int sandbox_lasting_start(const struct sandbox_spec *spec, int image, const char *path, struct arena *arena,
                          struct sandbox_lasting *ret, struct error *err) MUST_USE;
/*
 * Finds a live one: READY is what it says next. ERROR_NOT_FOUND where none does. Without limits its
 * cgroup is not known. For one that a launcher placed the caller sets ret->launcher. `family`: its
 * current share, if it has a family; or NULL.
 */
int sandbox_lasting_find(const char *path, const struct sandbox_limits *limits,
                         const struct sandbox_family *family, struct arena *arena,
                         struct sandbox_lasting *ret, struct error *err) MUST_USE;
/* This lock is kept until the sandbox is dead; `lock` stays the caller's. Once, while nothing else is on its way to it. */
int sandbox_lasting_hold(const struct sandbox_lasting *lasting, int lock, struct error *err) MUST_USE;
/*
 * It is found at `path` from now on, in the same folder, and no more where it was. A process that dies in the middle leaves a worker that
 * is found at the one or the other.
 */
int sandbox_lasting_rename(struct sandbox_lasting *lasting, const char *path, struct error *err) MUST_USE;
/* What its cgroup has used. */
void sandbox_lasting_measure(struct sandbox_lasting *lasting, struct cgroup_usage *ret);
/* Lets go of it: it lives on. */
void sandbox_lasting_leave(struct sandbox_lasting *lasting);
/*
 * For a sandbox whose outcome was taken, or that does not answer: kills it if it still lives, and
 * removes all that was its.
 */
void sandbox_lasting_end(struct sandbox_lasting *lasting);

#endif
