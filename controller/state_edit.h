/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state changed by hand: forgetting a resource, recording it under another address, or going
 * back to what the state was. Nothing is done to the resources themselves. These functions find
 * what to commit; the caller holds the lease, asks, and commits it.
 */
#ifndef BERTH_CONTROLLER_STATE_EDIT_H
#define BERTH_CONTROLLER_STATE_EDIT_H

#include "base/arena.h"
#include "base/error.h"
#include "state/state.h"
#include "state/state_past.h"

#define EDIT_OPS_MAX 8

struct state_edit {
        const char *id; /* what the resource is called at its provider, or NULL */
        struct state_op ops[EDIT_OPS_MAX];
        size_t count;
};

/*
 * ERROR_NOT_FOUND (with the nearest address) where the state has no such resource; ERROR_REFUSED where it is an
 * environment that recorded agents or swarms use: they would be bound to nothing that the state knows.
 */
int state_edit_forget(struct state *state, const char *address, struct arena *arena, struct state_edit *ret,
                      struct error *err) MUST_USE;

/*
 * Only for kinds whose resource is called by something else than the manifest's name: for the
 * others a moved record would lead the next apply to make a second resource under the new name and
 * to leave the first one without an owner.
 */
int state_edit_move(struct state *state, const char *from, const char *to, struct arena *arena,
                    struct state_edit *ret, struct error *err) MUST_USE;

/* Adds the history's entry to the edit, with a run number of its own, and commits all of it at once. */
int state_edit_commit(struct state *state, struct state_edit *edit, const char *command, const char *address,
                      int64_t wall_ms, struct arena *arena, struct error *err) MUST_USE;

/* state_past_restore(), with the history's entry. */
int state_edit_restore(struct state *state, const struct state_past *past, int64_t wall_ms,
                       struct arena *arena, struct error *err) MUST_USE;

/* -1 with ERROR_NOT_FOUND, which names the nearest of the state's addresses. */
int state_edit_not_found(const struct record *records, size_t count, const char *address, struct arena *arena,
                         struct error *err);

#endif
