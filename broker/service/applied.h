/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resources applied to the stack, from its state. It is read again for each question, so that an
 * apply holds from the next request on, and a state that was replaced is the one that is read. A
 * shared state takes calls to be read, and no request waits for them: it is read every few seconds,
 * and requests have it as it was then, also while it cannot be read.
 */
#ifndef BERTH_BROKER_SERVICE_APPLIED_H
#define BERTH_BROKER_SERVICE_APPLIED_H

#include "base/arena.h"
#include "base/error.h"
#include "controller/map.h"
#include "state/state.h"

struct applied;
struct applied *applied_new(const char *folder);
/*
 * Of a shared state, which `open` opens again each time, with a copy of its own on this machine;
 * from a thread of its own too.
 */
typedef int applied_open_state(void *context, struct state **ret, struct error *err);
struct applied *applied_new_shared(applied_open_state *open, void *context);
bool applied_is_shared(const struct applied *applied);
void applied_free(struct applied *applied); /* NULL is fine */

/* All in the arena, by name. Any thread's; a folder without a state has nothing. */
struct applied_agent {
        const char *name, *type;
        const char *environment;             /* NULL: none */
        bool in_service;                     /* active, and not taken from its environment */
        const struct value *limits, *labels; /* or NULL */
        int64_t applied_ms;
};
int applied_agents(struct applied *applied, struct arena *arena, struct applied_agent **ret,
                   size_t *ret_count, struct error *err) MUST_USE;

/* Without what is secret, or none of a client's business: variables, roles. */
struct applied_environment {
        const char *name;
        const struct value *spec;
        int64_t applied_ms;
        bool incomplete; /* a change of it failed half-way */
};
int applied_environments(struct applied *applied, struct arena *arena, struct applied_environment **ret,
                         size_t *ret_count, struct error *err) MUST_USE;

int applied_map(struct applied *applied, struct arena *arena, struct map *ret, struct error *err) MUST_USE;

/* ERROR_NOT_FOUND where none was applied yet. */
struct applied_stack {
        const char *name, *provider, *lineage;
        const struct value *spec;
};
int applied_stack(struct applied *applied, struct arena *arena, struct applied_stack *ret,
                  struct error *err) MUST_USE;

/*
 * The largest file, in bytes, of that environment's workspaces that archives have: the least maxDownloadFileMB of the policies that
 * select it; 25 MB where none does.
 */
int applied_download_max(struct applied *applied, const char *environment, uint64_t *ret,
                         struct error *err) MUST_USE;

/* Whether the state can be read, or of a shared one, could be when that was last tried. */
int applied_check(struct applied *applied, struct error *err) MUST_USE;

#endif
