/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A state that goes to another place: from a folder to objects that machines share, back, or to others of either kind. Both places
 * have the same lineage, and each says of itself by a mark in its `meta` whether the state lives there:
 *
 *     no mark                 it lives here
 *     MOVE_GONE, place        it has gone there; nothing is written here any more
 *     MOVE_ARRIVING, place    it is on its way here from there, and does not live here yet
 *     MOVE_GIVEN_UP, place    it was on its way here, and went back
 *
 * The steps of a move, each of them one commit that says which mark it must find, with both leases held:
 *
 *     source                        target
 *     no mark                       state_move_make_*() or state_move_note(): MOVE_ARRIVING, id
 *     MOVE_GONE, id                 MOVE_ARRIVING, id
 *     MOVE_GONE, id                 state_move_arrive(): what the source has, and no mark
 *
 * and of giving it up from the second line on:
 *
 *     MOVE_GONE, id                 MOVE_GIVEN_UP, id
 *     no mark                       MOVE_GIVEN_UP, id
 *
 * So at most one place is without a mark, whichever process was killed where, slept for how long,
 * or undoes what another one does; what both say tells how to go on; and whatever the source has is
 * there until the target has all of it.
 */
#ifndef BERTH_STATE_STATE_MOVE_H
#define BERTH_STATE_STATE_MOVE_H

#include "base/clock.h"
#include "base/object_store.h"
#include "state/state.h"

#define MOVE_ID_SIZE 33 /* 16 random bytes in hex, with the NUL */

enum move_stage { MOVE_NONE, MOVE_GONE, MOVE_ARRIVING, MOVE_GIVEN_UP };

struct state_move {
        enum move_stage stage;
        char id[MOVE_ID_SIZE]; /* of this one move: the same in both places; "" for MOVE_NONE */
        const char *place;     /* the other one: "s3://BUCKET/PREFIX", or a folder's whole path */
        const char *host;      /* whose folder; NULL where it is no folder */
        const char *who;       /* "anna@ci-7" */
        int64_t at_ms;         /* wall time of its writer */
};

/* A new id, everything else as given; texts are borrowed. */
struct state_move state_move_new(enum move_stage stage, const char *place, const char *who, int64_t at_ms);
/* What the place says of itself: MOVE_NONE where the state lives there. Texts in the arena. */
int state_move_load(struct state *state, struct arena *arena, struct state_move *ret,
                    struct error *err) MUST_USE;

/* The error for a caller that wants the state where it does not live. Returns -1. */
int state_move_fail(const struct state *state, const struct state_move *move, struct error *err);

/* state_lease_acquire(), also where the state lives elsewhere; from then on state_new_run() works there, too. */
int state_move_begin(struct state *state, const char *command, struct error *err) MUST_USE;

/*
 * Replaces the mark `from` by `to`, with the history's entry (NULL: none). Fails where another mark is found: stage and id count.
 */
int state_move_note(struct state *state, const struct state_move *from, const struct state_move *to,
                    const struct history_entry *entry, struct error *err) MUST_USE;

/*
 * Makes the target what the source is now, in one commit, where it is marked MOVE_ARRIVING with that id; no mark is left. The
 * source is no more written to.
 */
int state_move_arrive(struct state *target, struct state *source, const char *id, struct error *err) MUST_USE;

/*
 * Makes the state's place if absent, with all that the source has and the mark. ERROR_LOCKED if
 * another process has made one there meanwhile.
 */
int state_move_make_folder(struct state *source, const char *folder, const struct state_move *move,
                           struct error *err) MUST_USE;
/* The same of objects; `store` stays the caller's. */
int state_move_make_shared(struct state *source, struct object_store *store, const struct clock *clock,
                           const struct state_move *move, struct error *err) MUST_USE;

#endif
