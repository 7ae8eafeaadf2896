/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The objects of a shared state, read from the oldest that is kept to the newest, as no ordinary
 * use does: each digest, the chain of all entries, and whether every snapshot is what the entries
 * before it make.
 */
#ifndef BERTH_STATE_SHARED_VERIFY_H
#define BERTH_STATE_SHARED_VERIFY_H

#include "state/shared_cache.h"

typedef void shared_problem(void *context, const char *text);

/*
 * Tells each problem; -1 where the root or the index cannot be read, and (ERROR_LOCKED) where there were some and another run has
 * changed meanwhile what is kept. `copy` is compared too where it stands at the log's end. What a
 * plan has merely seen, and texts, may differ: they are kept without a commit.
 */
int shared_verify(struct object_store *store, const struct shared_cache *copy, shared_problem *tell,
                  void *context, struct error *err) MUST_USE;

#endif
