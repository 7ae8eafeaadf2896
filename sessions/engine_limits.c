/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As much may run for an agent as its limits say, whoever's it is; the place counts, since others start things there, too. Where there
 * is no room, the session of that agent that has been idle for longest is parked, and makes some. Where none can be, the agent's
 * limits say what happens: work is turned away, or stands in line and is served in the order in which it came.
 *
 * The line is the engine's own memory: a session that stood in it when the server died is opened by its next execution, as any.
 */
#include "sessions/engine_parts.h"

#include "base/log.h"

#include <string.h>

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
                         (session->gone || session->phase == SESSION_PARKING || !session->place);
                waiting += !session->gone && session->in_line > 0;
        }
        return going > waiting;
}

/* Idle for longest comes first; one that could not be parked is left for the next time. True: one is being parked. */
static bool make_room(struct engine *engine, const char *agent) {
        int64_t now_ms = engine_now(engine);

        for (;;) {
                struct session *longest = NULL;
                struct error err;

                for (struct session *session = engine->first; session; session = session->next) {
                        if (is_of(session, agent) && !session->gone && session->phase == SESSION_OPEN &&
                            !session_busy(session) && !session->restart[0] &&
                            now_ms >= session->park_after_ms &&
                            (!longest || session->record.active_ms < longest->record.active_ms))
                                longest = session;
                }
                if (!longest)
                        return false;
                if (session_park(engine, longest, &err) == 0)
                        return true;
                longest->park_after_ms = now_ms + engine->config.limits.park_seconds * 1000;
                log_debug("session %s: it is not parked: %s", longest->record.id, err.message);
        }
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
            !found.reject || found.containers <= 0)
                return 0;
        for (const struct session *session = engine->first; session; session = session->next) {
                if (!is_of(session, agent))
                        continue;
                /* One that is idle, or on its way out, makes room. */
                if (session->place && (session->gone || !(session_busy(session) || session->restart[0])))
                        return 0;
                living += session->place != NULL;
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
                if (other != session && !other->gone && other->in_line > 0 &&
                    is_of(other, session->record.agent) &&
                    (session->in_line == 0 || other->in_line < session->in_line))
                        return true;
        }
        return false;
}

int session_open_or_wait(struct engine *engine, struct session *session, bool must_take, struct error *err) {
        const char *agent = session->record.agent;
        struct error full = { 0 };

        if (!agent || !is_behind(engine, session)) {
                if (session_open_place(engine, session, false, &full) == 0) {
                        session->in_line = 0;
                        return 0;
                }
                if (!agent || full.kind != ERROR_LOCKED) {
                        *err = full;
                        return -1;
                }
        } else {
                (void)error_set_kind(&full, ERROR_LOCKED, "others wait already for Agent/%s's limits", agent);
        }
        if (!room_is_coming(engine, agent) && !make_room(engine, agent) && !must_take &&
            session->in_line == 0 && turns_away(engine, agent)) {
                *err = full;
                return -1;
        }
        if (session->in_line == 0) {
                session->in_line = ++engine->last_in_line;
                session_changed(session);
        }
        return 1;
}

/* Who comes first, of those of an agent: whether there is room for the others is seen once there was for him. */
void engine_serve_line(struct engine *engine) {
        int64_t served = 0;

        for (;;) {
                struct session *next = NULL;
                struct strbuf detail STRBUF_CLEANUP = STRBUF_INIT;
                struct error err;
                int answer;

                for (struct session *session = engine->first; session; session = session->next) {
                        if (!session->gone && session->in_line > served &&
                            (!next || session->in_line < next->in_line))
                                next = session;
                }
                if (!next)
                        return;
                served = next->in_line;
                if (is_behind(engine, next))
                        continue;
                answer = session_open_or_wait(engine, next, true, &err);
                if (answer == 0)
                        session_changed(next);
                if (answer >= 0)
                        continue;
                next->in_line = 0;
                next->restart[0] = '\0';
                strbuf_printf(&detail, "nothing of it ran: %s", err.message);
                session_cut_off(engine, next, REPORT_FAILED, strbuf_text(&detail));
                session_changed(next);
        }
}
