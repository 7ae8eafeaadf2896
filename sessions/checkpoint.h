/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints: the memory of a session's kernels as files beside its workspace, never in it.
 *
 *     {workspaces}/sessions/ID/parking             one that is being taken
 *     {workspaces}/sessions/ID/parked              the empty file that a worker has for the one that it takes with nobody there
 *     {workspaces}/sessions/ID/checkpoint-DIGEST   whole ones, named by the first half of their SHA-256: the session's record has all
 *                                                  of it. At most two: the last one, and the one before it until the next is taken
 *
 * They came out of a sandbox. Nothing here looks into them: they are held against their digest, and nothing else.
 */
#ifndef BERTH_SESSIONS_CHECKPOINT_H
#define BERTH_SESSIONS_CHECKPOINT_H

#include "base/interrupt.h"
#include "sessions/place.h"
#include "sessions/workspace.h"

#define CHECKPOINT_PARKING "parking"
#define CHECKPOINT_PARKED "parked"

/* An empty file of one of the two names, for reading and writing; what had the name before has none any more. */
int checkpoint_make(const struct workspace *workspace, const char *name, int *ret_descriptor,
                    struct problem *problem) MUST_USE;
/*
 * Gives the file of that name, which is open and on the disk already, its own: the digest's. All others but `other`, which may be
 * NULL, are removed. PROBLEM_NOT_FOUND where the session has ended.
 */
int checkpoint_keep(struct workspace *workspace, const char *name, int descriptor,
                    const struct place_checkpoint *other, const struct interrupt *interrupt,
                    struct place_checkpoint *ret, struct problem *problem) MUST_USE;
/* Opens it for reading where it is there and has its digest; it stands at its beginning. The rest is removed. */
int checkpoint_open(const struct workspace *workspace, const struct place_checkpoint *checkpoint,
                    const struct interrupt *interrupt, int *ret_descriptor, struct problem *problem) MUST_USE;
/* The file of that name as it is; -1 where there is none. */
int checkpoint_open_name(const struct workspace *workspace, const char *name);

/* Of a folder of a session: all are removed, but for the digests (NULL: none). */
void checkpoint_remove(int folder, const char *one, const char *other);
/* What they take on the disk: for who counts what an owner stores. */
uint64_t checkpoint_measure(const struct workspace *workspace);

#endif
