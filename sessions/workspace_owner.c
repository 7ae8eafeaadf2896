/* SPDX-License-Identifier: Apache-2.0 */
#include "sessions/workspace_owner.h"

#include "sessions/workspace_body.h"

#include <string.h>

/* Those that agents have, but for the one of that id. What takes up its room from the beginning is not opened. */
static int measure_shared(const struct workspaces *workspaces, const char *owner, const char *id,
                          const struct interrupt *interrupt, uint64_t *ret, struct problem *problem) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct workspace_row *rows;
        size_t count;
        uint64_t total = 0;

        if (workspace_list_shared(workspaces, owner, arena, &rows, &count, problem) < 0)
                return -1;
        for (size_t i = 0; i < count; i++) {
                struct workspace workspace WORKSPACE_CLEANUP = WORKSPACE_INIT;
                struct workspace_usage usage = { .bytes = rows[i].bytes };

                if (strcmp(rows[i].id, id) == 0)
                        continue;
                if (rows[i].bytes == 0 &&
                    (workspace_open(workspaces, owner, rows[i].id, &workspace, problem) < 0 ||
                     workspace_measure(&workspace, interrupt, &usage, problem) < 0)) {
                        if (problem->code != PROBLEM_NOT_FOUND)
                                return -1;
                        continue; /* removed meanwhile */
                }
                total += usage.bytes;
        }
        *ret = total;
        return 0;
}

static int measure_others(const struct workspaces *workspaces, const char *owner, const char *id,
                          const struct interrupt *interrupt, uint64_t *ret, struct problem *problem) {
        uint64_t own, shared;

        if (workspace_body_of(workspaces)->measure_others(workspaces, owner, id, interrupt, &own, problem) <
                    0 ||
            measure_shared(workspaces, owner, id, interrupt, &shared, problem) < 0)
                return -1;
        *ret = own + shared;
        return 0;
}

int workspace_check_room(const struct workspaces *workspaces, const char *owner,
                         const struct workspace_bounds *bounds, struct problem *problem) {
        return workspace_check_more(workspaces, owner, bounds, 1, problem);
}

int workspace_check_more(const struct workspaces *workspaces, const char *owner,
                         const struct workspace_bounds *bounds, uint64_t more, struct problem *problem) {
        struct workspace_limits limits = { .owner_max = bounds->owner_max };
        uint64_t total;

        if (!bounds->owner_max)
                return 0;
        if (measure_others(workspaces, owner, "", NULL, &total, problem) < 0)
                return -1;
        return total < bounds->owner_max && more <= bounds->owner_max - total
                       ? 0
                       : workspace_is_full(&limits, total, problem);
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
