/* SPDX-License-Identifier: Apache-2.0 */
#include "sessions/workspace_owner.h"

#include "sessions/checkpoint.h"

#include <string.h>

#define PAGE 1000

/* One that goes meanwhile holds nothing. The memory of a parked session and its history are its owner's, too; files are left out where it says so. */
static int add_usage(const struct workspaces *workspaces, const struct workspace_row *row, bool with_files,
                     const struct interrupt *interrupt, uint64_t *total, struct problem *problem) {
        struct workspace workspace WORKSPACE_CLEANUP = WORKSPACE_INIT;
        struct workspace_usage usage = { 0 };
        struct problem own;

        if (workspace_open(workspaces, row->owner, row->id, &workspace, &own) == 0 &&
            (!with_files || workspace_measure(&workspace, interrupt, &usage, &own) == 0)) {
                usage.bytes += checkpoint_measure(&workspace) + workspace_history(&workspace);
                if (__builtin_add_overflow(*total, usage.bytes, total))
                        *total = UINT64_MAX;
                return 0;
        }
        if (own.code == PROBLEM_NOT_FOUND)
                return 0;
        *problem = own;
        return -1;
}

static int measure_others(const struct workspaces *workspaces, const char *owner, const char *id,
                          const struct interrupt *interrupt, uint64_t *ret, struct problem *problem) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *after = "";
        uint64_t total = 0;
        bool more = true;

        while (more) {
                struct workspace_row *rows;
                size_t count;

                if (workspace_list(workspaces, owner, after, PAGE, arena, &rows, &count, &more, problem) < 0)
                        return -1;
                for (size_t i = 0; i < count; i++) {
                        after = rows[i].id;
                        if (add_usage(workspaces, &rows[i], strcmp(rows[i].id, id) != 0, interrupt, &total,
                                      problem) < 0)
                                return -1;
                }
        }
        *ret = total;
        return 0;
}

int workspace_check_room(const struct workspaces *workspaces, const char *owner,
                         const struct workspace_bounds *bounds, struct problem *problem) {
        struct workspace_limits limits = { .owner_max = bounds->owner_max };
        uint64_t total;

        if (!bounds->owner_max)
                return 0;
        if (measure_others(workspaces, owner, "", NULL, &total, problem) < 0)
                return -1;
        return total < bounds->owner_max ? 0 : workspace_is_full(&limits, total, problem);
}

int workspace_bound(const struct workspaces *workspaces, const char *owner, const char *id,
                    const struct workspace_bounds *bounds, const struct interrupt *interrupt,
                    struct workspace_limits *limits, struct problem *problem) {
        uint64_t others, room;

        limits->free_min = bounds->free_min;
        if (!bounds->owner_max)
                return 0;
        if (measure_others(workspaces, owner, id, interrupt, &others, problem) < 0)
                return -1;
        room = others < bounds->owner_max ? bounds->owner_max - others : 0;
        if (limits->bytes_max && limits->bytes_max <= room)
                return 0;
        limits->owner_max = bounds->owner_max;
        limits->bytes_max = room > 0 ? room : 1; /* 0 would be no bound */
        return 0;
}
