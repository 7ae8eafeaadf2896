/* SPDX-License-Identifier: Apache-2.0 */
#include "sessions/engine_workspaces.h"

#include "sessions/workspace_stage.h"

#include <stdint.h>

static int make_workspace(void *context, const char *owner, const char *id, const char *environment,
                          const char *agent, int64_t created_ms, int64_t lives_until_ms,
                          struct problem *problem) {
        const struct workspace_row row = {
                .id = id,
                .owner = owner,
                .environment = environment,
                .agent = agent,
                .created_ms = created_ms,
                .lives_until_ms = lives_until_ms,
        };

        return workspace_create(context, &row, problem);
}

static int set_life(void *context, const char *owner, const char *id, int64_t lives_until_ms,
                    struct problem *problem) {
        struct workspace workspace WORKSPACE_CLEANUP = WORKSPACE_INIT;

        if (workspace_open(context, owner, id, &workspace, problem) < 0)
                return -1;
        return workspace_set_life(&workspace, lives_until_ms, problem);
}

static const char *path_of(void *context, const char *id, struct arena *arena) {
        const struct workspaces *workspaces = context;

        return arena_printf(arena, "%s/sessions/%s/workspace", workspaces->folder, id);
}

static void drop_staged(void *context, const char *owner, const char *id, const char *staged) {
        struct workspace workspace WORKSPACE_CLEANUP = WORKSPACE_INIT;
        struct problem ignored;

        if (workspace_open(context, owner, id, &workspace, &ignored) == 0)
                workspace_stage_drop(&workspace, staged);
}

struct engine_workspaces engine_workspaces_of(const struct workspaces *workspaces) {
        return (struct engine_workspaces){
                .context = (void *)(uintptr_t)workspaces,
                .make = make_workspace,
                .set_life = set_life,
                .path = path_of,
                .drop_staged = drop_staged,
        };
}
