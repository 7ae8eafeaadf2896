/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A state that many machines share, behind state.h: what is written goes into the log first and then into this machine's copy; what
 * is read is read from the copy. For the files of state.c alone.
 *
 * The holder of the lease writes to the log. Without it only what was seen, and texts, are written,
 * to the copy alone: a plan needs no lock and changes nothing that others see.
 */
#ifndef BERTH_STATE_SHARED_STATE_H
#define BERTH_STATE_SHARED_STATE_H

#include "base/clock.h"
#include "state/shared_cache.h"
#include "state/shared_lease.h"
#include "state/state.h"
#include "state/store.h"

struct shared;

/*
 * `store` is owned from now on, also where this fails. *ret_store is the copy's, borrowed; NULL
 * where there is no state yet and `mode` is STATE_READ. If it does not exist and the mode is
 * STATE_CREATE, the copy is of a new state, which is put into the store when the lease is first
 * taken. `aside`: the copy is this process's alone, and goes with it.
 */
int shared_open(struct object_store *store, const struct clock *clock, const char *who, enum state_mode mode,
                bool aside, struct shared **ret, struct store **ret_store, struct error *err) MUST_USE;
void shared_close(struct shared *shared); /* NULL is fine; gives the lease back */

struct object_store *shared_objects(const struct shared *shared);    /* borrowed */
const struct shared_cache *shared_copy(const struct shared *shared); /* borrowed */
bool shared_is_unmade(const struct shared *shared);                  /* it is not in the store yet */
const char *shared_cache_path(const struct shared *shared);
/* Reads what others have written meanwhile. */
int shared_catch_up(struct shared *shared, struct error *err) MUST_USE;
/* store_write(), as above. ERROR_LOCKED where the lease was lost: nothing is written then, and nothing will be. */
int shared_write(struct shared *shared, store_body *body, void *context, struct error *err) MUST_USE;

int shared_acquire(struct shared *shared, const char *lineage, const char *command, bool force,
                   struct error *err) MUST_USE;
/* ERROR_LOCKED where a lease that was taken is lost. */
int shared_check(struct shared *shared, struct error *err) MUST_USE;
void shared_release(struct shared *shared);
int shared_show(struct shared *shared, struct arena *arena, struct lease_holder **ret,
                struct error *err) MUST_USE;
int shared_break(struct shared *shared, const char *lineage, bool force, struct error *err) MUST_USE;
/* Fails where the store carries out writes whose condition does not hold. */
int shared_check_conditions(struct object_store *store, struct error *err) MUST_USE;
/* 1 where older versions of the objects are kept, 0 where not, -1 where that cannot be known. */
int shared_keeps_versions(struct shared *shared);

#endif
