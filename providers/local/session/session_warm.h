/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sandboxes that are started ahead of requests, with Python running and modules imported: the next
 * session of their environment is given one instead of waiting for its own. A thread of the place's
 * keeps the configured number of each environment ready.
 *
 * Each is given away once, under a lock, and never comes back: no second session, nor a second owner, has it. Nothing of any owner
 * is in it before that: it knows no session, its workspace is empty, and its host user is its own.
 *
 * It is started as environments were applied last; where that changes, those of before are ended. One dies by itself soon after a
 * server that dies, since it lives from one renewal to the next; what the server before left is cleared away at the beginning.
 */
#ifndef BERTH_PROVIDERS_LOCAL_SESSION_SESSION_WARM_H
#define BERTH_PROVIDERS_LOCAL_SESSION_SESSION_WARM_H

#include "providers/local/session/session.h"
#include "providers/local/session/session_parts.h"

/* Everything is copied. NULL where nothing is wished for. */
int session_warm_new(struct session_place *place, const struct session_place_config *config,
                     struct session_warm **ret, struct error *err) MUST_USE;
/*
 * A live one that equals what the opening would start now; the caller's. NULL if absent. Any
 * thread's; `warm` may be NULL.
 */
struct place_session *session_warm_take(struct session_warm *warm, const struct place_opening *opening);
/* Ends all that were not taken. NULL is fine. */
void session_warm_free(struct session_warm *warm);

#endif
