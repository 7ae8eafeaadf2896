/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the workspaces of sessions lie in the stack's bucket. Pure.
 *
 *     workspaces/sessions/ID/workspace/PATH   a file; what WorkspacePolicies expire
 *     workspaces/sessions/ID/transfer/N/...   what goes in and out of one execution, and its checkpoint
 *     workspaces/sessions/ID/transfer/staged-NAME/...  files that came with an execution, until it begins
 *     workspaces/index/ID                     whose it is and which files it has: workspace_index.h
 *     workspaces/owners/HASH/ID/...           an empty object for each workspace of an owner, and one more for what has changed since it
 *                                             was made: what a list of them tells is in their keys
 *     workspaces/removed/ID                   a workspace that is being removed: its stack and its owner
 *
 * The first three have the tag that lifecycle rules of one environment go by. The index has none, and lies beside what rules of all
 * environments expire: a workspace whose files have expired is empty, and still its owner's.
 */
#ifndef BERTH_PROVIDERS_AWS_WORKSPACE_LAYOUT_H
#define BERTH_PROVIDERS_AWS_WORKSPACE_LAYOUT_H

#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>

/* All in the arena. Ids were checked (letters, digits, "-", "_"), and paths too (workspace_path_problem()). */
const char *layout_files(const char *id,
                         struct arena *arena); /* ".../ID/workspace/": what keys of files begin with */
const char *layout_file(const char *id, const char *path, struct arena *arena);
const char *layout_transfers(const char *id, struct arena *arena);           /* ".../ID/transfer/" */
const char *layout_transfer(const char *id, int64_t n, struct arena *arena); /* ".../ID/transfer/N/" */
const char *layout_checkpoint(const char *id, int64_t n,
                              struct arena *arena);                 /* ".../ID/transfer/N/checkpoint" */
const char *layout_all_staged(const char *id, struct arena *arena); /* ".../ID/transfer/staged-" */
const char *layout_staged(const char *id, const char *name, struct arena *arena); /* ".../staged-NAME/" */
const char *layout_session(const char *id, struct arena *arena); /* ".../ID/": what all of these begin with */
const char *layout_index(const char *id, struct arena *arena);
#define LAYOUT_INDEXES "workspaces/index/"
const char *layout_removed(const char *id, struct arena *arena);
#define LAYOUT_REMOVED "workspaces/removed/"

/* What a list tells of a workspace. */
struct layout_row {
        const char *id, *environment;
        const char *agent; /* NULL: none */
        int64_t created_ms;
        bool first; /* the one that is there all the time: as the workspace was made. `megabytes` is 0 */
        uint64_t megabytes; /* of its files, rounded up: what an owner's bound goes by */
        int64_t lives_until_ms;
};
/* What the keys of all of this owner's begin with: "workspaces/owners/HASH/", of stack and owner. */
const char *layout_owner(const char *stack, const char *owner, struct arena *arena);
const char *layout_row_key(const char *stack, const char *owner, const struct layout_row *row,
                           struct arena *arena);
/* From a key below `owner`; false where it makes no sense. *ret is in the arena. */
bool layout_row_read(const char *owner, const char *key, struct arena *arena, struct layout_row *ret);

/* The tag of an environment's objects, as PutObject's header x-amz-tagging takes it, and as a POST policy does (XML). */
const char *layout_tag_header(const char *environment, struct arena *arena);
const char *layout_tag_xml(const char *environment, struct arena *arena);

#endif
