/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A workspace and the copy of it that a session's code works in, brought to agree again.
 *
 *      load base -> tree of the copy -> workspace_incoming -> put into the copy -> tree of the copy -> workspace_settle -> save
 *      (code runs)
 *      tree of the copy -> workspace_outgoing -> save
 *
 * The base says of each path how both looked when they last agreed: inode, size, times. Against it each side's changes are known
 * without reading a content; one that was only touched since has a digest to be told by:
 *
 *      changed in       the copy        the workspace      both
 *      what happens     to the          to the copy,       the copy's version stays, also where it is none,
 *                       workspace       by the next        and the path is a conflict
 *                                       incoming
 *
 * The copy is hostile: its tree and the bytes of its files are whatever its code likes, and may change meanwhile. What is
 * brought out is bounded by the workspace's limits. Where a part of the copy cannot be read, nothing below it counts as
 * deleted.
 */
#ifndef BERTH_SESSIONS_WORKSPACE_SYNC_H
#define BERTH_SESSIONS_WORKSPACE_SYNC_H

#include "base/digest.h"
#include "sessions/workspace.h"
#include "sessions/workspace_tree.h"

/* One path on which both agreed. */
struct workspace_agreed {
        struct workspace_entry copy, kept; /* of one path */
        char sha256[SHA256_HEX_SIZE];      /* of both contents; "": not known */
};

struct workspace_base {
        struct workspace_agreed *items; /* sorted by path */
        size_t count;
};

/*
 * The base as it was saved. It is empty if no base was saved since this machine's boot: then contents are compared, and a file that was
 * removed on one side comes back. -1 with errno if it cannot be opened.
 */
int workspace_base_load(const struct workspace *workspace, struct arena *arena,
                        struct workspace_base *ret) MUST_USE;
int workspace_base_save(const struct workspace *workspace, const struct workspace_base *base,
                        struct problem *problem) MUST_USE;

/* The copy. */
struct workspace_source {
        const struct workspace_tree *tree;
        /* A regular file, opened for reading: workspace_open_regular(). -1 with errno. */
        int (*open)(void *context, const char *path);
        void *context;
};
/* The `open` of a copy whose folder is at hand: `context` points to its descriptor. */
int workspace_source_open(void *context, const char *path);

struct workspace_changed {
        const char *path;
        uint64_t bytes;
        const char *sha256;
};

/* Files alone, sorted by path; all in the arena. */
struct workspace_changes {
        struct workspace_changed *changed;
        size_t changed_count;
        const char **deleted;
        size_t deleted_count;
        const char **conflict; /* of those above: was changed from outside too */
        size_t conflict_count;
        struct workspace_skipped *skipped;
        size_t skipped_count;
};

/*
 * Brings what was changed in the copy into the workspace, and makes it last. *base is what they agree on afterwards, in the arena;
 * also where it fails, as far as it came: it is to be saved then too. What one file cannot do (a quota, a folder in its place)
 * is said in `skipped`, and the others are brought.
 */
int workspace_outgoing(struct workspace *workspace, const struct workspace_source *source,
                       const struct workspace_limits *limits, const struct interrupt *interrupt,
                       struct arena *arena, struct workspace_base *base, struct workspace_changes *ret,
                       struct problem *problem) MUST_USE;

/* What was changed from outside, and is to be made so in the copy: removals first and backwards, then folders before what is in them. */
struct workspace_arrival {
        struct workspace_entry entry; /* as it is in the workspace; of a removal, its path */
        bool removed;                 /* a folder only where it is empty */
};
int workspace_incoming(struct workspace *workspace, const struct workspace_base *base,
                       const struct workspace_tree *copy, const struct interrupt *interrupt,
                       struct arena *arena, struct workspace_arrival **ret, size_t *ret_count,
                       struct problem *problem) MUST_USE;
/* That was done; `copy` is its tree now. What of it is not in the tree is taken for not done. */
void workspace_settle(const struct workspace_arrival *arrivals, size_t count,
                      const struct workspace_tree *copy, struct arena *arena, struct workspace_base *base);

#endif
