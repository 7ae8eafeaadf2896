/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether all below a folder is as it was at an earlier look, told without reading a folder and without waiting for anything: neither
 * for a disk nor for a lock that a stranger holds. So it may be asked where others wait; who is told no looks thoroughly, elsewhere.
 *
 *      struct workspace_still_look look;
 *      workspace_still_look(folder, &look);            before the tree is read
 *      workspace_tree_read(folder, ..., &tree, err);
 *      still = workspace_still_new(&look, &tree);      and from then on:
 *      if (workspace_still_holds(still, folder)) ...
 */
#ifndef BERTH_SESSIONS_WORKSPACE_STILL_H
#define BERTH_SESSIONS_WORKSPACE_STILL_H

#include "sessions/workspace_tree.h"

/* More than these are not worth it: each costs a few calls each time. */
#define WORKSPACE_STILL_MAX 48

struct workspace_still;

struct workspace_still_look {
        struct stat status; /* of the folder */
        int64_t at_ns;      /* by the clock of files; 0: it could not be looked at */
};

void workspace_still_look(int folder, struct workspace_still_look *ret);

/*
 * NULL where it cannot be told this way: there are too many files, or some that are not looked at, or something changed so shortly
 * before the look that a change after it might have the same time. The caller's, with workspace_still_free().
 */
struct workspace_still *workspace_still_new(const struct workspace_still_look *look,
                                            const struct workspace_tree *tree);

/* False also where it cannot be told now. */
bool workspace_still_holds(const struct workspace_still *still, int folder);

void workspace_still_free(struct workspace_still *still);

#endif
