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
#include "sessions/session_far.h"
#include "sessions/session_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ATTEMPTS 8
#define RETRY_MAX_SECONDS 10 /* a client may end one of its own meanwhile */
#define AS_BEFORE 3          /* the session that the key has made */

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

/* Those that live, whichever server has them. */
static int count_of_owner(struct engine *engine, const char *owner, size_t *ret, struct problem *problem) {
        struct engine_listed *listed = NULL;
        size_t count = 0;

        *ret = 0;
        if (!engine->servers) {
                for (const struct session *session = engine->first; session; session = session->next)
                        *ret += session_lives(session) && strcmp(session->record.owner, owner) == 0;
                return 0;
        }
        if (engine->config.limits.per_owner == 0)
                return 0;
        if (engine_list_stored(engine, owner, &listed, &count, problem) < 0)
                return -1;
        for (size_t i = 0; i < count; i++)
                *ret += session_lives(&listed[i].session) &&
                        session_expires_ms(&listed[i].session) > engine_now(engine);
        engine_list_release(listed, count);
        return 0;
}

/* The next end of a session that is counted, the owner's or anybody's, if it comes soon. */
static int64_t seconds_until_room(const struct engine *engine, const char *owner) {
        int64_t least_ms = (int64_t)RETRY_MAX_SECONDS * 1000;

        for (const struct session *session = engine->first; session; session = session->next) {
                int64_t left_ms = session_expires_ms(session) - engine_now(engine);

                if ((!owner || strcmp(session->record.owner, owner) == 0) && left_ms < least_ms)
                        least_ms = left_ms;
        }
        return least_ms > 1000 ? (least_ms + 999) / 1000 : 1;
}

/* Those that are being made count for who came after them: a store that is shared is waited for, and others may ask meanwhile. */
static int check_counts(struct engine *engine, const struct session *unborn, size_t owners,
                        struct problem *problem) {
        const struct engine_limits *limits = &engine->config.limits;
        const char *owner = unborn->record.owner;
        size_t all = engine->count;

        for (const struct session *other = unborn->unborn_before; other; other = other->unborn_before) {
                owners += strcmp(other->record.owner, owner) == 0;
                all++;
        }
        if (limits->per_owner && owners >= limits->per_owner)
                (void)problem_set(problem, PROBLEM_OWNER_LIMIT,
                                  "%s has %zu sessions, as many as an owner may", owner, owners);
        else if (limits->total && all >= limits->total)
                (void)problem_set(problem, PROBLEM_SERVER_LIMIT, "there are %zu sessions, as many as may be",
                                  all);
        else
                return 0;
        problem->retry_seconds =
                seconds_until_room(engine, problem->code == PROBLEM_OWNER_LIMIT ? owner : NULL);
        return -1;
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

/* 1: *ret is the caller's living session of that id; 0: there is none. In a store that is shared another may just have made it. */
static int show_living(struct engine *engine, const struct engine_caller *caller, const char *id,
                       json_t **ret, struct problem *problem) {
        struct record_session record;
        struct session *session;
        struct problem ignored;
        int found;

        if (!engine->config.store->class->shared) {
                session = engine_find(engine, caller, id, &ignored);
                if (session)
                        *ret = session_json(session);
                return session != NULL;
        }
        found = session_far_find(engine, caller, caller->owner, id, &record, problem);
        if (found > 0) {
                *ret = session_far_json(engine, &record);
                record_dispose(&record);
        }
        return found;
}

/* 1: *ret is the living session that the conversation has; 0: it has none, and `change` is what would give it one. */
static int find_conversation(struct engine *engine, const struct engine_caller *caller,
                             const struct record_session *wanted, struct arena *arena,
                             struct session_change *change, json_t **ret, struct problem *problem) {
        struct session_item item = { 0 };
        struct error err;
        int found;

        *change =
                (struct session_change){ SESSION_TABLE_CONVERSATIONS, record_conversation_key(wanted, arena),
                                         wanted->id, SESSION_EXPECT_ABSENT, 0 };
        found = engine_get(engine, SESSION_TABLE_CONVERSATIONS, change->key, arena, &item, &err);
        if (found < 0)
                return problem_from_error(problem, PROBLEM_STORE_FAILED, &err);
        if (found == 0)
                return 0;
        change->expect = SESSION_EXPECT_VERSION;
        change->version = item.version;
        return show_living(engine, caller, item.value, ret, problem);
}

/*
 * 1: its record is written, and it is in memory. 0: *ret is what was there. 2: it is to be looked at again: somebody was faster, or its files were made
 * meanwhile, for which the lock was released.
 */
static int store_session(struct engine *engine, const struct engine_caller *caller,
                         const struct engine_wish *wish, struct session *session, bool *has_files,
                         json_t **ret, struct problem *problem) {
        const struct engine_workspaces *workspaces = engine->config.workspaces;
        const struct record_session *record = &session->record;
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct session_change more[3];
        size_t count = 0, owners;
        int found, made;

        if (wish->conversation) {
                found = find_conversation(engine, caller, record, arena, &more[count++], ret, problem);
                if (found != 0)
                        return found < 0 ? -1 : 0;
        }
        if (wish->once.key)
                more[count++] =
                        once_change(engine, caller, &wish->once, record->id, 0, engine_now(engine), arena);
        if (engine->servers)
                more[count++] = (struct session_change){ SESSION_TABLE_SESSIONS,
                                                         arena_printf(arena, RECORD_OWNER "%s", record->id),
                                                         record->owner, SESSION_EXPECT_ABSENT, 0 };
        if (once_check_room(engine, caller, &wish->once, problem) < 0 ||
            count_of_owner(engine, record->owner, &owners, problem) < 0 ||
            check_counts(engine, session, owners, problem) < 0 ||
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
        once_count(engine, caller, &wish->once);
        engine_add(engine, session);
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

static void forget_unborn(struct engine *engine, struct session *session) {
        struct session **link = &engine->unborn;

        while (*link != session)
                link = &(*link)->unborn_before;
        *link = session->unborn_before;
        session->unborn_before = NULL;
}

/* As store_session(), but for 2; AS_BEFORE where the key has made it. *ret_session is what was made. */
static int make_session(struct engine *engine, const struct engine_caller *caller,
                        const struct engine_wish *wish, const char *environment, struct session **ret_session,
                        json_t **ret, struct problem *problem) {
        struct session *session = new_session(engine, caller, wish, environment);
        struct arena *arena ARENA_CLEANUP = arena_new();
        bool has_files = false;
        int result = 2;

        session->unborn_before = engine->unborn;
        engine->unborn = session;
        for (int attempt = 0; result == 2 && attempt < ATTEMPTS; attempt++) {
                struct once_answer answer = { 0 };
                int seen = once_look(engine, caller, &wish->once, arena, &answer, problem);

                if (seen == 1 && (seen = show_living(engine, caller, answer.session, ret, problem)) == 0)
                        seen = engine_not_found(problem);
                result = seen < 0    ? -1
                         : seen == 1 ? AS_BEFORE
                                     : store_session(engine, caller, wish, session, &has_files, ret, problem);
        }
        forget_unborn(engine, session);
        if (result == 2)
                result = problem_set(problem, PROBLEM_BUSY, "too many make this session at the same time");
        if (result == 1)
                *ret_session = session;
        if (result != 1 && has_files && engine->config.workspaces->remove)
                engine_job_add(engine, NULL, session->record.owner, remove_unborn, session);
        else if (result != 1)
                free_session(session);
        return result;
}

/* 1: its sandbox is being opened, or it stands in line. Where that cannot be, it never was. */
static int begin_session(struct engine *engine, struct session *session, struct problem *problem) {
        struct problem ignored;
        struct error err;

        if (session_open_or_wait(engine, session, false, &err) < 0) {
                bool unfit = err.kind == ERROR_REFUSED && !session->refused; /* else its record was refused */

                if (session_lives(session) && session_end(engine, session, RECORD_UNMADE, &ignored) < 0)
                        log_warning("session %s: %s", session->record.id, ignored.detail);
                return problem_from_error(problem,
                                          err.kind == ERROR_LOCKED ? PROBLEM_AGENT_LIMIT
                                          : unfit                  ? PROBLEM_ENVIRONMENT_UNFIT
                                                                   : PROBLEM_PLACE_FAILED,
                                          &err);
        }
        return session_lives(session)
                       ? 1
                       : problem_set(problem, PROBLEM_BUSY, "the session was ended while it was made");
}

static int create(struct engine *engine, const struct engine_caller *caller, const struct engine_wish *wish,
                  const char *environment, json_t **ret, struct problem *problem) {
        struct session *session = NULL;
        int made = make_session(engine, caller, wish, environment, &session, ret, problem);

        if (made == 1) {
                session_turn_take(session);
                made = begin_session(engine, session, problem);
                session_changed(session);
                if (made == 1)
                        *ret = session_json(session);
                session_turn_give(session);
        }
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
        return result == AS_BEFORE ? 1 : result;
}

int engine_show(struct engine *engine, const struct engine_caller *caller, const char *id, json_t **ret,
                struct problem *problem) {
        struct session *session;

        pthread_mutex_lock(&engine->lock);
        session = session_turn_find(engine, caller, id, caller->observes, SESSION_AS_STORED, problem);
        if (session) {
                if (ret)
                        *ret = session_json(session);
                session_turn_give(session);
        }
        pthread_mutex_unlock(&engine->lock);
        return session ? 0 : -1;
}

/*
 * What anybody may change, whoever holds the session: he is left word. 1; 0: somebody else was faster, and what was to be changed is to
 * be looked at again.
 */
static int session_change_record(struct engine *engine, struct session *session,
                                 const struct session_change *more, struct problem *problem) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct session_change changes[2];
        size_t count = 0;

        if (more)
                changes[count++] = *more;
        if (session->far)
                changes[count++] = session_far_word(session, arena);
        return session_try_record(engine, session, changes, count, problem);
}

static int patch_session(struct engine *engine, struct session *session, const struct engine_patch *patch,
                         json_t **ret, struct problem *problem) {
        struct record_session *record = &session->record;
        const struct record_session old = *record;
        int stored;

        json_incref(old.labels);
        if (patch->labels) {
                json_decref(record->labels);
                record->labels = json_deep_copy(patch->labels);
        }
        record->idle_seconds = patch->idle_seconds ? patch->idle_seconds : record->idle_seconds;
        record->ttl_seconds = patch->ttl_seconds ? patch->ttl_seconds : record->ttl_seconds;
        stored = session_change_record(engine, session, NULL, problem);
        if (stored <= 0) {
                json_decref(record->labels);
                record->labels = old.labels;
                record->idle_seconds = old.idle_seconds;
                record->ttl_seconds = old.ttl_seconds;
                return stored;
        }
        json_decref(old.labels);
        if (session->place &&
            (old.idle_seconds != record->idle_seconds || old.ttl_seconds != record->ttl_seconds))
                session_tell_life(engine, session);
        *ret = session_json(session);
        session_changed(session);
        engine_wake(engine);
        return 1;
}

int engine_patch(struct engine *engine, const struct engine_caller *caller, const char *id,
                 const struct engine_patch *patch, json_t **ret, struct problem *problem) {
        struct session *session;
        int result = 0;

        if (check_labels(patch->labels, problem) < 0 ||
            check_age("idleSeconds", patch->idle_seconds, problem) < 0 ||
            check_age("ttlSeconds", patch->ttl_seconds, problem) < 0)
                return -1;
        pthread_mutex_lock(&engine->lock);
        for (int attempt = 0; result == 0 && attempt < ATTEMPTS; attempt++) {
                session = session_turn_find(engine, caller, id, false, SESSION_AS_STORED, problem);
                result = session ? patch_session(engine, session, patch, ret, problem) : -1;
                if (session)
                        session_turn_give(session);
        }
        pthread_mutex_unlock(&engine->lock);
        if (result > 0 && patch->ttl_seconds)
                engine_tell_life(engine, caller->owner, id);
        return result > 0 ? 0 : -1;
}

int engine_end(struct engine *engine, const struct engine_caller *caller, const char *id,
               struct problem *problem) {
        char *owner = NULL;
        bool again = true;
        int result = -1;

        pthread_mutex_lock(&engine->lock);
        for (int attempt = 0; again && attempt < ATTEMPTS; attempt++) {
                struct session *session =
                        session_turn_find(engine, caller, id, caller->ends_any, SESSION_AS_STORED, problem);

                if (session)
                        result = session_end(engine, session, RECORD_ENDED, problem);
                /* Somebody else has changed it: its end holds all the same. */
                again = session && result < 0 && problem->code == PROBLEM_BUSY;
                if (result == 0)
                        owner = record_copy_text(session->record.owner);
                if (session)
                        session_turn_give(session);
        }
        pthread_mutex_unlock(&engine->lock);
        if (result == 0)
                engine_tell_life(engine, owner, id);
        free(owner);
        return result;
}

/* Kernels and sandboxes */

int engine_park(struct engine *engine, const struct engine_caller *caller, const char *id,
                struct problem *problem) {
        struct session *session;
        struct error err;
        int result = -1;

        pthread_mutex_lock(&engine->lock);
        session = session_turn_find(engine, caller, id, false, SESSION_AS_STORED, problem);
        if (session && (session_busy(session) || session->phase == SESSION_OPENING))
                result = problem_set(problem, PROBLEM_BUSY,
                                     "the session is running something, or only starting");
        /* Another server may have had it last: what that knew is in its record, and nothing but that is parked. */
        else if (session && engine->servers && session->phase == SESSION_NO_PLACE &&
                 !session->record.parked) {
                session->leaving = true;
                result = session_open_place(engine, session, false, &err) < 0
                                 ? problem_from_error(problem, PROBLEM_PLACE_FAILED, &err)
                                 : 0;
                session->leaving = result == 0;
        }
        /* One that is not open is parked, or on its way there. */
        else if (session && session->phase == SESSION_OPEN && session_park(engine, session, &err) < 0)
                result = problem_from_error(
                        problem, err.kind == ERROR_REFUSED ? PROBLEM_BUSY : PROBLEM_PLACE_FAILED, &err);
        else if (session)
                result = 0;
        if (session)
                session_turn_give(session);
        pthread_mutex_unlock(&engine->lock);
        return result;
}

bool engine_is_parking(struct engine *engine, const struct engine_caller *caller, const char *id) {
        struct session *session;
        struct problem ignored;
        bool parking;

        pthread_mutex_lock(&engine->lock);
        session = engine_find(engine, caller, id, &ignored);
        parking = session && (session->phase == SESSION_PARKING || session->parks_next || session->leaving);
        pthread_mutex_unlock(&engine->lock);
        return parking;
}

/*
 * Where servers share the store it stands in the record until it is done: who holds the session does it, and nobody else has the
 * session meanwhile. 1; 0: somebody else was faster.
 */
static int restart_stored(struct engine *engine, struct session *session, const char *context,
                          struct problem *problem) {
        struct record_session *record = &session->record;
        size_t index = json_array_size(record->restarts);
        int stored;

        if (index >= SESSION_CONTEXTS_MAX)
                return problem_set(problem, PROBLEM_BUSY, "%zu kernels already wait for their restart",
                                   index);
        if (!record->restarts)
                record->restarts = json_checked(json_array());
        json_add(record->restarts, json_string(context));
        stored = session_change_record(engine, session, NULL, problem);
        if (stored <= 0) {
                json_array_remove(record->restarts, index);
                return stored;
        }
        return 1;
}

static int restart(struct engine *engine, struct session *session, const char *context,
                   struct problem *problem) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct catalog_agent agent = { 0 };
        int stored;

        if (session->record.agent &&
            engine_check_agent(engine, session->record.agent, arena, &agent, problem) < 0)
                return -1;
        stored = engine->servers ? restart_stored(engine, session, context, problem) : 1;
        if (stored <= 0 || session->far)
                return stored;
        if (session_restart(session, context, problem) < 0)
                return -1;
        session_go_on(engine, session);
        return 1;
}

int engine_restart(struct engine *engine, const struct engine_caller *caller, const char *id,
                   const char *context, struct problem *problem) {
        int result = 0;

        if (context && !content_is_context(context))
                return problem_set(problem, PROBLEM_INVALID,
                                   "context must be 1 to 64 letters, digits, '.', '_' and '-'");
        pthread_mutex_lock(&engine->lock);
        for (int attempt = 0; result == 0 && attempt < ATTEMPTS; attempt++) {
                struct session *session =
                        session_turn_find(engine, caller, id, false, SESSION_AS_STORED, problem);

                result = session ? restart(engine, session, context ? context : "main", problem) : -1;
                if (session)
                        session_turn_give(session);
        }
        pthread_mutex_unlock(&engine->lock);
        return result > 0 ? 0 : -1;
}
