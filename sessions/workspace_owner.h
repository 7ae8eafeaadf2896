/* SPDX-License-Identifier: Apache-2.0 */
/* What one owner's workspaces may hold together, and what must stay free on their disk. */
#ifndef BERTH_SESSIONS_WORKSPACE_OWNER_H
#define BERTH_SESSIONS_WORKSPACE_OWNER_H

#include "sessions/workspace.h"

/* 0: no bound. */
struct workspace_bounds {
        uint64_t owner_max; /* bytes */
        uint64_t free_min;
};

/* PROBLEM_WORKSPACE_FULL where the owner's hold as much as they may, files, checkpoints and history: no other one is made for him then. */
int workspace_check_room(const struct workspaces *workspaces, const char *owner,
                         const struct workspace_bounds *bounds, struct problem *problem) MUST_USE;

/* PROBLEM_WORKSPACE_FULL where they would hold more than they may with so many bytes more. */
int workspace_check_more(const struct workspaces *workspaces, const char *owner,
                         const struct workspace_bounds *bounds, uint64_t more,
                         struct problem *problem) MUST_USE;

/*
 * Narrows what this one may hold by what the owner's others hold now, and by the memory of all of his that are parked. Two that grow at the same time may pass the bound
 * by what they add until they are counted. Each workspace that was never counted in this boot of the machine is counted here.
 */
int workspace_bound(const struct workspaces *workspaces, const char *owner, const char *id,
                    const struct workspace_bounds *bounds, const struct interrupt *interrupt,
                    struct workspace_limits *limits, struct problem *problem) MUST_USE;

#endif
