/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As much may run for an agent as its limits say, whoever's it is; the place counts, since others start things there, too, and where servers
 * share a store, that does (engine_seats.c). Where there
 * is no room, the session of that agent that has been idle for longest is parked, and makes some. Where none can be, the agent's
 * limits say what happens: work is turned away, or stands in line and is served in the order in which it came.
 *
 * When it joined the line stands in a session's record, so that the next engine has the same line. Where that cannot be written, or its
 * sandbox was opened and nothing written since, the worst is that a session which nobody waits for is opened once more.
 */
#include "sessions/engine_parts.h"
#include "sessions/engine_seats.h"
#include "sessions/servers.h"

#include "base/log.h"

#include <string.h>

#define REFUSED_MS 500 /* less than from one look at the line to the next */

static bool is_of(const struct session *session, const char *agent) {
        return session->record.agent && strcmp(session->record.agent, agent) == 0;
}

/* Sandboxes that are about to be gone, and are not needed by somebody in line already. */
static bool room_is_coming(const struct engine *engine, const char *agent) {
        size_t going = 0, waiting = 0;

        for (const struct session *session = engine->first; session; session = session->next) {
                if (!is_of(session, agent))
                        continue;
                going += session->phase != SESSION_NO_PLACE &&
                         (!session_lives(session) || session->phase == SESSION_PARKING ||
                          session->parks_next || (!session->place && session->phase != SESSION_OPENING));
                waiting += session_lives(session) && session->in_line > 0;
        }
        return going > waiting;
}

bool engine_can_make_room(const struct session *session) {
        return session_lives(session) && session->phase == SESSION_OPEN && !session->taken &&
               !session->stale && !session->parks_next && !session_busy(session) && !session->restarts &&
               engine_now(session->engine) >= session->park_after_ms;
}

/*
 * Idle for longest comes first. A place that refuses to park a session has lost nothing by it, and may agree a moment later: on AWS a thread
 * still works for a session after the end of its execution was heard. So that session is left for the next look. True: one is being parked.
 */
static bool make_room(struct engine *engine, const char *agent) {
        int64_t now_ms = engine_now(engine);

        for (;;) {
                struct session *longest = NULL;
                struct error err;

                for (struct session *session = engine->first; session; session = session->next) {
                        if (is_of(session, agent) && engine_can_make_room(session) &&
                            (!longest || session->record.active_ms < longest->record.active_ms))
                                longest = session;
                }
                if (!longest)
                        return false;
                if (session_park(engine, longest, &err) == 0)
                        return true;
                longest->park_after_ms = now_ms + REFUSED_MS;
                log_debug("session %s: it is not parked: %s", longest->record.id, err.message);
        }
}

bool engine_make_room_now(struct engine *engine, const char *agent) {
        return room_is_coming(engine, agent) || make_room(engine, agent);
}

bool engine_make_room(struct engine *engine, const char *agent) {
        bool made;

        pthread_mutex_lock(&engine->lock);
        made = engine_make_room_now(engine, agent);
        pthread_mutex_unlock(&engine->lock);
        return made;
}

static bool turns_away(struct engine *engine, const char *agent) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct catalog_agent found = { 0 };
        struct error ignored;

        return engine->config.catalog->agent(engine->config.catalog, agent, arena, &found, &ignored) == 1 &&
               found.reject;
}

/* What others run for it is not known here: that is seen when the sandbox is opened. */
int engine_check_limits(struct engine *engine, const char *agent, struct problem *problem) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct catalog_agent found = { 0 };
        struct error ignored;
        int64_t living = 0;

        if (engine->config.catalog->agent(engine->config.catalog, agent, arena, &found, &ignored) != 1 ||
            found.containers <= 0)
                return 0;
        if (engine->servers && !servers_hold(engine->servers))
                return problem_set(
                        problem, PROBLEM_PLACE_FAILED,
                        "this server is out of touch with the others: what runs for the agent %s is not known",
                        agent);
        if (!found.reject)
                return 0;
        for (const struct session *session = engine->first; session; session = session->next) {
                if (!is_of(session, agent))
                        continue;
                /* One that is idle, or on its way out, makes room. */
                if (session->place &&
                    (!session_lives(session) || !(session_busy(session) || session->restarts)))
                        return 0;
                living += session->phase != SESSION_NO_PLACE;
        }
        return living < found.containers
                       ? 0
                       : problem_set(problem, PROBLEM_AGENT_LIMIT,
                                     "%lld sessions of the agent %s are running something, as many as may",
                                     (long long)living, agent);
}

/* Somebody of that agent stands in line before it. */
static bool is_behind(const struct engine *engine, const struct session *session) {
        for (const struct session *other = engine->first; other; other = other->next) {
                if (other != session && session_lives(other) && other->in_line > 0 &&
                    is_of(other, session->record.agent) &&
                    (session->in_line == 0 || other->in_line < session->in_line))
                        return true;
        }
        return false;
}

size_t engine_queue_position(const struct session *session) {
        size_t position = 1;

        for (const struct session *other = session->engine->first; other; other = other->next)
                position += session_lives(other) && other->in_line > 0 && other->in_line < session->in_line &&
                            is_of(other, session->record.agent);
        return position;
}

static void join_line(struct engine *engine, struct session *session) {
        struct problem problem;

        session->in_line = ++engine->last_in_line;
        if (engine->last_queued_ms < engine_now(engine))
                engine->last_queued_ms = engine_now(engine);
        else
                engine->last_queued_ms++;
        session->record.queued_ms = engine->last_queued_ms;
        if (session_store_record(engine, session, NULL, 0, &problem) < 0)
                log_warning("session %s: its place in line is not kept: %s", session->record.id,
                            problem.detail);
        session_changed(session);
}

void engine_line_again(struct engine *engine, struct session *session) {
        int64_t at = 0;

        if (session->record.queued_ms == 0 || session->in_line > 0)
                return;
        for (const struct session *other = engine->first; other; other = other->next) {
                if (other->in_line > 0 && other->record.queued_ms > session->record.queued_ms &&
                    (at == 0 || other->in_line < at))
                        at = other->in_line;
        }
        for (struct session *other = engine->first; at > 0 && other; other = other->next)
                other->in_line += other->in_line >= at;
        engine->last_in_line++;
        session->in_line = at > 0 ? at : engine->last_in_line;
}

/* Those behind it have moved up. */
void engine_leave_line(struct engine *engine, struct session *session) {
        if (session->in_line == 0)
                return;
        session->in_line = 0;
        session->record.queued_ms = 0;
        for (struct session *other = engine->first; other; other = other->next) {
                if (session_lives(other) && other->in_line > 0 && is_of(other, session->record.agent))
                        session_changed(other);
        }
}

int session_open_or_wait(struct engine *engine, struct session *session, bool must_take, struct error *err) {
        const char *agent = session->record.agent;
        struct error full = { 0 };

        if (!agent || !is_behind(engine, session)) {
                if (session_open_place(engine, session, false, &full) == 0) {
                        engine_leave_line(engine, session);
                        return 0;
                }
                /* Somebody may have ended it meanwhile. */
                if (!agent || full.kind != ERROR_LOCKED || !session_lives(session)) {
                        *err = full;
                        return -1;
                }
        } else {
                (void)error_set_kind(&full, ERROR_LOCKED, "others wait already for Agent/%s's limits", agent);
        }
        if (!engine_make_room_now(engine, agent) && !must_take && session->in_line == 0 &&
            !engine_seats_may_come(engine, agent) && turns_away(engine, agent)) {
                *err = full;
                return -1;
        }
        if (session->in_line == 0)
                join_line(engine, session);
        return 1;
}

/* By a thread, for one that stands in line. */
static void serve(struct engine *engine, struct session *session, void *context) {
        struct strbuf detail STRBUF_CLEANUP = STRBUF_INIT;
        struct error err;
        int answer;

        (void)context;
        session->wanted = false;
        if (engine->stopping || !session_lives(session) || session->in_line == 0 ||
            session->phase != SESSION_NO_PLACE || is_behind(engine, session))
                return;
        answer = session_open_or_wait(engine, session, true, &err);
        if (answer > 0 || session->stale)
                return;
        if (answer < 0) {
                engine_leave_line(engine, session);
                session_forget_restarts(session);
                strbuf_printf(&detail, "nothing of it ran: %s", err.message);
                session_cut_off(engine, session, REPORT_FAILED, strbuf_text(&detail));
        }
        session_changed(session);
        engine_serve_line(engine);
}

/* Who comes first, of those of an agent: whether there is room for the others is seen once there was for him. */
void engine_serve_line(struct engine *engine) {
        for (struct session *session = engine->first; session; session = session->next) {
                if (!session_lives(session) || session->in_line == 0 || session->phase != SESSION_NO_PLACE ||
                    session->wanted || is_behind(engine, session))
                        continue;
                session->wanted = true;
                engine_job_add(engine, session, session->record.owner, serve, NULL);
        }
}
