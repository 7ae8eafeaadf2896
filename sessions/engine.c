/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine as a whole: how it begins, its thread, how a session is found.
 *
 * The thread waits with poll(2) for all sandboxes at once, without the lock, and for nothing else: whatever takes long is done by
 * others (engine_jobs.c). It looks for what has expired and what may be parked once a second; who asks for a session that has expired in between does not find it either (engine_find()).
 */
#include "sessions/engine_parts.h"
#include "sessions/once.h"

#include "base/array.h"
#include "base/digest.h"
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"

#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define SWEEP_MS 1000
/* How long an engine that closes waits for sandboxes that were told to end. */
#define ENDING_MS 10000
#define PURGE_MS ((int64_t)3600 * 1000)
#define PAGE 500

int64_t engine_now(const struct engine *engine) {
        return engine->config.clock->wall_ms(engine->config.clock);
}

/* The thread's own pace, which no test's clock stops. */
static int64_t pace_ms(void) {
        return clock_system.monotonic_ms(&clock_system);
}

void engine_wake(struct engine *engine) {
        const uint64_t one = 1;

        if (write(engine->wake, &one, sizeof(one)) < 0 && errno != EAGAIN)
                abort();
}

/* Finding */

static size_t bucket_of(const char *id) {
        size_t hash = 5381;

        for (; *id; id++)
                hash = hash * 33 + (unsigned char)*id;
        return hash % ENGINE_BUCKETS;
}

static bool is_before(const struct session *one, const struct session *other) {
        if (one->record.created_ms != other->record.created_ms)
                return one->record.created_ms < other->record.created_ms;
        return strcmp(one->record.id, other->record.id) < 0;
}

/* Nearly always the last: the order is that of lists, in which ids decide between two of one millisecond. */
void engine_add(struct engine *engine, struct session *session) {
        struct session **bucket = &engine->buckets[bucket_of(session->record.id)];
        struct session *before = engine->last;

        while (before && is_before(session, before))
                before = before->previous;
        session->same_bucket = *bucket;
        *bucket = session;
        session->previous = before;
        session->next = before ? before->next : engine->first;
        *(before ? &before->next : &engine->first) = session;
        *(session->next ? &session->next->previous : &engine->last) = session;
        engine->count++;
        session->engine = engine;
}

void engine_forget_session(struct engine *engine, struct session *session) {
        struct session **link = &engine->buckets[bucket_of(session->record.id)];

        while (*link != session)
                link = &(*link)->same_bucket;
        *link = session->same_bucket;
        *(session->previous ? &session->previous->next : &engine->first) = session->next;
        *(session->next ? &session->next->previous : &engine->last) = session->previous;
        if (!session->gone)
                engine->count--;
        engine->waiting_bytes -= session->waiting_bytes;
        session_changed(session);
        engine_followers_wake_due(session);
        while (session->followers) {
                struct engine_follower *follower = session->followers;

                session->followers = follower->next;
                follower->session = NULL;
        }
        execution_drop(session->running);
        while (session->unwritten) {
                struct execution *execution = session->unwritten;

                session->unwritten = execution->next;
                execution_drop(execution);
        }
        while (session->first_waiting) {
                struct execution *execution = session->first_waiting;

                session->first_waiting = execution->next;
                execution_drop(execution);
        }
        record_dispose(&session->record);
        session_forget_image(session);
        session_forget_restarts(session);
        free(session);
}

void engine_forget_if_over(struct engine *engine, struct session *session) {
        if (session->gone && session->cleared && session->phase == SESSION_NO_PLACE && session->jobs == 0 &&
            !session->unwritten)
                engine_forget_session(engine, session);
}

int engine_not_found(struct problem *problem) {
        return problem_set(problem, PROBLEM_NOT_FOUND, "there is no such session");
}

static bool is_listed(const char *const *list, const char *name) {
        for (; list && *list; list++) {
                if (strcmp(*list, name) == 0)
                        return true;
        }
        return !list;
}

bool engine_may_use(const struct engine_caller *caller, const char *environment, const char *agent) {
        return is_listed(caller->environments, environment) && (!agent || is_listed(caller->agents, agent));
}

struct session *engine_find_id(struct engine *engine, const char *id) {
        struct session *session = engine->buckets[bucket_of(id)];

        while (session && strcmp(session->record.id, id) != 0)
                session = session->same_bucket;
        return session;
}

static struct session *find(struct engine *engine, const struct engine_caller *caller, const char *id,
                            bool any_owner, struct problem *problem) {
        struct session *session = record_is_id(id) ? engine_find_id(engine, id) : NULL;
        const struct record_session *record = session ? &session->record : NULL;

        if (session && (any_owner || (caller->owner && strcmp(record->owner, caller->owner) == 0)) &&
            !session->gone && session_expires_ms(session) > engine_now(engine) &&
            engine_may_use(caller, record->environment, record->agent))
                return session;
        engine_not_found(problem);
        return NULL;
}

struct session *engine_find(struct engine *engine, const struct engine_caller *caller, const char *id,
                            struct problem *problem) {
        return find(engine, caller, id, false, problem);
}

struct session *engine_find_any(struct engine *engine, const struct engine_caller *caller, const char *id,
                                struct problem *problem) {
        return find(engine, caller, id, true, problem);
}

/* Who else changes it meanwhile may be overtaken: so what was told is looked at again. */
void engine_tell_life(struct engine *engine, const char *owner, const char *id) {
        const struct engine_workspaces *workspaces = engine->config.workspaces;
        const struct engine_caller anyone = { 0 };
        int64_t told_ms = -1;

        for (;;) {
                const struct session *session;
                struct problem problem;
                int64_t life_ms;

                pthread_mutex_lock(&engine->lock);
                session = engine_find_any(engine, &anyone, id, &problem);
                life_ms = session ? session->record.created_ms + session->record.ttl_seconds * 1000 : 0;
                pthread_mutex_unlock(&engine->lock);
                if (life_ms == told_ms)
                        return;
                told_ms = life_ms;
                if (workspaces->set_life(workspaces->context, owner, id, life_ms, &problem) < 0)
                        log_debug("session %s: %s", id, problem.detail);
        }
}

/* The thread */

/* A sandbox of a session that has ended is no more: what was written down so that it would not be forgotten goes. */
static void forget_ending(struct engine *engine, const char *id) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct session_change change = { SESSION_TABLE_SESSIONS, arena_printf(arena, RECORD_ENDING "%s", id),
                                         NULL, SESSION_EXPECT_NOTHING, 0 };
        struct error err;

        if (session_store_write(engine->config.store, &change, 1, &err) < 0)
                log_warning("session %s: %s", id, err.message);
}

static void park_if_idle(struct engine *engine, struct session *session, int64_t now_ms) {
        int64_t park_ms = engine->config.limits.park_seconds * 1000;
        struct error err;

        if (session->phase != SESSION_OPEN || session_busy(session) ||
            now_ms < session->record.active_ms + park_ms || now_ms < session->park_after_ms)
                return;
        if (session_park(engine, session, &err) == 0)
                return;
        session->park_after_ms = now_ms + park_ms;
        log_debug("session %s: it is not parked: %s", session->record.id, err.message);
}

/* By a thread: what is left of one that has ended, and of its sandbox, is removed (a checkpoint, a sandbox that lived unknown to us). */
static void clear_session(struct engine *engine, struct session *session, void *context) {
        const struct engine_workspaces *workspaces = engine->config.workspaces;
        const char *owner = session->record.owner, *id = session->record.id;
        bool tell = !session->life_told, unmade = session->unmade;
        bool counts = !session->forgotten && session->record.history_bytes != session->history_told;
        uint64_t bytes = session->record.history_bytes > 0 ? (uint64_t)session->record.history_bytes : 0;
        struct problem problem;
        struct error err;
        int cleared;

        (void)context;
        if (engine->stopping)
                return;
        pthread_mutex_unlock(&engine->lock);
        if (unmade && workspaces->remove)
                (void)workspaces->remove(workspaces->context, owner, id, &problem);
        else if (tell)
                engine_tell_life(engine, owner, id);
        if (!unmade && counts && workspaces->set_history)
                (void)workspaces->set_history(workspaces->context, owner, id, bytes, &problem);
        cleared = engine->config.place->class->clear(engine->config.place, id, &err);
        pthread_mutex_lock(&engine->lock);
        if (cleared < 0)
                log_warning("session %s: %s", id, err.message);
        else
                forget_ending(engine, id);
        session->life_told = session->cleared = true;
}

/*
 * What sandboxes took while they were open lies in pieces all over the heap, between what is kept of each session: the C library gives
 * nothing of it back by itself. By a thread: it takes some milliseconds.
 */
static void give_back_memory(struct engine *engine, struct session *none, void *context) {
        (void)none;
        (void)context;
        pthread_mutex_unlock(&engine->lock);
        (void)malloc_trim(0);
        pthread_mutex_lock(&engine->lock);
}

/* Whenever as many sandboxes have gone as there are: so where many come and go all the time, it is seldom. */
static void look_at_memory(struct engine *engine) {
        size_t open = 0;

        for (const struct session *session = engine->first; session; session = session->next)
                open += session->phase != SESSION_NO_PLACE;
        if (engine->went == 0 || engine->went < open)
                return;
        engine->went = 0;
        engine_job_add(engine, NULL, "", give_back_memory, NULL);
}

/* What has expired ends; what is idle is parked; what has ended, and its sandbox too, is cleared, and then forgotten. */
static void sweep(struct engine *engine) {
        int64_t now_ms = engine_now(engine);
        struct session *next;

        once_write_ends(engine);
        for (struct session *session = engine->first; session; session = next) {
                struct problem problem;

                next = session->next;
                if (!session->gone && session_expires_ms(session) <= now_ms &&
                    session_end(engine, session, "the session has expired", &problem) < 0)
                        log_warning("session %s: %s", session->record.id, problem.detail);
                /* What the store did not take is tried again, and what waits for that goes on. */
                if (session->unwritten && !session_write_ends(engine, session))
                        continue;
                if (!session->gone) {
                        if (session->phase == SESSION_OPEN || session->phase == SESSION_NO_PLACE)
                                session_go_on(engine, session);
                        park_if_idle(engine, session, now_ms);
                } else if (session->phase == SESSION_NO_PLACE && session->jobs == 0) {
                        if (session->cleared)
                                engine_forget_if_over(engine, session);
                        else
                                engine_job_add(engine, session, session->record.owner, clear_session, NULL);
                }
        }
}

/* Idempotency keys of more than a day ago. By a thread: there may be millions. */
static void purge_keys(struct engine *engine, struct session *none, void *context) {
        int64_t oldest_ms = engine_now(engine) - (int64_t)ENGINE_KEY_SECONDS * 1000;
        struct arena *arena = arena_new();
        char *after TEXT_CLEANUP = NULL;
        struct session_item *items;
        struct error err;
        size_t count = PAGE;

        (void)none;
        (void)context;
        while (count == PAGE && !engine->stopping) {
                bool listed;

                pthread_mutex_unlock(&engine->lock);
                listed = session_store_list(engine->config.store, SESSION_TABLE_KEYS, "", after, false, PAGE,
                                            arena, &items, &count, &err) == 0;
                count = listed ? count : 0;
                for (size_t i = 0; i < count; i++) {
                        json_t *json JSON_CLEANUP = json_loads(items[i].value, 0, NULL);
                        struct session_change change = { SESSION_TABLE_KEYS, items[i].key, NULL,
                                                         SESSION_EXPECT_VERSION, items[i].version };

                        if (json_integer_or(json, "at", 0) < oldest_ms &&
                            session_store_write(engine->config.store, &change, 1, &err) < 0)
                                count = 0;
                }
                if (count > 0) {
                        free_text(&after);
                        after = record_copy_text(items[count - 1].key);
                }
                arena_clear(arena);
                pthread_mutex_lock(&engine->lock);
        }
        engine->purging = false;
        arena_free(arena);
}

/* One that was told to end is heard to its end also while the engine closes: who comes later may never come. */
static bool is_heard(const struct engine *engine, const struct session *session) {
        return session->place && (!engine->stopping || session->gone);
}

static bool has_more_to_hear(const struct engine *engine) {
        if (!engine->stopping)
                return true;
        for (const struct session *session = engine->first; session; session = session->next) {
                if (is_heard(engine, session))
                        return pace_ms() < engine->stopping_ms + ENDING_MS;
        }
        return false;
}

struct waiting {
        struct pollfd *descriptors;
        struct session **sessions;
        int64_t *due_ms; /* of the thread's pace; INT64_MAX: none */
        size_t count;
};

static void gather(struct engine *engine, struct arena *arena, struct waiting *ret) {
        const struct place_class *class = engine->config.place->class;
        size_t count = 0;

        for (struct session *session = engine->first; session; session = session->next)
                count += is_heard(engine, session);
        *ret = (struct waiting){
                .descriptors = arena_array(arena, count + 1, sizeof(*ret->descriptors)),
                .sessions = arena_array(arena, count + 1, sizeof(*ret->sessions)),
                .due_ms = arena_array(arena, count + 1, sizeof(*ret->due_ms)),
        };
        for (struct session *session = engine->first; session; session = session->next) {
                int64_t patience;

                if (!is_heard(engine, session))
                        continue;
                patience = session->tells_more ? 0 : class->patience_ms(session->place);
                ret->sessions[ret->count] = session;
                ret->due_ms[ret->count] = patience < 0 ? INT64_MAX : pace_ms() + patience;
                ret->descriptors[ret->count++] =
                        (struct pollfd){ .fd = class->descriptor(session->place), .events = POLLIN };
        }
        ret->descriptors[ret->count] = (struct pollfd){ .fd = engine->wake, .events = POLLIN };
}

/* Each of them wants the lock next. */
static void wake_due(struct engine *engine) {
        if (!engine->wakes_due)
                return;
        engine->wakes_due = false;
        for (struct session *session = engine->first; session; session = session->next) {
                if (session->wakes_due)
                        engine_followers_wake_due(session);
        }
}

static void *run(void *context) {
        struct engine *engine = context;
        struct arena *arena = arena_new();

        pthread_mutex_lock(&engine->lock);
        while (has_more_to_hear(engine)) {
                struct waiting waiting;
                int64_t until_ms = engine->last_sweep_ms + SWEEP_MS, left_ms;
                uint64_t ignored;

                arena_clear(arena);
                gather(engine, arena, &waiting);
                for (size_t i = 0; i < waiting.count; i++)
                        until_ms = waiting.due_ms[i] < until_ms ? waiting.due_ms[i] : until_ms;
                left_ms = until_ms - pace_ms();
                wake_due(engine);
                pthread_mutex_unlock(&engine->lock);
                poll(waiting.descriptors, waiting.count + 1, left_ms > 0 ? (int)left_ms : 0);
                pthread_mutex_lock(&engine->lock);
                if (waiting.descriptors[waiting.count].revents &&
                    read(engine->wake, &ignored, sizeof(ignored)) < 0 && errno != EAGAIN)
                        abort();
                for (size_t i = 0; i < waiting.count; i++) {
                        if (waiting.descriptors[i].revents || waiting.due_ms[i] <= pace_ms())
                                session_hear(engine, waiting.sessions[i]);
                }
                if (pace_ms() - engine->last_sweep_ms >= SWEEP_MS) {
                        engine->last_sweep_ms = pace_ms();
                        sweep(engine);
                        look_at_memory(engine);
                        engine->sandbox_went = true; /* or what others run there has ended */
                }
                if (engine->sandbox_went && !engine->stopping) {
                        engine->sandbox_went = false;
                        engine_serve_line(engine);
                }
                if (pace_ms() - engine->last_purge_ms >= PURGE_MS) {
                        engine->last_purge_ms = pace_ms();
                        if (!engine->purging)
                                engine_job_add(engine, NULL, "", purge_keys, NULL);
                        engine->purging = true;
                }
        }
        wake_due(engine);
        pthread_mutex_unlock(&engine->lock);
        arena_free(arena);
        return NULL;
}

/* Beginning */

struct ended {
        char *id, *owner;
};

/* A sandbox that was to be ended when the last engine died, perhaps before its workspace heard of it. By a thread. */
static void end_what_was_ending(struct engine *engine, struct session *session, void *context) {
        const struct engine_workspaces *workspaces = engine->config.workspaces;
        struct ended *ended = context;
        struct problem ignored;
        struct error err;
        int cleared;

        (void)session;
        pthread_mutex_unlock(&engine->lock);
        (void)workspaces->set_life(workspaces->context, ended->owner, ended->id, 0, &ignored);
        cleared = engine->config.place->class->clear(engine->config.place, ended->id, &err);
        pthread_mutex_lock(&engine->lock);
        if (cleared < 0)
                log_warning("session %s: %s", ended->id, err.message);
        else
                forget_ending(engine, ended->id);
        free_text(&ended->owner);
        free_text(&ended->id);
        free(ended);
}

static int find_what_was_ending(struct engine *engine, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *after = NULL;
        struct session_item *items;
        size_t count;

        do {
                if (session_store_list(engine->config.store, SESSION_TABLE_SESSIONS, RECORD_ENDING, after,
                                       false, PAGE, arena, &items, &count, err) < 0)
                        return -1;
                for (size_t i = 0; i < count; i++) {
                        struct ended *ended = calloc(1, sizeof(*ended));

                        if (!ended)
                                abort();
                        after = items[i].key;
                        ended->id = record_copy_text(after + strlen(RECORD_ENDING));
                        ended->owner = record_copy_text(items[i].value);
                        engine_job_add(engine, NULL, ended->owner, end_what_was_ending, ended);
                }
        } while (count == PAGE);
        return 0;
}

/* Of one that waited: all of its request is known, and nothing that it was to end with has ended. */
static const char *why_not_begun(const struct execution *execution) {
        return execution->cut ? "nothing of it ran: the server was restarted while it waited, and what "
                                "was asked was not kept"
               : execution->connected ? "nothing of it ran: its client's connection ended with the server"
                                      : NULL;
}

static struct execution *revive(struct engine *engine, const struct record_session *record, int64_t n,
                                const json_t *json) {
        const struct engine_workspaces *workspaces = engine->config.workspaces;
        const char *sha256 = execution_request_elsewhere(json), *staged = json_text(json, "staged");
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        json_t *request JSON_CLEANUP = NULL;
        char found[SHA256_HEX_SIZE];

        if (sha256 && staged && workspaces->staged_request &&
            workspaces->staged_request(workspaces->context, record->owner, record->id, staged, &text) == 0) {
                digest_sha256_hex(strbuf_text(&text), text.length, found);
                if (strcmp(found, sha256) == 0)
                        request =
                                json_loads(strbuf_text(&text), JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
        }
        return execution_revive(n, json, request);
}

static void keep_staged(struct engine *engine, const struct session *session) {
        const struct engine_workspaces *workspaces = engine->config.workspaces;
        const char *names[ENGINE_QUEUE_MAX + 2];
        size_t count = 0;

        if (session->running && session->running->staged)
                names[count++] = session->running->staged;
        for (const struct execution *waiting = session->first_waiting;
             waiting && count < ENGINE_QUEUE_MAX + 2; waiting = waiting->next) {
                if (waiting->staged)
                        names[count++] = waiting->staged;
        }
        if (workspaces->keep_staged)
                workspaces->keep_staged(workspaces->context, session->record.owner, session->record.id, names,
                                        count);
}

/*
 * What had not ended when the last engine died. What its sandbox was given last may run on, if that lives: the place will say.
 * What waited was given to no sandbox, and waits on: it is begun once, by this engine or by one that comes after it.
 */
static int revive_executions(struct engine *engine, struct session *session, struct error *err) {
        const struct record_session *record = &session->record;
        int64_t last_n = record->last_n;

        for (int64_t n = record->oldest_n; n <= last_n; n++) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                struct execution_owner owner = { record->id, record->environment, NULL };
                struct session_item item = { 0 };
                json_t *json JSON_CLEANUP = NULL;
                struct execution *execution;
                int found = session_store_get(engine->config.store, SESSION_TABLE_EXECUTIONS,
                                              record_execution_key(record->owner, record->id, n, arena),
                                              arena, &item, err);

                if (found < 0)
                        return -1;
                json = found ? execution_read_record(item.value) : NULL;
                if (!json || json_object_get(json_object_get(json, "result"), "exitCode"))
                        continue;
                execution = revive(engine, record, n, json);
                if (execution)
                        execution->record_bytes = (int64_t)strlen(item.value);
                if (!execution)
                        return error_set(err, "the record of execution %lld of session %s makes no sense",
                                         (long long)n, record->id);
                if (n == record->taken_n) {
                        execution->status = EXECUTION_RUNNING;
                        execution->interrupted = execution->connected;
                        session->running = execution;
                        continue;
                }
                if (!why_not_begun(execution) && n > record->taken_n) {
                        session_wait(session, execution);
                        continue;
                }
                execution_cut_off(execution, &owner,
                                  execution->connected && !execution->cut ? REPORT_INTERRUPTED
                                                                          : REPORT_FAILED,
                                  why_not_begun(execution), engine_now(engine));
                session_execution_ended(engine, session, execution);
        }
        keep_staged(engine, session);
        return 0;
}

static int compare_ages(const void *a, const void *b) {
        const struct session *one = *(struct session *const *)a, *other = *(struct session *const *)b;

        return is_before(one, other) ? -1 : is_before(other, one);
}

static int load_sessions(struct engine *engine, struct session ***ret, size_t *ret_count, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *after = NULL;
        struct session_item *items;
        size_t count;

        do {
                if (session_store_list(engine->config.store, SESSION_TABLE_SESSIONS, "", after, false, PAGE,
                                       arena, &items, &count, err) < 0)
                        return -1;
                for (size_t i = 0; i < count; i++) {
                        struct record_session record;
                        struct session *session;

                        after = items[i].key;
                        if (strncmp(after, RECORD_ENDING, strlen(RECORD_ENDING)) == 0)
                                continue;
                        if (record_from_text(&items[i], &record, err) < 0)
                                return -1;
                        session = calloc(1, sizeof(*session));
                        if (!session)
                                abort();
                        session->record = record;
                        *ret = array_grow_alone(*ret, *ret_count, sizeof(struct session *));
                        (*ret)[(*ret_count)++] = session;
                }
        } while (count == PAGE);
        return 0;
}

/*
 * Joins the sandbox, if it lives: that of one which is parked does where the last engine died between its record and the end of the
 * sandbox. Nothing is started.
 */
static int rejoin(struct engine *engine, struct session *session, struct error *err) {
        struct error failure = { 0 };

        if (revive_executions(engine, session, err) < 0)
                return -1;
        session->ever_open = true; /* before this engine was */
        if (session_open_place(engine, session, true, &failure) == 0)
                engine_leave_line(engine, session);
        /* Of one that is parked nothing ran. */
        else if (!session->record.parked || session->running)
                session_died_alone(
                        engine, session,
                        failure.kind == ERROR_NOT_FOUND
                                ? "cut off: the server was restarted, and its sandbox did not live any more"
                                : "cut off: the server was restarted, and its sandbox cannot be found");
        return 0;
}

/* Those that stood in line stand there again, in the same order. */
static void restore_line(struct engine *engine) {
        for (;;) {
                struct session *next = NULL;

                for (struct session *session = engine->first; session; session = session->next) {
                        if (session->record.queued_ms > 0 && session->in_line == 0 &&
                            (!next || session->record.queued_ms < next->record.queued_ms))
                                next = session;
                }
                if (!next)
                        return;
                next->in_line = ++engine->last_in_line;
                engine->last_queued_ms = next->record.queued_ms;
        }
}

static int find_sessions(struct engine *engine, struct error *err) {
        struct session **sessions = NULL;
        size_t count = 0;
        int result = load_sessions(engine, &sessions, &count, err);

        if (count > 0)
                qsort(sessions, count, sizeof(struct session *), compare_ages);
        for (size_t i = 0; i < count; i++)
                engine_add(engine, sessions[i]);
        restore_line(engine);
        for (size_t i = 0; i < count && result == 0; i++)
                result = rejoin(engine, sessions[i], err);
        array_free_alone(sessions);
        return result;
}

int engine_open(const struct engine_config *config, struct engine **ret, struct error *err) {
        struct engine *engine = calloc(1, sizeof(*engine));
        struct engine_limits *limits;
        uint8_t number[16];
        int code, found;

        if (!engine)
                abort();
        engine->config = *config;
        limits = &engine->config.limits;
        limits->idle_seconds = limits->idle_seconds ? limits->idle_seconds : 3600;
        limits->ttl_seconds = limits->ttl_seconds ? limits->ttl_seconds : 86400;
        limits->park_seconds = limits->park_seconds ? limits->park_seconds : 300;
        limits->checkpoint_bytes = limits->checkpoint_bytes ? limits->checkpoint_bytes : (uint64_t)256 << 20;
        limits->history_whole = limits->history_whole ? limits->history_whole : 100;
        limits->history_most = limits->history_most ? limits->history_most : 10000;
        limits->checkpoint_ms = limits->checkpoint_ms ? limits->checkpoint_ms : 5000;
        engine->config.thread_idle_ms = config->thread_idle_ms ? config->thread_idle_ms : 60000;
        random_bytes(number, sizeof(number));
        digest_hex(number, sizeof(number), engine->number);
        pthread_mutex_init(&engine->lock, NULL);
        engine->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (engine->wake < 0) {
                engine_close(engine);
                return error_set(err, "cannot make an eventfd: %s", strerror(errno));
        }
        if (engine_jobs_start(engine, err) < 0) {
                engine_close(engine);
                return -1;
        }
        pthread_mutex_lock(&engine->lock);
        found = find_what_was_ending(engine, err) < 0 || find_sessions(engine, err) < 0 ? -1 : 0;
        pthread_mutex_unlock(&engine->lock);
        if (found < 0) {
                engine_close(engine);
                return -1;
        }
        engine->last_purge_ms = pace_ms() - PURGE_MS;
        code = pthread_create(&engine->thread, NULL, run, engine);
        if (code != 0) {
                engine_close(engine);
                return error_set(err, "cannot start a thread: %s", strerror(code));
        }
        engine->started = true;
        *ret = engine;
        return 0;
}

void engine_close(struct engine *engine) {
        if (!engine)
                return;
        pthread_mutex_lock(&engine->lock);
        engine->stopping = true;
        engine->stopping_ms = pace_ms();
        pthread_mutex_unlock(&engine->lock);
        if (engine->started) {
                engine_wake(engine);
                pthread_join(engine->thread, NULL);
        }
        engine_jobs_stop(engine);
        while (engine->first) {
                if (engine->first->gone && !engine->first->life_told)
                        engine_tell_life(engine, engine->first->record.owner, engine->first->record.id);
                if (engine->first->place)
                        engine->config.place->class->leave(engine->first->place);
                engine_forget_session(engine, engine->first);
        }
        once_write_ends(engine);
        once_forget_ends(engine);
        engine_notices_free(engine);
        close_descriptor(&engine->wake);
        pthread_mutex_destroy(&engine->lock);
        free(engine);
}
