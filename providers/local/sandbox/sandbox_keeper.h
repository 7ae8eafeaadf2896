/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper of a worker: starts it, tells it where it runs and as which user, and waits for
 * its end. With root's rights (those of `berth exec` started by root, or of `berth launcher`), or
 * with a user's own.
 */
#ifndef BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_KEEPER_H
#define BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_KEEPER_H

#include "base/error.h"
#include "process/process.h"
#include "providers/local/sandbox/cgroup.h"
#include "providers/local/sandbox/sandbox_messages.h"

#include <sys/types.h>

struct sandbox_keeper {
        struct process worker;
        int socket; /* to it */
};
#define SANDBOX_KEEPER_NONE \
        { .worker = PROCESS_NONE, .socket = -1 }

/*
 * A worker that waits for PLACE. It is this program, started again with an empty environment and no
 * descriptor but its socket, the null device and standard error. `launcher` is put in front of it
 * (cgroup_launcher()).
 */
void sandbox_keeper_errors_to(
        int descriptor); /* their standard error from now on (process/relay.h); ours at first */
int sandbox_keeper_start(struct sandbox_keeper *ret, const char *const *launcher, struct error *err) MUST_USE;
/* What its group is to hold. A family's name there lies in the arena. */
struct cgroup_limits sandbox_keeper_limits(const struct sandbox_limits *limits,
                                           const struct sandbox_family *family, struct arena *arena);
/* Mask of enum cgroup_limit: what neither the group holds nor anything else would. */
unsigned sandbox_keeper_missing(const struct cgroup *group);
/*
 * Tells PLACE: what of it the cgroup and the descriptors decide is filled in. Only once, and before
 * the socket is given to the client that has code to run. `image` is the image's root folder, or
 * -1; `listener` is where a worker that lasts is found again, or -1; `disk` is the image of the
 * workspace, or -1; `network` the network namespace of another sandbox that it is to have, or -1.
 */
int sandbox_keeper_place(const struct sandbox_keeper *keeper, const struct cgroup *group,
                         struct sandbox_placing *placing, int image, int listener, int disk, int network,
                         const int *held, size_t held_count, struct error *err) MUST_USE;
/*
 * After something could not be sent to a worker: it may have failed, and said why. Always -1; err is left as it is where nothing
 * was said. The socket does not block afterwards.
 */
int sandbox_keeper_heed(int socket, struct error *err) MUST_USE;
/* Of a worker that closed its socket without a word. -1 with what became of it. */
int sandbox_keeper_explain(struct sandbox_keeper *keeper, struct error *err) MUST_USE;
/* Closes the socket, which asks it to end, kills it where it does not within that time, and waits. Harmless when called again. */
void sandbox_keeper_end(struct sandbox_keeper *keeper, int patience_ms);

#endif
