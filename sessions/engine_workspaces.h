/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's workspaces on this machine: those of workspace.h. */
#ifndef BERTH_SESSIONS_ENGINE_WORKSPACES_H
#define BERTH_SESSIONS_ENGINE_WORKSPACES_H

#include "sessions/engine.h"
#include "sessions/workspace_owner.h"

/* Where they are, and what they may hold. `records`: the folder of the sessions' records, on whose disk as much must stay free; or NULL. */
struct engine_folders {
        const struct workspaces *workspaces;
        const struct workspace_bounds *bounds;
        const char *records;
};

/* All is borrowed, and outlives the engine. A place gets the folder of the files: {workspaces}/sessions/ID/workspace. */
struct engine_workspaces engine_workspaces_of(const struct engine_folders *folders);

#endif
