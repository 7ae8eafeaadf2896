/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workspaces that agents have for owners, by their index: a file beside each, so that no image
 * must be opened, and no launcher asked for one, to list them or to count their sizes.
 *
 *     {workspaces}/agents/STACK/AGENT/OWNERHASH/session.json    as a session's (local_workspaces.h), with "agent", and of an image "bytes"
 *
 *     {workspaces}/agents/STACK/others.json                     names on a launcher's disk that were found to be other stacks'
 *
 * In a workspace that is a plain folder it is that workspace's own. For an image its session.json
 * within is the truth: the index is made again from that if it is missing, or says what its place
 * contradicts. It is written whole, and synced.
 */
#ifndef BERTH_PROVIDERS_LOCAL_LOCAL_AGENT_WORKSPACES_H
#define BERTH_PROVIDERS_LOCAL_LOCAL_AGENT_WORKSPACES_H

#include "base/arena.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AGENTS_FOLDER "agents"

struct local_agent_workspace {
        const char *agent;
        const char *hash; /* the folder's name: local_hash() of the owner */
        const char *
                owner; /* NULL: the index does not say whose it is, or not truly. So are the next two then not known */
        const char *environment;
        int64_t created_ms;
        uint64_t
                bytes; /* the room that it has taken up since it was made; 0: a plain folder, which takes what its files do */
};

/*
 * A safe name in a path for an untrusted name: hexadecimal digits of the texts' SHA-256. In the
 * arena.
 */
const char *local_hash(const char *const *texts, size_t count, struct arena *arena);
/* The folder of one, of an owner by its hash. In the arena. */
const char *local_agent_folder(const char *workspaces, const char *stack, const char *agent, const char *hash,
                               struct arena *arena);
/* It becomes a part of a path, and may be anything that a client wrote. */
bool local_is_agent(const char *name);

/*
 * The stack's, by agent and hash, as the folders are there: whether a workspace is in them is for the caller to see. Those of an agent
 * whose folder cannot be read are left out, and the log says so.
 */
int local_agents_list(const char *workspaces, const char *stack, struct arena *arena,
                      struct local_agent_workspace **ret, size_t *ret_count, struct error *err) MUST_USE;
/* ERROR_NOT_FOUND where the index says nothing of it, or nothing true. */
int local_agent_read(const char *workspaces, const char *stack, const char *agent, const char *owner,
                     struct arena *arena, struct local_agent_workspace *ret, struct error *err) MUST_USE;
/* Unless it says that already. ret->hash does not matter. The folder is made where it is missing. */
int local_agent_write(const char *workspaces, const char *stack, const struct local_agent_workspace *row,
                      struct error *err) MUST_USE;
/* Of a workspace that is gone: the index's file and the folder, if nothing else is in it. */
int local_agent_forget(const char *workspaces, const char *stack, const char *agent, const char *hash,
                       struct error *err) MUST_USE;

/*
 * The names on a launcher's disk that were opened once and are other stacks', or this one's of another folder: in order, in the arena. A
 * hint: none where it cannot be read, or was written of this folder at another path.
 */
void local_others_read(const char *workspaces, const char *stack, struct arena *arena, const char ***ret,
                       size_t *ret_count);
/* Whole, in order. */
int local_others_write(const char *workspaces, const char *stack, const char *const *names, size_t count,
                       struct error *err) MUST_USE;

#endif
