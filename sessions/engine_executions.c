/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executions as clients ask for them, and as history keeps them. The session that had them may have ended: what is kept is found by
 * owner and id all the same, for as long as the workspace is there.
 */
#include "sessions/engine_parts.h"

#include "base/json.h"
#include "base/text.h"
#include "sessions/checks.h"
#include "sessions/engine_seats.h"
#include "sessions/history.h"
#include "sessions/once.h"
#include "sessions/servers.h"
#include "sessions/session_far.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_DEFAULT 300
#define ATTEMPTS 8

/* One that the engine remembers: it waits, it runs, or somebody follows it. */
static struct execution *find_remembered(struct session *session, int64_t n) {
        if (session->running && session->running->n == n)
                return session->running;
        for (struct execution *waiting = session->first_waiting; waiting; waiting = waiting->next) {
                if (waiting->n == n)
                        return waiting;
        }
        for (struct execution *ended = session->unwritten; ended; ended = ended->next) {
                if (ended->n == n)
                        return ended;
        }
        for (struct engine_follower *follower = session->followers; follower; follower = follower->next) {
                if (follower->execution && follower->execution->n == n)
                        return follower->execution;
        }
        return NULL;
}

/* 1: it is begun next; 0: it does not wait. */
static size_t place_in_line(const struct session *session, const struct execution *execution) {
        size_t place = 1;

        for (const struct execution *waiting = session->first_waiting; waiting; waiting = waiting->next) {
                if (waiting == execution)
                        return place;
                place++;
        }
        return 0;
}

/* 1 and what history has of it; PROBLEM_NOT_FOUND where the caller may not see it. A new reference. */
static int find_kept(struct engine *engine, const struct engine_caller *caller, const char *id, int64_t n,
                     json_t **ret, struct problem *problem) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct session_item item = { 0 };
        struct error err;
        json_t *json;
        int found = 0;

        if (record_is_id(id) && n >= 1 && caller->owner)
                found = engine_get(engine, SESSION_TABLE_EXECUTIONS,
                                   record_execution_key(caller->owner, id, n, arena), arena, &item, &err);
        if (found < 0)
                return problem_from_error(problem, PROBLEM_STORE_FAILED, &err);
        if (found == 0)
                return problem_set(problem, PROBLEM_NOT_FOUND, "there is no such execution");
        json = execution_read_record(item.value);
        if (!json_text(json, "environment") || !json_is_object(json_object_get(json, "result"))) {
                json_decref(json);
                return problem_set(problem, PROBLEM_STORE_FAILED, "the record of execution %lld is corrupt",
                                   (long long)n);
        }
        if (!engine_may_use(caller, json_text(json, "environment"), json_text(json, "agent"))) {
                json_decref(json);
                return problem_set(problem, PROBLEM_NOT_FOUND, "there is no such execution");
        }
        *ret = json;
        return 1;
}

/* Whether such an id is the caller's at all decides what he is told: whose it is not hears the same as for one that never was. */
static struct session *find_living(struct engine *engine, const struct engine_caller *caller,
                                   const char *id) {
        struct problem ignored;

        return engine_find(engine, caller, id, &ignored);
}

/* What of a request lies beside the workspace. */
struct kept_request {
        char sha256[SHA256_HEX_SIZE]; /* "": nothing */
        bool alone;                   /* under a name of its own */
};

/*
 * Before the lock is taken, since it may have megabytes. It is kept so that an execution which waits is begun by the next server, if this
 * one dies; so where it cannot be kept, it cannot be taken.
 */
static int keep_request(struct engine *engine, const struct engine_caller *caller, const char *id,
                        bool connected, struct engine_code *code, struct arena *arena,
                        struct kept_request *ret, struct problem *problem) {
        const struct engine_workspaces *workspaces = engine->config.workspaces;
        struct execution *asked;
        char *text;
        int result = 0;

        *ret = (struct kept_request){ .alone = !code->staged };
        /* In JSON a byte is twelve at most: six, and six more for a variable whose name is all that it has. */
        if (!workspaces->stage_request || !caller->owner || !record_is_id(id) ||
            execution_asked_bytes(code) < EXECUTION_REQUEST_STORED / 16)
                return 0;
        asked = execution_new(1, code, 0);
        asked->connected = connected;
        text = execution_request(asked);
        execution_drop(asked);
        if (strlen(text) > EXECUTION_REQUEST_STORED) {
                digest_sha256_hex(text, strlen(text), ret->sha256);
                result = workspaces->stage_request(workspaces->context, caller->owner, id, text, strlen(text),
                                                   arena, &code->staged, problem);
        }
        free(text);
        return result;
}

static int put_in_line(struct engine *engine, const struct engine_caller *caller, struct session *session,
                       const struct engine_code *code, const struct kept_request *kept, int64_t *ret,
                       struct engine_follower *follower, struct problem *problem) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct engine_code checked = *code;
        struct record_session *record = &session->record;
        struct execution *execution;
        struct session_change more[3];
        int64_t old_active_ms = record->active_ms, old_taken_n = record->taken_n, old_last_n = record->last_n;
        int64_t n = (session->number_used > old_last_n ? session->number_used : old_last_n) + 1;
        bool old_parked = record->parked;
        size_t count = 0;
        char *text;
        int stored;

        checked.timeout_seconds = code->timeout_seconds ? code->timeout_seconds : TIMEOUT_DEFAULT;
        execution = execution_new(n, &checked, engine_now(engine));
        /* Of one that another server has, this one says when its client has gone. */
        execution->connected = code->interrupt_on_disconnect && follower && !session->far;
        memcpy(execution->request_sha256, kept->sha256, sizeof(execution->request_sha256));
        text = execution_record_pending(execution, record->id, record->environment, record->agent);
        more[count++] = (struct session_change){ SESSION_TABLE_EXECUTIONS,
                                                 record_execution_key(record->owner, record->id, n, arena),
                                                 text, SESSION_EXPECT_NOTHING, 0 };
        if (code->once.key)
                more[count++] =
                        once_change(engine, caller, &code->once, record->id, n, engine_now(engine), arena);
        if (session->far)
                more[count++] = session_far_word(session, arena);
        record->last_n = n;
        record->active_ms = engine_now(engine);
        /* It is begun at once: one write says both. */
        execution->term = engine->servers ? servers_term(engine->servers) : 0;
        if (session_is_free(session) && (!engine->servers || execution->term != 0)) {
                record->taken_n = n;
                record->parked = false;
        }
        execution->taken_before = old_taken_n;
        history_count(session, execution, text);
        stored = session_try_record(engine, session, more, count, problem);
        free(text);
        if (stored <= 0) {
                /* It may be written after all, with a key that stands for it: no other gets this number. */
                if (engine->servers && stored < 0)
                        session->number_used = n;
                record->last_n = old_last_n;
                record->active_ms = old_active_ms;
                record->taken_n = old_taken_n;
                record->parked = old_parked;
                record->history_bytes -= execution->record_bytes;
                execution_drop(execution);
                return stored < 0 || !engine->servers ? -1 : 2;
        }
        once_count(engine, caller, &code->once);
        *ret = n;
        if (session->far) {
                if (follower) {
                        far_follower_begin(follower, record->owner, record->id, n, 1);
                        follower->disconnects = code->interrupt_on_disconnect;
                }
                execution_drop(execution);
                session_changed(session);
                return 1;
        }
        if (follower)
                engine_follower_begin(follower, session, execution, 1);
        session_wait(session, execution);
        session_go_on(engine, session);
        /* What it waits for may take longer than the sandbox was to be idle. */
        if (session->phase == SESSION_OPEN && session->waiting > 0 && !session->running)
                session_tell_life(engine, session);
        session_changed(session);
        /* One that is open is waited for already. How long it may take then is looked at with the next sweep at the latest. */
        if (session->phase != SESSION_OPEN)
                engine_wake(engine);
        return 1;
}

/* What waits is in memory. All of an owner's is added up only where all of everybody's would be too much for one. */
static int check_waiting_bytes(const struct engine *engine, const struct session *session,
                               const struct engine_code *code, struct problem *problem) {
        size_t more = execution_asked_bytes(code), owners = 0;

        if (session->waiting_bytes > 0 && session->waiting_bytes + more > ENGINE_WAITING_BYTES)
                return problem_set(
                        problem, PROBLEM_QUEUE_FULL,
                        "what waits in this session has %zu bytes of code and input, and may have %zu together",
                        session->waiting_bytes, ENGINE_WAITING_BYTES);
        if (engine->waiting_bytes + more <= ENGINE_OWNER_WAITING_BYTES)
                return 0;
        for (const struct session *other = engine->first; other; other = other->next)
                owners += strcmp(other->record.owner, session->record.owner) == 0 ? other->waiting_bytes : 0;
        if (owners == 0 || owners + more <= ENGINE_OWNER_WAITING_BYTES)
                return 0;
        return problem_set(
                problem, PROBLEM_QUEUE_FULL,
                "what waits in all sessions of %s has %zu bytes of code and input, and may have %zu together",
                session->record.owner, owners, ENGINE_OWNER_WAITING_BYTES);
}

static int check_line(const struct session *session, struct problem *problem) {
        const struct record_session *record = &session->record;
        size_t waiting = session->waiting, most = ENGINE_QUEUE_MAX + (session->running ? 0U : 1U);

        if (session->far) {
                waiting = (size_t)(record->last_n - (record->oldest_n > record->taken_n ? record->oldest_n - 1
                                                                                        : record->taken_n));
                most = ENGINE_QUEUE_MAX + (record->taken_n >= record->oldest_n ? 0U : 1U);
        }
        return waiting < most ? 0
                              : problem_set(problem, PROBLEM_QUEUE_FULL,
                                            "%zu executions wait in this session", waiting);
}

/*
 * As engine_execute(), with the session's turn. 2: its sandbox was opened meanwhile, or another server was faster, so everything is looked at again. Who is turned away
 * hears of it before there is an execution; what else is wrong is said by that.
 */
static int execute_in(struct engine *engine, const struct engine_caller *caller, struct session *session,
                      const struct engine_code *code, const struct kept_request *kept, bool opened,
                      int64_t *ret, struct engine_follower *follower, struct problem *problem) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct once_answer answer = { 0 };
        struct catalog_agent agent = { 0 };
        struct error err = { 0 };
        int seen = once_look(engine, caller, &code->once, arena, &answer, problem);

        if (seen < 0)
                return -1;
        if (seen == 1) {
                *ret = answer.n;
                return 0;
        }
        if (session->record.agent &&
            engine_check_agent(engine, session->record.agent, arena, &agent, problem) < 0)
                return -1;
        engine_seat_look(session, agent.containers);
        if (once_check_room(engine, caller, &code->once, problem) < 0 || check_line(session, problem) < 0)
                return -1;
        if (check_waiting_bytes(engine, session, code, problem) < 0)
                return -1;
        if (opened || session->far || session->phase != SESSION_NO_PLACE || session->in_line > 0 ||
            !session->record.agent)
                return put_in_line(engine, caller, session, code, kept, ret, follower, problem);
        if (session_open_or_wait(engine, session, false, &err) < 0 && err.kind == ERROR_LOCKED)
                return problem_from_error(problem, PROBLEM_AGENT_LIMIT, &err);
        return 2;
}

static int execute(struct engine *engine, const struct engine_caller *caller, const char *id,
                   const struct engine_code *code, const struct kept_request *kept, int64_t *ret,
                   struct engine_follower *follower, struct problem *problem) {
        int result = 2;

        for (int attempt = 0; result == 2 && attempt < ATTEMPTS; attempt++) {
                struct session *session =
                        session_turn_find(engine, caller, id, false, SESSION_AS_KNOWN, problem);

                if (!session)
                        return -1;
                result = execute_in(engine, caller, session, code, kept, attempt > 0, ret, follower, problem);
                session_turn_give(session);
        }
        return result == 2
                       ? problem_set(problem, PROBLEM_BUSY, "too many change this session at the same time")
                       : result;
}

/* What is not there is said by who looks for the session. */
static int check_room(struct engine *engine, const struct engine_caller *caller, const char *id,
                      struct problem *problem) {
        const struct engine_workspaces *workspaces = engine->config.workspaces;
        struct problem found;

        if (!workspaces->check_room || !caller->owner || !record_is_id(id) ||
            workspaces->check_room(workspaces->context, caller->owner, id, &found) == 0 ||
            found.code == PROBLEM_NOT_FOUND)
                return 0;
        *problem = found;
        return -1;
}

int engine_execute(struct engine *engine, const struct engine_caller *caller, const char *id,
                   const struct engine_code *code, int64_t *ret, struct engine_follower **ret_follower,
                   struct problem *problem) {
        const struct engine_workspaces *workspaces = engine->config.workspaces;
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct engine_follower *follower = NULL;
        struct engine_code asked = *code;
        struct kept_request kept;
        int result;

        if (check_code(code, problem) < 0 || check_room(engine, caller, id, problem) < 0)
                return -1;
        if (ret_follower && !(follower = engine_follower_new(engine, problem)))
                return -1;
        if (keep_request(engine, caller, id, code->interrupt_on_disconnect && ret_follower, &asked, arena,
                         &kept, problem) < 0) {
                engine_follower_close(follower);
                return -1;
        }
        pthread_mutex_lock(&engine->lock);
        result = execute(engine, caller, id, &asked, &kept, ret, follower, problem);
        pthread_mutex_unlock(&engine->lock);
        if (result != 1 && kept.sha256[0] && kept.alone)
                workspaces->drop_staged(workspaces->context, caller->owner, id, asked.staged);
        if (result != 1) {
                engine_follower_close(follower);
                if (result == 0 && ret_follower &&
                    engine_follow(engine, caller, id, *ret, 0, &follower, problem) < 0)
                        return -1;
        }
        if (result >= 0 && ret_follower)
                *ret_follower = follower;
        return result;
}

int engine_repeats(struct engine *engine, const struct engine_caller *caller, const struct engine_once *once,
                   struct arena *arena, const char **ret_session, int64_t *ret_n, struct problem *problem) {
        struct once_answer answer = { 0 };
        int seen;

        if (check_once(once, problem) < 0)
                return -1;
        pthread_mutex_lock(&engine->lock);
        seen = once_look(engine, caller, once, arena, &answer, problem);
        if (seen == 0 && once_check_room(engine, caller, once, problem) < 0)
                seen = -1;
        pthread_mutex_unlock(&engine->lock);
        *ret_session = answer.session;
        *ret_n = answer.n;
        return seen;
}

static bool has_ended(const json_t *kept) {
        return json_object_get(json_object_get(kept, "result"), "exitCode") != NULL;
}

/* Its record says no more than that it was put in line: where it stands the session's does. */
static void show_far_status(struct engine *engine, const struct engine_caller *caller, const char *id,
                            int64_t n, json_t *result) {
        struct record_session record;
        struct problem ignored;

        if (session_far_find(engine, caller, caller->owner, id, &record, &ignored) <= 0)
                return;
        json_put(result, "status", json_string(n > record.taken_n ? "queued" : "running"));
        json_put(result, "queuePosition",
                 n > record.taken_n ? json_integer(n - record.taken_n) : json_null());
        record_dispose(&record);
}

int engine_result(struct engine *engine, const struct engine_caller *caller, const char *id, int64_t n,
                  json_t **ret, struct problem *problem) {
        struct session *session;
        struct execution *execution;
        json_t *kept JSON_CLEANUP = NULL;
        int result = 0;

        pthread_mutex_lock(&engine->lock);
        session = engine_find_known(engine, caller, id);
        execution = session ? find_remembered(session, n) : NULL;
        if (execution)
                *ret = execution->result && !execution->unwritten
                               ? json_incref(execution->result)
                               : execution_pending(execution, id, place_in_line(session, execution));
        else
                result = find_kept(engine, caller, id, n, &kept, problem) < 0 ? -1 : 0;
        if (kept)
                *ret = execution_kept_result(kept);
        if (kept && engine->servers && !has_ended(kept))
                show_far_status(engine, caller, id, n, *ret);
        pthread_mutex_unlock(&engine->lock);
        return result;
}

int engine_history(struct engine *engine, const struct engine_caller *caller, const char *id, size_t limit,
                   const char *cursor, json_t **ret, struct problem *problem) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *prefix, *after = NULL;
        json_t *items, *next = json_null();
        struct session_item *found;
        struct error err;
        char *end = NULL;
        size_t count;
        bool lives;

        limit = limit ? limit : 100;
        if (limit > ENGINE_LIST_MAX)
                return problem_set(problem, PROBLEM_INVALID, "limit must be 1 to %d, found %zu",
                                   ENGINE_LIST_MAX, limit);
        if (!record_is_id(id) || !caller->owner)
                return engine_not_found(problem);
        prefix = record_executions_prefix(caller->owner, id, arena);
        if (cursor) {
                int64_t n = strtoll(cursor, &end, 10);

                if (end == cursor || *end || n < 1 || n > 9999999999LL)
                        return problem_set(problem, PROBLEM_INVALID,
                                           "invalid cursor: use the one from the previous page");
                after = record_execution_key(caller->owner, id, n, arena);
        }
        pthread_mutex_lock(&engine->lock);
        lives = find_living(engine, caller, id) != NULL;
        pthread_mutex_unlock(&engine->lock);
        if (session_store_list(engine->config.store, SESSION_TABLE_EXECUTIONS, prefix, after, false,
                               limit + 1, arena, &found, &count, &err) < 0)
                return problem_from_error(problem, PROBLEM_STORE_FAILED, &err);
        if (count == 0 && !lives && engine->servers) {
                struct record_session record;
                int there;

                pthread_mutex_lock(&engine->lock);
                there = session_far_find(engine, caller, caller->owner, id, &record, problem);
                pthread_mutex_unlock(&engine->lock);
                if (there < 0)
                        return -1;
                lives = there > 0;
                if (lives)
                        record_dispose(&record);
        }
        if (count == 0 && !lives && !cursor)
                return engine_not_found(problem);
        items = json_checked(json_array());
        for (size_t i = 0; i < count && i < limit; i++) {
                json_t *json JSON_CLEANUP = execution_read_record(found[i].value);

                if (!json ||
                    !engine_may_use(caller, json_text(json, "environment"), json_text(json, "agent"))) {
                        json_decref(items);
                        return engine_not_found(problem);
                }
                json_add(items, execution_kept_summary(json));
        }
        if (count > limit) {
                char text[32];

                snprintf(text, sizeof(text), "%lld",
                         strtoll(found[limit - 1].key + strlen(prefix), NULL, 10));
                next = json_checked(json_string(text));
        }
        *ret = json_checked(json_pack("{s:o, s:o}", "items", items, "cursor", next));
        return 0;
}

/* 1: who holds the session will see it; 0: somebody else was faster. */
static int interrupt_far(struct engine *engine, struct session *session, int64_t n, struct problem *problem) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct record_session *record = &session->record;
        const struct session_change word = session_far_word(session, arena);
        json_t *before = record->interrupts;
        int stored;

        record->interrupts = before ? json_checked(json_deep_copy(before)) : json_checked(json_array());
        if (json_array_size(record->interrupts) <= ENGINE_QUEUE_MAX)
                json_add(record->interrupts, json_integer(n));
        stored = session_try_record(engine, session, &word, 1, problem);
        if (stored > 0) {
                json_decref(before);
        } else {
                json_decref(record->interrupts);
                record->interrupts = before;
        }
        return stored;
}

static int interrupt(struct engine *engine, const struct engine_caller *caller, struct session *session,
                     const char *id, int64_t n, struct problem *problem) {
        struct execution *execution = session && !session->far ? find_remembered(session, n) : NULL;
        json_t *kept JSON_CLEANUP = NULL;

        if (execution && execution->status != EXECUTION_ENDED) {
                session_interrupt(engine, session, execution);
                return 1;
        }
        if (find_kept(engine, caller, id, n, &kept, problem) < 0)
                return -1;
        if (session && session->far && !has_ended(kept) && n >= session->record.oldest_n)
                return interrupt_far(engine, session, n, problem);
        return problem_set(problem, PROBLEM_NOT_RUNNING, "execution %lld has ended", (long long)n);
}

int engine_interrupt(struct engine *engine, const struct engine_caller *caller, const char *id, int64_t n,
                     struct problem *problem) {
        struct problem ignored;
        int result = 0;

        pthread_mutex_lock(&engine->lock);
        for (int attempt = 0; result == 0 && attempt < ATTEMPTS; attempt++) {
                struct session *session =
                        session_turn_find(engine, caller, id, false, SESSION_AS_STORED, &ignored);

                result = interrupt(engine, caller, session, id, n, problem);
                if (session)
                        session_turn_give(session);
        }
        engine_wake(engine);
        pthread_mutex_unlock(&engine->lock);
        return result > 0 ? 0 : -1;
}

int engine_follow(struct engine *engine, const struct engine_caller *caller, const char *id, int64_t n,
                  int64_t from, struct engine_follower **ret, struct problem *problem) {
        struct engine_follower *follower = engine_follower_new(engine, problem);
        struct session *session;
        struct execution *execution;
        json_t *kept = NULL;
        int result = 0;

        if (!follower)
                return -1;
        pthread_mutex_lock(&engine->lock);
        session = engine_find_known(engine, caller, id);
        execution = session ? find_remembered(session, n) : NULL;
        if (!execution)
                result = find_kept(engine, caller, id, n, &kept, problem) < 0 ? -1 : 0;
        if (result == 0 && kept && engine->servers && !has_ended(kept)) {
                far_follower_begin(follower, caller->owner, id, n, from);
                json_decref(kept);
        } else if (result == 0) {
                engine_follower_begin(follower, execution ? session : NULL, execution, from);
                follower->kept = kept;
        }
        pthread_mutex_unlock(&engine->lock);
        if (result < 0)
                engine_follower_close(follower);
        else
                *ret = follower;
        return result;
}

/* Of one that is not gone yet, though it has expired or ended, nothing is written from here on. */
static int begin_to_forget(struct engine *engine, const char *owner, const char *id,
                           struct problem *problem) {
        struct session *session = engine_find_id(engine, id);
        int result = 0;

        if (!session && engine->servers) {
                if (session_far_load(engine, owner, id, problem) < 0)
                        return -1;
                session = engine_find_id(engine, id);
        }
        if (!session || strcmp(session->record.owner, owner) != 0)
                return 0;
        session_turn_take(session);
        if (session_far_needs_look(session, SESSION_AS_STORED) && engine->servers)
                result = session_far_look(engine, session, problem);
        if (result < 0)
                result = -1;
        else if (session_lives(session) && session_expires_ms(session) > engine_now(engine))
                result = problem_set(problem, PROBLEM_HAS_SESSIONS, "the session still lives: end it first");
        else if (session_lives(session))
                result = session_end(engine, session, RECORD_EXPIRED, problem);
        if (result == 0)
                session->forgotten = true;
        session_turn_give(session);
        return result;
}

int engine_forget(struct engine *engine, const struct engine_caller *caller, const char *id,
                  struct problem *problem) {
        const char *prefix;
        struct error err;
        int begun;

        if (!record_is_id(id) || !caller->owner)
                return engine_not_found(problem);
        pthread_mutex_lock(&engine->lock);
        begun = begin_to_forget(engine, caller->owner, id, problem);
        pthread_mutex_unlock(&engine->lock);
        if (begun < 0)
                return -1;
        for (;;) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                struct session_change changes[SESSION_CHANGES_MAX];
                struct session_item *items;
                size_t count;

                prefix = record_executions_prefix(caller->owner, id, arena);
                if (session_store_list(engine->config.store, SESSION_TABLE_EXECUTIONS, prefix, NULL, false,
                                       SESSION_CHANGES_MAX, arena, &items, &count, &err) < 0)
                        return problem_from_error(problem, PROBLEM_STORE_FAILED, &err);
                if (count == 0)
                        return 0;
                for (size_t i = 0; i < count; i++)
                        changes[i] = (struct session_change){ SESSION_TABLE_EXECUTIONS, items[i].key, NULL,
                                                              SESSION_EXPECT_NOTHING, 0 };
                if (session_store_write(engine->config.store, changes, count, &err) < 0)
                        return problem_from_error(problem, PROBLEM_STORE_FAILED, &err);
        }
}
