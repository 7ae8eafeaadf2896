/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions in a store that servers share. The record decides everything: whoever writes it says which version he has read, and who was
 * slower looks again. A session of which nothing is open is anybody's: the next write makes it his. What is open has a holder
 * (record_session.holder), and is his alone as long as he lives (servers.h); others change its record for him to see, and leave word.
 */
#ifndef BERTH_SESSIONS_SESSION_FAR_H
#define BERTH_SESSIONS_SESSION_FAR_H

#include "sessions/engine_parts.h"

/*
 * 1: the record of the living session of that owner and id that the caller may use, to be disposed of; 0: there is none. By one read,
 * during which the lock is released.
 */
int session_far_find(struct engine *engine, const struct engine_caller *caller, const char *owner,
                     const char *id, struct record_session *ret, struct problem *problem) MUST_USE;
bool session_far_lives(const struct engine *engine, const struct engine_caller *caller,
                       const struct record_session *record);
/* As session_json(), by the record alone. */
json_t *session_far_json(struct engine *engine, const struct record_session *record);

/*
 * 1: it is in memory now, as its record is; 0: there is none, which the problem says. `owner` may be NULL: whosever it is. Releases the
 * lock.
 */
int session_far_load(struct engine *engine, const char *owner, const char *id,
                     struct problem *problem) MUST_USE;

/* The rest with the session's turn. */

/* This server sees to what is open of it. */
bool session_far_holds(const struct engine *engine, const struct session *session);
bool session_far_needs_look(const struct session *session, enum session_look look);
/*
 * Makes of it what the record says: it may be over then, or be another server's. What nobody sees to any more this one takes over. -1: that
 * cannot be said now.
 */
int session_far_look(struct engine *engine, struct session *session, struct problem *problem) MUST_USE;
/* After a write that was refused: true where this server holds it still, and the record may be written once more. */
bool session_far_merge(struct engine *engine, struct session *session);
/* For the holder of one that is far: what is written with its record. In the arena. */
struct session_change session_far_word(const struct session *session, struct arena *arena);
/* What others have asked for: of one that this server holds. */
void session_far_heed(struct engine *engine, struct session *session);

/* --- engine_list.c, without any turn --- */

/* As the store has it. */
struct engine_listed {
        struct session session; /* far, and in no list */
};
/* In the order in which they were made; `owner` NULL: everybody's. Releases the lock. */
int engine_list_stored(struct engine *engine, const char *owner, struct engine_listed **ret,
                       size_t *ret_count, struct problem *problem) MUST_USE;
void engine_list_release(struct engine_listed *listed, size_t count);

/* By a thread: what others have left word of; and what nobody sees to any more, or what has expired. */
void session_far_read_word(struct engine *engine, struct session *none, void *context);
void session_far_find_orphans(struct engine *engine, struct session *none, void *context);

#endif
