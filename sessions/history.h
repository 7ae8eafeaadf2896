/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much of a session's executions is kept: the newest whole (with the second caps of execution.h), older ones as what a list
 * tells of them, and the oldest not at all. What all of it takes up is in the session's record, and its workspace is told.
 */
#ifndef BERTH_SESSIONS_HISTORY_H
#define BERTH_SESSIONS_HISTORY_H

#include "sessions/engine_parts.h"

/*
 * Execution n is written as ended: older ones become thin, or go. By a thread, since their records are long, and a few of them at a time: a
 * session keeps some more than it has to until then. What dies in between is looked at again.
 */
void history_trim(struct engine *engine, struct session *session, int64_t n);
/* A record of n has another length by now. */
void history_count(struct session *session, struct execution *execution, const char *text);
/* Tells the workspace, where it is worth it, or `all` of it. By a thread. */
void history_tell(struct engine *engine, struct session *session, bool all);

#endif
