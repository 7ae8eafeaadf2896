/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of one session's life share, beside what all of the engine uses (engine_parts.h). With the engine's lock, as there. */
#ifndef BERTH_SESSIONS_SESSION_PARTS_H
#define BERTH_SESSIONS_SESSION_PARTS_H

#include "sessions/engine_parts.h"

/* A sandbox has eight at most, and the next one others: more than this are not remembered. */
#define SESSION_CONTEXTS_MAX 64

/* --- session.c --- */

/* What cannot be told to anybody who asked: the session goes on, and its record is as it was. */
void session_store_or_warn(struct engine *engine, struct session *session, const struct session_change *more,
                           size_t count);

/* --- session_end.c --- */

/* The record says that the session ends, or is gone: what waits ends as `killed`, the sandbox is told to end. */
void session_is_over(struct engine *engine, struct session *session, enum session_end end);
/* Once a second: what is left of a session that has ended is removed by a thread, the record last. */
void session_clear_if_due(struct engine *engine, struct session *session);
/* Sandboxes of sessions that have no record, by items that older servers wrote (RECORD_ENDING). */
int session_find_endings(struct engine *engine, struct error *err) MUST_USE;

/* --- session_line.c --- */

/* That it began or ended, to who follows all: what it said is its owner's alone. */
void session_tell_execution(struct session *session, const struct execution *execution);
/* Asked once for each sandbox, which has that image as long as it lives: what was applied is read anew for each question. */
void session_describe(struct engine *engine, struct session *session, struct arena *arena,
                      struct execution_owner *ret);
/* The place has heard all until that event: now, or once what it means is written. */
void session_tell_heard(struct engine *engine, struct session *session, uint64_t id);
/* The first in line, which is the caller's then; and back again, of one of which nothing has begun. */
struct execution *session_next_waiting(struct session *session);
void session_wait_again(struct session *session, struct execution *execution);
/* Of one that was taken from the line: it ends without its sandbox's word. */
void session_end_waiting(struct engine *engine, struct session *session, struct execution *execution,
                         enum report_status status, const char *detail);
/* Where the session ends, an execution that did not end by itself is `killed`, with the session's detail. Else both stay as they are. */
void session_note_end(const struct session *session, enum report_status *status, const char **detail);
/* The files that came with it, if there are: they are in the workspace by now, or nothing of it will ever run. */
void session_drop_staged(struct engine *engine, struct session *session, const struct execution *execution);

/* --- session_place.c --- */

/* Whether the worker parked it by itself, when it does not live any more; the record says so then. Releases the lock meanwhile. */
bool session_adopt(struct engine *engine, struct session *session);
void session_be_parked(struct session *session, const struct place_checkpoint *checkpoint, int64_t now_ms);
/* It was to be parked and lives on. NULL: nothing is wrong. */
void session_stay(struct engine *engine, struct session *session, const char *why);

#endif
