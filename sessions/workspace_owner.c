/* SPDX-License-Identifier: Apache-2.0 */
#include "sessions/workspace_owner.h"

#include "sessions/workspace_body.h"

static int measure_others(const struct workspaces *workspaces, const char *owner, const char *id,
                          const struct interrupt *interrupt, uint64_t *ret, struct problem *problem) {
        return workspace_body_of(workspaces)->measure_others(workspaces, owner, id, interrupt, ret, problem);
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
