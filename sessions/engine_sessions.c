/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions as clients make, see, change and end them.
 *
 * Making one is one write: its record, the conversation's and the key's, each on the condition that nothing is there (or what is
 * there is no longer of use, by its version). Where the write is refused somebody was faster, and everything is looked at again.
 */
#include "sessions/engine_parts.h"

#include "base/array.h"
#include "base/digest.h"
#include "base/json.h"
#include "base/log.h"
#include "sessions/checks.h"
#include "sessions/once.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ATTEMPTS 8

int engine_check_agent(struct engine *engine, const char *agent, struct arena *arena,
                       struct catalog_agent *ret, struct problem *problem) {
        struct error err;
        int found = engine->config.catalog->agent(engine->config.catalog, agent, arena, ret, &err);

        if (found < 0)
                return problem_from_error(problem, PROBLEM_STORE_FAILED, &err);
        if (found == 0)
                return problem_set(problem, PROBLEM_UNKNOWN_AGENT, "there is no agent %s", agent);
        if (!ret->in_service || !ret->environment)
                return problem_set(problem, PROBLEM_AGENT_OUT_OF_SERVICE,
                                   "the agent %s is not active, or was taken from its environment", agent);
        return 0;
}

/* Which environment it is to be; what the client may not use is not there. */
static int choose_environment(struct engine *engine, const struct engine_caller *caller,
                              const struct engine_wish *wish, struct arena *arena, const char **ret,
                              struct problem *problem) {
        struct catalog_environment environment = { 0 };
        struct catalog_agent agent = { 0 };
        const char *name = wish->environment;
        struct error err;
        int found;

        if (wish->agent) {
                if (!engine_may_use(&(struct engine_caller){ .agents = caller->agents }, "", wish->agent))
                        return problem_set(problem, PROBLEM_UNKNOWN_AGENT, "there is no agent %s",
                                           wish->agent);
                if (engine_check_agent(engine, wish->agent, arena, &agent, problem) < 0)
                        return -1;
                name = agent.environment;
        }
        found = engine->config.catalog->environment(engine->config.catalog, name, arena, &environment, &err);
        if (found < 0)
                return problem_from_error(problem, PROBLEM_STORE_FAILED, &err);
        if (found == 0 || !engine_may_use(caller, name, NULL))
                return problem_set(problem, PROBLEM_UNKNOWN_ENVIRONMENT, "there is no environment %s", name);
        *ret = name;
        return 0;
}

static int check_counts(struct engine *engine, const char *owner, struct problem *problem) {
        const struct engine_limits *limits = &engine->config.limits;
        size_t owners = 0;

        for (const struct session *session = engine->first; session; session = session->next)
                owners += !session->gone && strcmp(session->record.owner, owner) == 0;
        if (limits->per_owner && owners >= limits->per_owner)
                return problem_set(problem, PROBLEM_OWNER_LIMIT,
                                   "%s has %zu sessions, as many as an owner may", owner, owners);
        if (limits->total && engine->count >= limits->total)
                return problem_set(problem, PROBLEM_SERVER_LIMIT, "there are %zu sessions, as many as may be",
                                   engine->count);
        return 0;
}

static struct session *new_session(struct engine *engine, const struct engine_caller *caller,
                                   const struct engine_wish *wish, const char *environment) {
        const struct engine_limits *limits = &engine->config.limits;
        struct session *session = calloc(1, sizeof(*session));

        if (!session)
                abort();
        session->record = (struct record_session){
                .owner = record_copy_text(caller->owner),
                .environment = record_copy_text(environment),
                .agent = record_copy_text(wish->agent),
                .conversation = record_copy_text(wish->conversation),
                .labels = json_object_size(wish->labels) > 0 ? json_deep_copy(wish->labels) : NULL,
                .variables = json_object_size(wish->variables) > 0 ? json_deep_copy(wish->variables) : NULL,
                .created_ms = engine_now(engine),
                .active_ms = engine_now(engine),
                .idle_seconds = wish->idle_seconds ? wish->idle_seconds : limits->idle_seconds,
                .ttl_seconds = wish->ttl_seconds ? wish->ttl_seconds : limits->ttl_seconds,
                .oldest_n = 1,
        };
        record_new_id(session->record.id);
        return session;
}

static void free_session(struct session *session) {
        record_dispose(&session->record);
        free(session);
}

/* 1: *ret is the living session that the conversation has; 0: it has none, and `change` is what would give it one. */
static int find_conversation(struct engine *engine, const struct engine_caller *caller,
                             const struct record_session *wanted, struct arena *arena,
                             struct session_change *change, struct session **ret, struct problem *problem) {
        struct session_item item = { 0 };
        struct problem ignored;
        struct error err;
        int found;

        *change =
                (struct session_change){ SESSION_TABLE_CONVERSATIONS, record_conversation_key(wanted, arena),
                                         wanted->id, SESSION_EXPECT_ABSENT, 0 };
        found = session_store_get(engine->config.store, SESSION_TABLE_CONVERSATIONS, change->key, arena,
                                  &item, &err);
        if (found < 0)
                return problem_from_error(problem, PROBLEM_STORE_FAILED, &err);
        if (found == 0)
                return 0;
        change->expect = SESSION_EXPECT_VERSION;
        change->version = item.version;
        *ret = engine_find(engine, caller, item.value, &ignored);
        return *ret != NULL;
}

/*
 * 1: its record is written. 0: *ret is what was there. 2: it is to be looked at again: somebody was faster, or its files were made
 * meanwhile, for which the lock was released.
 */
static int store_session(struct engine *engine, const struct engine_caller *caller,
                         const struct engine_wish *wish, struct session *session, bool *has_files,
                         struct session **ret, struct problem *problem) {
        const struct engine_workspaces *workspaces = engine->config.workspaces;
        const struct record_session *record = &session->record;
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct session_change more[2];
        size_t count = 0;
        int found, made;

        if (wish->conversation) {
                found = find_conversation(engine, caller, record, arena, &more[count++], ret, problem);
                if (found != 0)
                        return found < 0 ? -1 : 0;
        }
        if (wish->once.key)
                more[count++] = once_change(caller, &wish->once, record->id, 0, engine_now(engine), arena);
        if (check_counts(engine, record->owner, problem) < 0 ||
            (record->agent && engine_check_limits(engine, record->agent, problem) < 0))
                return -1;
        if (!*has_files) {
                pthread_mutex_unlock(&engine->lock);
                made = workspaces->make(workspaces->context, record->owner, record->id, record->environment,
                                        record->agent, record->created_ms,
                                        record->created_ms + record->ttl_seconds * 1000, problem);
                pthread_mutex_lock(&engine->lock);
                *has_files = made == 0;
                return made < 0 ? -1 : 2;
        }
        if (session_store_record(engine, session, more, count, problem) < 0)
                return problem->code == PROBLEM_BUSY ? 2 : -1;
        engine_add(engine, session);
        *ret = session;
        return 1;
}

/* By a thread: the files of one that was not made after all. */
static void remove_unborn(struct engine *engine, struct session *none, void *context) {
        const struct engine_workspaces *workspaces = engine->config.workspaces;
        struct session *session = context;
        struct problem ignored;

        (void)none;
        pthread_mutex_unlock(&engine->lock);
        (void)workspaces->remove(workspaces->context, session->record.owner, session->record.id, &ignored);
        pthread_mutex_lock(&engine->lock);
        free_session(session);
}

/* As store_session(), but for 2. */
static int make_session(struct engine *engine, const struct engine_caller *caller,
                        const struct engine_wish *wish, const char *environment, struct session **ret,
                        struct problem *problem) {
        struct session *session = new_session(engine, caller, wish, environment);
        struct arena *arena ARENA_CLEANUP = arena_new();
        bool has_files = false;
        int result = 2;

        for (int attempt = 0; result == 2 && attempt < ATTEMPTS; attempt++) {
                struct once_answer answer = { 0 };
                int seen = once_look(engine, caller, &wish->once, arena, &answer, problem);

                if (seen == 1)
                        *ret = engine_find(engine, caller, answer.session, problem);
                result = seen < 0 || (seen == 1 && !*ret) ? -1
                         : seen == 1                      ? 0
                                     : store_session(engine, caller, wish, session, &has_files, ret, problem);
        }
        if (result == 2)
                result = problem_set(problem, PROBLEM_BUSY, "too many make this session at the same time");
        if (result != 1 && has_files && engine->config.workspaces->remove)
                engine_job_add(engine, NULL, session->record.owner, remove_unborn, session);
        else if (result != 1)
                free_session(session);
        return result;
}

static int create(struct engine *engine, const struct engine_caller *caller, const struct engine_wish *wish,
                  const char *environment, json_t **ret, struct problem *problem) {
        struct session *session = NULL;
        int made = make_session(engine, caller, wish, environment, &session, problem);
        struct problem ignored;
        struct error err;

        if (made == 1 && session_open_or_wait(engine, session, false, &err) < 0) {
                if (!session->gone &&
                    session_end(engine, session, "its sandbox could not be started", &ignored) < 0)
                        log_warning("session %s: %s", session->record.id, ignored.detail);
                session->unmade = session->gone && session->record.last_n == 0;
                return problem_from_error(
                        problem, err.kind == ERROR_LOCKED ? PROBLEM_AGENT_LIMIT : PROBLEM_PLACE_FAILED, &err);
        }
        if (made == 1 && session->gone)
                return problem_set(problem, PROBLEM_BUSY, "the session was ended while it was made");
        if (made == 1)
                session_changed(session);
        if (made >= 0)
                *ret = session_json(session);
        return made;
}

int engine_create(struct engine *engine, const struct engine_caller *caller, const struct engine_wish *wish,
                  json_t **ret, struct problem *problem) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *environment = NULL;
        int result;

        if (check_text("the owner", caller->owner, ENGINE_OWNER_MAX, problem) < 0 ||
            check_wish(wish, problem) < 0 ||
            choose_environment(engine, caller, wish, arena, &environment, problem) < 0)
                return -1;
        pthread_mutex_lock(&engine->lock);
        result = create(engine, caller, wish, environment, ret, problem);
        pthread_mutex_unlock(&engine->lock);
        return result;
}

int engine_show(struct engine *engine, const struct engine_caller *caller, const char *id, json_t **ret,
                struct problem *problem) {
        struct session *session;

        pthread_mutex_lock(&engine->lock);
        session = caller->observes ? engine_find_any(engine, caller, id, problem)
                                   : engine_find(engine, caller, id, problem);
        if (session)
                *ret = session_json(session);
        pthread_mutex_unlock(&engine->lock);
        return session ? 0 : -1;
}

static int patch_session(struct engine *engine, const struct engine_caller *caller, const char *id,
                         const struct engine_patch *patch, json_t **ret, struct problem *problem) {
        struct session *session = engine_find(engine, caller, id, problem);
        struct record_session *record = session ? &session->record : NULL, old;
        int64_t left_ms;

        if (!session)
                return -1;
        old = *record;
        json_incref(old.labels);
        if (patch->labels) {
                json_decref(record->labels);
                record->labels = json_deep_copy(patch->labels);
        }
        record->idle_seconds = patch->idle_seconds ? patch->idle_seconds : record->idle_seconds;
        record->ttl_seconds = patch->ttl_seconds ? patch->ttl_seconds : record->ttl_seconds;
        if (session_store_record(engine, session, NULL, 0, problem) < 0) {
                json_decref(record->labels);
                *record = old;
                return -1;
        }
        json_decref(old.labels);
        left_ms = record->created_ms + record->ttl_seconds * 1000 - engine_now(engine);
        if (session->place)
                engine->config.place->class->expire(session->place, left_ms > 1 ? left_ms : 1);
        *ret = session_json(session);
        session_changed(session);
        engine_wake(engine);
        return 0;
}

int engine_patch(struct engine *engine, const struct engine_caller *caller, const char *id,
                 const struct engine_patch *patch, json_t **ret, struct problem *problem) {
        int result;

        if (check_labels(patch->labels, problem) < 0 ||
            check_age("idleSeconds", patch->idle_seconds, problem) < 0 ||
            check_age("ttlSeconds", patch->ttl_seconds, problem) < 0)
                return -1;
        pthread_mutex_lock(&engine->lock);
        result = patch_session(engine, caller, id, patch, ret, problem);
        pthread_mutex_unlock(&engine->lock);
        if (result == 0 && patch->ttl_seconds)
                engine_tell_life(engine, caller->owner, id);
        return result;
}

int engine_end(struct engine *engine, const struct engine_caller *caller, const char *id,
               struct problem *problem) {
        struct session *session;
        char *owner = NULL;
        int result = -1;

        pthread_mutex_lock(&engine->lock);
        session = caller->ends_any ? engine_find_any(engine, caller, id, problem)
                                   : engine_find(engine, caller, id, problem);
        if (session)
                result = session_end(engine, session, "the session was ended", problem);
        if (result == 0) {
                owner = record_copy_text(session->record.owner);
                session->life_told = true;
        }
        pthread_mutex_unlock(&engine->lock);
        if (result == 0)
                engine_tell_life(engine, owner, id);
        free(owner);
        return result;
}

/* Lists */

static bool is_among(const char *const *list, const char *text) {
        if (!list)
                return true;
        for (; text && *list; list++) {
                if (strcmp(*list, text) == 0)
                        return true;
        }
        return false;
}

static bool has_labels(const json_t *labels, const char *const *wanted) {
        for (; wanted && *wanted; wanted++) {
                const char *equals = strchr(*wanted, '=');
                size_t length = equals ? (size_t)(equals - *wanted) : strlen(*wanted);
                json_t *value = json_object_getn(labels, *wanted, length);

                if (!value || (equals && strcmp(json_string_value(value), equals + 1) != 0))
                        return false;
        }
        return true;
}

/* "MILLISECONDS.ID" of the last item that was given. */
static int read_cursor(const char *cursor, int64_t *ret_ms, const char **ret_id, struct problem *problem) {
        char *end = NULL;

        *ret_ms = cursor ? strtoll(cursor, &end, 10) : -1;
        *ret_id = cursor ? end + 1 : "";
        if (cursor && (end == cursor || *end != '.' || !record_is_id(end + 1)))
                return problem_set(problem, PROBLEM_INVALID, "cursor is none that a list has given");
        return 0;
}

static bool fits(const struct engine *engine, const struct engine_caller *caller,
                 const struct engine_filter *filter, const struct session *session) {
        const struct record_session *record = &session->record;

        return !session->gone && session_expires_ms(session) > engine_now(engine) &&
               ((filter->all_owners && caller->observes) ||
                (caller->owner && strcmp(record->owner, caller->owner) == 0)) &&
               engine_may_use(caller, record->environment, record->agent) &&
               is_among(filter->statuses, session_status(session)) &&
               is_among(filter->environments, record->environment) &&
               is_among(filter->agents, record->agent) && has_labels(record->labels, filter->labels);
}

int engine_list(struct engine *engine, const struct engine_caller *caller, const struct engine_filter *filter,
                json_t **ret, struct problem *problem) {
        size_t limit = filter->limit ? filter->limit : 100, count = 0;
        const struct session *last = NULL;
        json_t *items, *cursor = json_null();
        const char *after_id;
        int64_t after_ms;

        if (limit > ENGINE_LIST_MAX)
                return problem_set(problem, PROBLEM_INVALID, "limit must be 1 to %d, found %zu",
                                   ENGINE_LIST_MAX, limit);
        if (read_cursor(filter->cursor, &after_ms, &after_id, problem) < 0)
                return -1;
        items = json_checked(json_array());
        pthread_mutex_lock(&engine->lock);
        for (const struct session *session = engine->first; session; session = session->next) {
                const struct record_session *record = &session->record;

                if (record->created_ms < after_ms ||
                    (record->created_ms == after_ms && strcmp(record->id, after_id) <= 0) ||
                    !fits(engine, caller, filter, session))
                        continue;
                if (count == limit) {
                        char text[64];

                        snprintf(text, sizeof(text), "%lld.%s", (long long)last->record.created_ms,
                                 last->record.id);
                        cursor = json_checked(json_string(text));
                        break;
                }
                json_add(items, session_json(session));
                last = session;
                count++;
        }
        pthread_mutex_unlock(&engine->lock);
        *ret = json_checked(json_pack("{s:o, s:o}", "items", items, "cursor", cursor));
        return 0;
}

/* Kernels and sandboxes */

int engine_park(struct engine *engine, const struct engine_caller *caller, const char *id,
                struct problem *problem) {
        struct session *session;
        struct error err;
        int result = -1;

        pthread_mutex_lock(&engine->lock);
        session = engine_find(engine, caller, id, problem);
        if (session && (session_busy(session) || session->phase == SESSION_OPENING))
                result = problem_set(problem, PROBLEM_BUSY,
                                     "the session is running something, or only starting");
        /* One that is not open is parked, or on its way there. */
        else if (session && session->phase == SESSION_OPEN && session_park(engine, session, &err) < 0)
                result = problem_from_error(
                        problem, err.kind == ERROR_REFUSED ? PROBLEM_BUSY : PROBLEM_PLACE_FAILED, &err);
        else if (session)
                result = 0;
        pthread_mutex_unlock(&engine->lock);
        return result;
}

bool engine_is_parking(struct engine *engine, const struct engine_caller *caller, const char *id) {
        struct session *session;
        struct problem ignored;
        bool parking;

        pthread_mutex_lock(&engine->lock);
        session = engine_find(engine, caller, id, &ignored);
        parking = session && (session->phase == SESSION_PARKING || session->parks_next);
        pthread_mutex_unlock(&engine->lock);
        return parking;
}

int engine_restart(struct engine *engine, const struct engine_caller *caller, const char *id,
                   const char *context, struct problem *problem) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct catalog_agent agent = { 0 };
        struct session *session;
        int result;

        if (context && !content_is_context(context))
                return problem_set(problem, PROBLEM_INVALID,
                                   "context must be 1 to 64 letters, digits, '.', '_' and '-'");
        pthread_mutex_lock(&engine->lock);
        session = engine_find(engine, caller, id, problem);
        if (!session || (session->record.agent &&
                         engine_check_agent(engine, session->record.agent, arena, &agent, problem) < 0)) {
                result = -1;
        } else {
                result = session_restart(session, context ? context : "main", problem);
                session_go_on(engine, session);
        }
        pthread_mutex_unlock(&engine->lock);
        return result;
}

/* For guards */

int engine_users_of(struct engine *engine, const char *environment, size_t *ret_count, json_t **ret_owners) {
        json_t *owners = json_checked(json_array());
        size_t count = 0, index;

        pthread_mutex_lock(&engine->lock);
        for (const struct session *session = engine->first; session; session = session->next) {
                const struct record_session *record = &session->record;
                json_t *row, *found = NULL;

                if (session->gone || strcmp(record->environment, environment) != 0)
                        continue;
                count++;
                json_array_foreach (owners, index, row) {
                        if (strcmp(json_text(row, "owner"), record->owner) == 0)
                                found = row;
                }
                if (found)
                        json_put(found, "sessions", json_integer(json_integer_or(found, "sessions", 0) + 1));
                else if (json_array_size(owners) < 20)
                        json_add(owners, json_pack("{s:s, s:i}", "owner", record->owner, "sessions", 1));
        }
        pthread_mutex_unlock(&engine->lock);
        *ret_count = count;
        *ret_owners = owners;
        return 0;
}
