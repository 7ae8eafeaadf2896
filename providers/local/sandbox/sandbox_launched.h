/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker that a `berth launcher` places: the client's side of what is asked there
 * (sandbox_messages.h). The launcher keeps the cgroup and the host user; the process with code to
 * run has the worker's socket.
 */
#ifndef BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_LAUNCHED_H
#define BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_LAUNCHED_H

#include "base/arena.h"
#include "base/error.h"
#include "process/frame.h"
#include "providers/local/sandbox/sandbox.h"
#include "providers/local/sandbox/sandbox_messages.h"

struct sandbox_launched {
        struct frame_reader launcher;   /* socket -1: none */
        struct sandbox_started started; /* its text lies in the arena */
};
#define SANDBOX_LAUNCHED_NONE \
        { .launcher = FRAME_READER(-1) }

/*
 * Asks at `path` and waits for the answer. *ret_worker is the caller's. The launcher must be root
 * or of this process's own user: no other user may get the code and its secrets.
 */
int sandbox_launched_start(const char *path, const struct sandbox_starting *starting, struct arena *arena,
                           struct sandbox_launched *ret, int *ret_worker, struct error *err) MUST_USE;
/*
 * The usage of a run whose processes have ended. A launcher that does not answer knows nothing:
 * ret->known is false then.
 */
void sandbox_launched_measure(struct sandbox_launched *launched, struct cgroup_usage *ret);
/* After the worker's socket was closed: has it killed where it does not end within that time, and waits until nothing of it is left. */
void sandbox_launched_end(struct sandbox_launched *launched, int patience_ms);

/*
 * A worker that lasts, told the spec's program; `path` is its socket, FOLDER/UID.NAME, in the launcher's folder of workers. Where that
 * is another folder it is an error, which names ours.
 */
int sandbox_launched_last(const struct sandbox_spec *spec, const char *path, struct arena *arena,
                          int *ret_worker, struct error *err) MUST_USE;
/*
 * Sandboxes that it has placed of this family share this quota from now on. Nothing is waited for.
 */
int sandbox_launched_share(const char *launcher, const struct sandbox_family *family,
                           struct error *err) MUST_USE;
/* It is found at `to` from now on, in the same folder. */
int sandbox_launched_rename(const char *launcher, const char *path, const char *to,
                            struct error *err) MUST_USE;
/* This user's workspace of that name, which stays: *ret_root as of sandbox_kept_open(). ERROR_NOT_FOUND; ERROR_REFUSED, by the launcher. */
int sandbox_launched_keep(const char *launcher, const struct sandbox_keeping *keeping, int *ret_root,
                          struct error *err) MUST_USE;
/* The names of all of them, in order, in the arena. */
int sandbox_launched_names(const char *launcher, struct arena *arena, const char ***ret, size_t *ret_count,
                           struct error *err) MUST_USE;
/* Whether a launcher that may be trusted listens there. */
int sandbox_launched_try(const char *launcher, struct error *err) MUST_USE;

/*
 * For a worker that was told to end or does not answer: waits for it a while, has it killed, and
 * waits until nothing of it is left. Where no launcher answers, only the first. `worker`: a socket
 * to it, or -1.
 */
void sandbox_launched_clear(const char *launcher, const char *path, int worker);

#endif
