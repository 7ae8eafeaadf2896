/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A shared state as it once was, read from its log, and made the present again:
 *
 *     state_lease_acquire -> state_past_read -> (a person is asked) -> state_past_restore
 *
 * It brings back what plans are made from: records, bindings, overrides. The history, the texts of
 * the state and its serial go on. The resources themselves are not touched: what differs now is
 * what the next plan shows.
 */
#ifndef BERTH_STATE_STATE_PAST_H
#define BERTH_STATE_STATE_PAST_H

#include "state/shared_form.h"
#include "state/state.h"

struct state_past {
        uint64_t serial;
        /* Resources: that come back, that are forgotten, that were recorded otherwise. */
        size_t back, forgotten, changed;
        const struct shared_change *changes; /* that make the present into it, in the arena */
        size_t count;                        /* 0: nothing differs */
};

/*
 * Reads the log, from the newest snapshot before it, up to the last commit that left `serial` behind. ERROR_NOT_FOUND where none did,
 * with the nearest ones, and where it is older than what is kept. Fails where the state lies in a folder, which has no past; ERROR_REFUSED where a run has not ended, now or then.
 */
int state_past_read(struct state *state, uint64_t serial, struct arena *arena, struct state_past *ret,
                    struct error *err) MUST_USE;

/* All or nothing, with the history's entry, which gets the state's next serial. The lease is held since before the reading. */
int state_past_restore(struct state *state, const struct state_past *past, struct history_entry *entry,
                       struct error *err) MUST_USE;

#endif
