/* SPDX-License-Identifier: Apache-2.0 */
#include "sessions/engine_workspaces.h"

#include "sessions/workspace_stage.h"

#include <stdint.h>
#include <stdio.h>
#include <sys/statvfs.h>

/* PLACE_INPUT_MAX, each byte of it escaped, and variables. */
#define REQUEST_MAX ((size_t)128 << 20)

static const struct workspaces *where(void *context) {
        return ((const struct engine_folders *)context)->workspaces;
}

static int check_free(const char *path, uint64_t least, const char *what, struct problem *problem) {
        struct statvfs disk;

        if (!path || statvfs(path, &disk) < 0 || (uint64_t)disk.f_bavail * disk.f_frsize >= least)
                return 0;
        return problem_set(problem, PROBLEM_WORKSPACE_FULL,
                           "the disk of the %s has less free than must stay free", what);
}

static int check_disk(const struct engine_folders *folders, struct problem *problem) {
        uint64_t least = folders->bounds->free_min;

        if (least == 0)
                return 0;
        return check_free(folders->workspaces->folder, least, "workspaces", problem) < 0 ||
                               check_free(folders->records, least, "sessions' records", problem) < 0
                       ? -1
                       : 0;
}

static int check_room(void *context, const char *owner, const char *id, struct problem *problem) {
        (void)owner;
        (void)id;
        return check_disk(context, problem);
}

static int set_history(void *context, const char *owner, const char *id, uint64_t bytes,
                       struct problem *problem) {
        struct workspace workspace WORKSPACE_CLEANUP = WORKSPACE_INIT;

        if (workspace_open(where(context), owner, id, &workspace, problem) < 0)
                return -1;
        return workspace_set_history(&workspace, bytes, problem);
}

static int make_workspace(void *context, const char *owner, const char *id, const char *environment,
                          const char *agent, int64_t created_ms, int64_t lives_until_ms,
                          struct problem *problem) {
        const struct engine_folders *folders = context;
        const struct workspace_row row = {
                .id = id,
                .owner = owner,
                .environment = environment,
                .agent = agent,
                .created_ms = created_ms,
                .lives_until_ms = lives_until_ms,
        };

        if (check_disk(folders, problem) < 0 ||
            workspace_check_room(folders->workspaces, owner, folders->bounds, problem) < 0)
                return -1;
        return workspace_create(folders->workspaces, &row, problem);
}

static int remove_workspace(void *context, const char *owner, const char *id, struct problem *problem) {
        return workspace_remove(where(context), owner, id, problem);
}

static int set_life(void *context, const char *owner, const char *id, int64_t lives_until_ms,
                    struct problem *problem) {
        struct workspace workspace WORKSPACE_CLEANUP = WORKSPACE_INIT;

        if (workspace_open(where(context), owner, id, &workspace, problem) < 0)
                return -1;
        return workspace_set_life(&workspace, lives_until_ms, problem);
}

static const char *path_of(void *context, const char *id, struct arena *arena) {
        return arena_printf(arena, "%s/sessions/%s/workspace", where(context)->folder, id);
}

static void drop_staged(void *context, const char *owner, const char *id, const char *staged) {
        struct workspace workspace WORKSPACE_CLEANUP = WORKSPACE_INIT;
        struct problem ignored;

        if (workspace_open(where(context), owner, id, &workspace, &ignored) == 0)
                workspace_stage_drop(&workspace, staged);
}

static void keep_staged(void *context, const char *owner, const char *id, const char *const *names,
                        size_t count) {
        struct workspace workspace WORKSPACE_CLEANUP = WORKSPACE_INIT;
        struct problem ignored;

        if (workspace_open(where(context), owner, id, &workspace, &ignored) == 0)
                workspace_stage_keep(&workspace, names, count);
}

static int stage_request(void *context, const char *owner, const char *id, const char *bytes, size_t length,
                         struct arena *arena, const char **staged, struct problem *problem) {
        struct workspace workspace WORKSPACE_CLEANUP = WORKSPACE_INIT;
        char name[WORKSPACE_STAGE_NAME] = "";

        if (*staged)
                snprintf(name, sizeof(name), "%s", *staged);
        if (workspace_open(where(context), owner, id, &workspace, problem) < 0 ||
            workspace_stage_request(&workspace, bytes, length, name, problem) < 0)
                return -1;
        *staged = arena_strdup(arena, name);
        return 0;
}

static int staged_request(void *context, const char *owner, const char *id, const char *staged,
                          struct strbuf *ret) {
        struct workspace workspace WORKSPACE_CLEANUP = WORKSPACE_INIT;
        struct problem ignored;

        return workspace_open(where(context), owner, id, &workspace, &ignored) == 0
                       ? workspace_stage_read_request(&workspace, staged, REQUEST_MAX, ret)
                       : -1;
}

struct engine_workspaces engine_workspaces_of(const struct engine_folders *folders) {
        return (struct engine_workspaces){
                .context = (void *)(uintptr_t)folders,
                .check_room = check_room,
                .set_history = set_history,
                .make = make_workspace,
                .remove = remove_workspace,
                .set_life = set_life,
                .path = path_of,
                .drop_staged = drop_staged,
                .keep_staged = keep_staged,
                .stage_request = stage_request,
                .staged_request = staged_request,
        };
}
