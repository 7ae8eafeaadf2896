/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Agents' limits where servers share a store. Of an agent with `limits.containers` a session has a seat as long as a server has it open, and
 * the store has the list of all seats: one record for each agent, which is changed only by who has read it as it is. So no two
 * servers give out the last seat. An agent without that limit has no record, and costs nothing.
 *
 *      engine_seat_take() before its place is opened -> 0: it has one; ERROR_LOCKED: as many have one as may, and this server
 *                         stands in the agent's line there
 *      engine_seat_is_lost() before anything begins
 *      engine_seat_give() when its place has gone
 *
 * Nothing expires by anybody's time of day. A server's seats are its own as long as it lives (servers.h). Of one that does not, a
 * session keeps its seat while its record says that something of it runs: whoever takes it over takes the seat with it, and gives
 * it back when the end is known. Of what has no record any more, or one that makes no sense, nobody can say that: it keeps its seat for
 * ENGINE_SEAT_GHOST_MS, whoever had it. A seat that a living server knows nothing of goes when that has word that others wait.
 *
 * Who finds no seat stands in the record's line, one entry for each server, and none may pass those before him. Servers that have
 * seats get word, and park what is idle. So servers are served by turns, and the sessions of each in the order in which they came.
 */
#ifndef BERTH_SESSIONS_ENGINE_SEATS_H
#define BERTH_SESSIONS_ENGINE_SEATS_H

#include "sessions/engine_parts.h"

/* In the table of keys, since what nobody needs any more goes by itself there. Behind it follows a digest of the agent's name. */
#define ENGINE_SEATS_KEY "~seats/"
/* Behind RECORD_WORD and a server's number: others wait for a seat of the agent in the value. */
#define ENGINE_SEATS_WORD "agent:"
#define ENGINE_SEATS_MAX 8000 /* of one agent: what one record holds. A higher limit is taken for this one */
/* No execution runs longer than that after its server has died: the most that Lambda gives one, and the time in which it takes an event. */
#define ENGINE_SEAT_GHOST_MS ((int64_t)17 * 60 * 1000)

/*
 * With the session's turn; the lock is released. 0: it has a seat, or needs none. -1: ERROR_LOCKED where there is none, or where something of
 * it waits already and the store does not say; anything else where that does not say.
 */
int engine_seat_take(struct engine *engine, struct session *session, struct error *err) MUST_USE;
/* Of one that runs already, and was another server's: it keeps its seat, whatever the limit says. As above. */
void engine_seat_keep(struct engine *engine, struct session *session);
/* Its place has gone. As above. */
void engine_seat_give(struct engine *engine, struct session *session);
/* The same, where that is to be written a little later, or another server has it by now. Nothing is released. */
void engine_seat_drop(struct engine *engine, struct session *session);
/* It has ended, and nothing of it ran: it needs none, whoever had one for it. Nothing is released. */
void engine_seat_forget(struct engine *engine, const struct session *session);
/* Its agent has a limit here, so it may not begin anything without a seat. */
bool engine_seat_is_needed(struct engine *engine, const struct session *session);
/* It is open, and has none, or may have lost it while this server was out of touch: it is to be left before anything begins. */
bool engine_seat_is_lost(const struct session *session);
/* The same, or others wait for it: it is left, but where something runs. */
bool engine_seat_is_to_go(const struct session *session);
/* Of one that was opened before its agent had a limit, which is `limit` now (0: none). */
void engine_seat_look(struct session *session, int64_t limit);
/* Others may leave theirs for it: who waits need not be turned away. */
bool engine_seats_may_come(const struct engine *engine, const char *agent);
/* Word of another server, which waits for a seat. */
void engine_seats_called(struct engine *engine, const char *agent);
/* Once a second: what is still to be written, and room for those who wait elsewhere. */
void engine_seats_tend(struct engine *engine);
/* With the lock, which is released, when nothing is done any more: what is idle needs no seat, and all memory goes. */
void engine_seats_close(struct engine *engine);

#endif
