/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One session: what is told of it, and its record. Its end is in session_end.c, its line of
 * executions in session_line.c, its sandbox in session_place.c, and what the sandbox says in
 * session_hear.c.
 */
#include "sessions/engine_seats.h"
#include "sessions/servers.h"
#include "sessions/session_far.h"
#include "sessions/session_parts.h"

#include "base/files.h"
#include "base/json.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ATTEMPTS 8
#define UNSEEN_MS 10000

const char *session_status(const struct session *session) {
        if (session->far && record_is_open(&session->record) && session->record.queued_ms > 0)
                return "queued";
        if (session->far)
                return record_is_open(&session->record) ? "running"
                       : session->record.parked         ? "parked"
                                                        : "idle";
        if (session->in_line > 0)
                return "queued";
        if (session->running || session->waiting > 0)
                return session->ever_open || session->record.parked ? "running" : "starting";
        if (session->phase == SESSION_OPENING && !session->ever_open)
                return "starting";
        return session->record.parked && session->phase == SESSION_NO_PLACE ? "parked" : "idle";
}

bool session_busy(const struct session *session) {
        if (session->far)
                return record_is_open(&session->record);
        return session->running || session->waiting > 0 || session->unwritten;
}

bool session_wants(const struct session *session) {
        return (session->waiting > 0 && !session->running) || session->restarts;
}

int session_restart(struct session *session, const char *context, struct problem *problem) {
        const json_t *other;
        size_t index;

        json_array_foreach (session->restarts, index, other) {
                if (strcmp(json_string_value(other), context) == 0)
                        return 0;
        }
        if (index == SESSION_CONTEXTS_MAX)
                return problem_set(problem, PROBLEM_BUSY, "%zu kernels already wait for their restart",
                                   index);
        if (!session->restarts)
                session->restarts = json_checked(json_array());
        json_add(session->restarts, json_string(context));
        return 0;
}

void session_forget_restarts(struct session *session) {
        json_decref(session->restarts);
        session->restarts = NULL;
}

bool session_is_free(const struct session *session) {
        return session->phase == SESSION_OPEN && !session_busy(session) && session_lives(session) &&
               !session->leaving && !engine_seat_is_to_go(session) && !session->restarts &&
               !session->bringing && session->bring_wanted <= session->brought;
}

int64_t session_expires_ms(const struct session *session) {
        return record_ends_ms(&session->record, session_busy(session));
}

/*
 * The clock may jump while something runs or waits: its idleness is counted from its deadline, or from now, and not from a time of day. An
 * execution that waits is no reason to live longer: a server that comes back by then gives it to this sandbox, and later to a new one.
 */
struct place_life session_life(const struct engine *engine, const struct session *session) {
        const struct record_session *record = &session->record;
        const struct execution *running = session->running;
        int64_t now_ms = engine_now(engine), idle_ms = record_ends_ms(record, false) - now_ms;
        struct place_life life = { .age_ms = record_ends_ms(record, true) - now_ms };

        if (session_busy(session))
                idle_ms = ((running ? running->timeout_seconds : 0) + record->idle_seconds) * 1000;
        life.idle_ms = idle_ms + UNSEEN_MS;
        life.age_ms = life.age_ms > 1 ? life.age_ms : 1;
        life.idle_ms = life.idle_ms > 1 ? life.idle_ms : 1;
        return life;
}

void session_tell_life(struct engine *engine, struct session *session) {
        const struct place_life life = session_life(engine, session);

        engine->config.place->class->expire(session->place, &life);
}

static void put_time(json_t *json, const char *name, int64_t ms) {
        json_put(json, name, json_from_time(ms));
}

json_t *session_json(const struct session *session) {
        const struct record_session *record = &session->record;
        json_t *json =
                json_checked(json_pack("{s:s, s:s, s:s, s:s?, s:s?, s:o, s:s}", "id", record->id, "owner",
                                       record->owner, "environment", record->environment, "agent",
                                       record->agent, "conversation", record->conversation, "labels",
                                       record->labels ? json_deep_copy(record->labels) : json_object(),
                                       "status", session_status(session)));

        put_time(json, "createdAt", record->created_ms);
        put_time(json, "lastActiveAt", record->active_ms);
        json_put(json, "idleSeconds", json_integer(record->idle_seconds));
        json_put(json, "ttlSeconds", json_integer(record->ttl_seconds));
        put_time(json, "expiresAt", session_expires_ms(session));
        json_put(json, "queuePosition",
                 session->in_line > 0 ? json_integer((json_int_t)engine_queue_position(session))
                                      : json_null());
        json_put(json, "generation", json_integer(record->generation));
        return json;
}

void session_changed(struct session *session) {
        const char *status = session_lives(session) ? session_status(session) : ENGINE_ENDED_STATUS;

        for (struct engine_follower *follower = session->followers; follower; follower = follower->next) {
                if (follower->of_session)
                        follower->changed = true;
        }
        engine_followers_wake(session, NULL);
        if (session->told_status && strcmp(session->told_status, status) == 0)
                return;
        session->told_status = status;
        engine_tell(session, "session", 0, status);
}

/*
 * In a store that is shared the record itself says which write it comes from. So what became of one whose answer was lost is read, not
 * believed: 1, it was made; 0, it was not, or another came after it. A record that is new has no other's id.
 */
static int look_what_was_written(struct engine *engine, const struct record_session *record,
                                 const char *key) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct session_item item = { 0 };
        struct record_session found;
        struct error ignored;
        int result = engine_get(engine, SESSION_TABLE_SESSIONS, key, arena, &item, &ignored);

        if (result <= 0)
                return result;
        if (record_from_text(&item, &found, &ignored) < 0)
                return -1;
        result = strcmp(found.by, record->by) == 0;
        record_dispose(&found);
        return result;
}

/* 1: written; 0: the record is not the one that it is said to be. */
static int write_record(struct engine *engine, struct record_session *record,
                        const struct session_change *more, size_t count, struct arena *arena,
                        struct error *err) {
        const char *key = record_session_key(record->owner, record->id, arena);
        bool shared = engine->config.store->class->shared;
        struct session_change changes[SESSION_CHANGES_MAX];
        char *text TEXT_CLEANUP = NULL;
        int stored;

        if (shared)
                snprintf(record->by, sizeof(record->by), "%s.%llx", engine->number,
                         (unsigned long long)++engine->writes);
        text = record_to_text(record);
        changes[0] =
                (struct session_change){ SESSION_TABLE_SESSIONS, key, text,
                                         record->version ? SESSION_EXPECT_VERSION : SESSION_EXPECT_ABSENT,
                                         record->version };
        for (size_t i = 0; i < count; i++)
                changes[i + 1] = more[i];
        stored = engine_write(engine, changes, count + 1, err);
        return stored < 0 && shared && look_what_was_written(engine, record, key) == 1 ? 1 : stored;
}

int session_try_record(struct engine *engine, struct session *session, const struct session_change *more,
                       size_t count, struct problem *problem) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct record_session *record = &session->record;
        uint64_t term = engine->servers ? servers_term(engine->servers) : 0;
        struct error err;
        int stored;

        if (engine->servers && !session->far)
                snprintf(record->holder, sizeof(record->holder), "%s", engine->number);
        stored = write_record(engine, record, more, count, arena, &err);
        session->refused = stored < 0 && err.kind == ERROR_REFUSED;
        if (stored < 0) {
                session->stale = engine->servers && record->version;
                return problem_from_error(problem, PROBLEM_STORE_FAILED, &err);
        }
        if (stored == 0) {
                session->stale = engine->servers && record->version;
                problem_set(problem, PROBLEM_BUSY, "another client changed the session meanwhile");
                return 0;
        }
        session->history_stored = record->history_bytes;
        session->term = session->far ? 0 : term;
        record->version++;
        return 1;
}

/* What others may change of a session that this server holds is taken from the record, and the rest is written once more. */
int session_store_record(struct engine *engine, struct session *session, const struct session_change *more,
                         size_t count, struct problem *problem) {
        for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
                int stored = session_try_record(engine, session, more, count, problem);

                if (stored != 0)
                        return stored < 0 ? -1 : 0;
                if (!session->stale || !session_far_merge(engine, session))
                        break;
        }
        return -1;
}

/* What cannot be told to anybody who asked: the session goes on, and its record is as it was. */
void session_store_or_warn(struct engine *engine, struct session *session, const struct session_change *more,
                           size_t count) {
        struct problem problem;

        if (session_store_record(engine, session, more, count, &problem) < 0)
                log_warning("session %s: its record cannot be written: %s", session->record.id,
                            problem.detail);
}
