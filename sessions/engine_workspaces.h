/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's workspaces on this machine: those of workspace.h. */
#ifndef BERTH_SESSIONS_ENGINE_WORKSPACES_H
#define BERTH_SESSIONS_ENGINE_WORKSPACES_H

#include "sessions/engine.h"
#include "sessions/workspace.h"

/* `workspaces` is borrowed, and outlives the engine. A place gets the folder of the files: {workspaces}/sessions/ID/workspace. */
struct engine_workspaces engine_workspaces_of(const struct workspaces *workspaces);

#endif
