/* SPDX-License-Identifier: Apache-2.0 */
/* Files of one workspace into another, or elsewhere in the same. Both were opened for one owner: that is all that lets files pass. */
#ifndef BERTH_SESSIONS_WORKSPACE_COPY_H
#define BERTH_SESSIONS_WORKSPACE_COPY_H

#include "sessions/workspace_sync.h"

#define WORKSPACE_COPY_PATHS_MAX 1000 /* that are named */

struct workspace_copying {
        const char *const *paths; /* files and folders; each by its last name below `to`, as cp(1) does */
        size_t count;
        const char *to;                 /* a folder, which is made; "" for the workspace itself */
        bool replace;                   /* what is there already; else it is a conflict */
        struct workspace_limits limits; /* of the target */
        const struct interrupt *interrupt;
};

/*
 * *ret->changed are the new files by their paths in the target; `conflict` those that were there already and are untouched; `skipped`
 * what no path can be there. A path that is not there is PROBLEM_NOT_FOUND, and more than the target may hold
 * PROBLEM_WORKSPACE_FULL, before anything was copied; whatever fails later leaves whole files behind.
 */
int workspace_copy(struct workspace *from, struct workspace *to, const struct workspace_copying *copying,
                   struct arena *arena, struct workspace_changes *ret, struct problem *problem) MUST_USE;

#endif
