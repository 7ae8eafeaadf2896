/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much of a session's executions is kept: the newest whole (with the second caps of execution.h), older ones as what a list
 * tells of them, and the oldest not at all. What all of it takes up is in the session's record, and its workspace is told.
 */
#ifndef BERTH_SESSIONS_HISTORY_H
#define BERTH_SESSIONS_HISTORY_H

#include "sessions/engine_parts.h"

#define HISTORY_CHANGES 2

/*
 * Execution n is written as ended: what becomes of older ones is added to the changes, as many as HISTORY_CHANGES, in the arena. *bytes
 * becomes what the history takes up then, but for n's own.
 */
void history_trim(struct engine *engine, const struct session *session, int64_t n, struct arena *arena,
                  struct session_change *changes, size_t *count, int64_t *bytes);
/* A record of n has another length by now. */
void history_count(struct session *session, struct execution *execution, const char *text);
/* Tells the workspace, where it is worth it, or `all` of it. By a thread. */
void history_tell(struct engine *engine, struct session *session, bool all);

#endif
