/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine as a whole: how it begins, its thread, how a session is found.
 *
 * The thread waits with poll(2) for all sandboxes at once, without the lock, and for nothing else: whatever takes long is done by
 * others (engine_jobs.c). It looks for what has expired and what may be parked once a second; who asks for a session that has expired in between does not find it either (engine_find()).
 */
#include "sessions/engine_parts.h"
#include "sessions/engine_seats.h"
#include "sessions/once.h"
#include "sessions/servers.h"
#include "sessions/session_far.h"
#include "sessions/session_parts.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/files.h"
#include "base/json.h"
#include "base/libc.h"
#include "base/log.h"
#include "base/text.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* The thread's own pace, by clock_now_ms(), which no test's clock stops. */
#define SWEEP_MS 1000
/* How long an engine that closes waits for sandboxes that were told to end. */
#define ENDING_MS 10000
#define PURGE_MS ((int64_t)3600 * 1000)
#define PAGE 500
/* Between two looks for sessions that no server sees to: one of which has expired waits no longer for its end. */
#define ORPHANS_MS ((int64_t)600 * 1000)
#define WORD_JOBS "~others" /* no owner has that name: such jobs wait for no owner's */

int64_t engine_now(const struct engine *engine) {
        return engine->config.clock->wall_ms(engine->config.clock);
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
        engine->count -= session->end == SESSION_LIVES;
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
        if (session->end == SESSION_OVER && session->phase == SESSION_NO_PLACE && session->jobs == 0 &&
            !session->unwritten && !session->taken && session->takers == 0 && !session->polled)
                engine_forget_session(engine, session);
}

int engine_not_found(struct problem *problem) {
        return problem_set(problem, PROBLEM_NOT_FOUND, "there is no such session");
}

bool engine_may_use(const struct engine_caller *caller, const char *environment, const char *agent) {
        return (!environment || text_is_permitted(environment, caller->environments)) &&
               (!agent || text_is_permitted(agent, caller->agents));
}

struct session *engine_find_id(struct engine *engine, const char *id) {
        struct session *session = engine->buckets[bucket_of(id)];

        while (session && strcmp(session->record.id, id) != 0)
                session = session->same_bucket;
        return session;
}

static struct session *find_known(struct engine *engine, const struct engine_caller *caller, const char *id,
                                  bool any_owner) {
        struct session *session = record_is_id(id) ? engine_find_id(engine, id) : NULL;
        const struct record_session *record = session ? &session->record : NULL;

        return session && (any_owner || (caller->owner && strcmp(record->owner, caller->owner) == 0)) &&
                               engine_may_use(caller, record->environment, record->agent)
                       ? session
                       : NULL;
}

static struct session *find(struct engine *engine, const struct engine_caller *caller, const char *id,
                            bool any_owner, struct problem *problem) {
        struct session *session = find_known(engine, caller, id, any_owner);

        if (session && session_lives(session) && session_expires_ms(session) > engine_now(engine))
                return session;
        engine_not_found(problem);
        return NULL;
}

struct session *engine_find(struct engine *engine, const struct engine_caller *caller, const char *id,
                            struct problem *problem) {
        return find(engine, caller, id, false, problem);
}

struct session *engine_find_known(struct engine *engine, const struct engine_caller *caller, const char *id) {
        return find_known(engine, caller, id, false);
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

static void park_if_idle(struct engine *engine, struct session *session, int64_t now_ms) {
        int64_t park_ms = engine->config.limits.park_seconds * 1000;
        struct error err;

        if (session->phase != SESSION_OPEN || session_busy(session) ||
            now_ms < session->record.active_ms + park_ms || now_ms < session->park_after_ms)
                return;
        if (session_park(engine, session, &err) == 0 || session->stale)
                return;
        session->park_after_ms = now_ms + park_ms;
        log_debug("session %s: it is not parked: %s", session->record.id, err.message);
}

/*
 * What sandboxes took while they were open lies in pieces all over the heap, between what is kept of each session: the C library gives
 * nothing of it back by itself. By a thread: it takes some milliseconds.
 */
static void give_back_memory(struct engine *engine, struct session *none, void *context) {
        (void)none;
        (void)context;
        pthread_mutex_unlock(&engine->lock);
        heap_give_back();
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

static bool is_followed(const struct session *session) {
        for (const struct engine_follower *follower = session->followers; follower;
             follower = follower->next) {
                if (follower->of_session)
                        return true;
        }
        return false;
}

/* Others may change it without word: who wants to know how it goes has it read. */
static bool is_to_be_looked_at(const struct engine *engine, const struct session *session) {
        return session->end != SESSION_OVER &&
               (session->stale || session->unknown > 0 ||
                (session_lives(session) && !session_far_holds(engine, session) &&
                 (is_followed(session) || session_expires_ms(session) <= engine_now(engine))));
}

/* What has expired ends; what the store did not take is tried again, and what waits for that goes on; what is idle is parked. */
static void tend(struct engine *engine, struct session *session) {
        int64_t now_ms = engine_now(engine);
        struct problem problem;

        if (engine->servers && is_to_be_looked_at(engine, session) &&
            session_far_look(engine, session, &problem) < 0)
                return;
        if (session->far)
                return;
        if (session_lives(session) && session_expires_ms(session) <= now_ms &&
            session_end(engine, session, RECORD_EXPIRED, &problem) < 0 && !session->stale)
                log_warning("session %s: %s", session->record.id, problem.detail);
        if (session->stale || (session->unwritten && !session_write_ends(engine, session)))
                return;
        if (session->record.ending)
                session_go_on(engine, session);
        if (!session_lives(session))
                return;
        if (session->phase == SESSION_OPEN || session->phase == SESSION_NO_PLACE)
                session_go_on(engine, session);
        park_if_idle(engine, session, now_ms);
}

/* By a thread. */
static void tend_soon(struct engine *engine, struct session *session, void *context) {
        (void)context;
        session->tended_soon = false;
        if (!engine->stopping)
                tend(engine, session);
}

/* What tend() is sure to do nothing about needs no thread. */
static bool needs_tending(const struct engine *engine, const struct session *session) {
        int64_t now_ms = engine_now(engine);

        return session->unwritten || is_to_be_looked_at(engine, session) ||
               (session->record.ending && session->end == SESSION_LIVES) ||
               (session_lives(session) && !session->far &&
                (session_expires_ms(session) <= now_ms || session_wants(session) || session->leaving ||
                 session->parks_next || session->bring_wanted > session->brought ||
                 (session->phase == SESSION_OPEN &&
                  now_ms >= session->record.active_ms + engine->config.limits.park_seconds * 1000)));
}

static void write_once_ends(struct engine *engine, struct session *none, void *context) {
        (void)none;
        (void)context;
        once_write_ends(engine);
        engine->writing_once_ends = false;
}

/* By the servers' thread: what a server held that has ended is looked for, and what waited until this one may act goes on. */
static void servers_changed(void *context) {
        struct engine *engine = context;

        pthread_mutex_lock(&engine->lock);
        engine->last_orphans_ms = clock_now_ms() - ORPHANS_MS;
        engine->last_sweep_ms = clock_now_ms() - SWEEP_MS;
        pthread_mutex_unlock(&engine->lock);
        engine_wake(engine);
}

/* What other servers ask of this one, what this one follows there, and what nobody sees to. */
static void look_for_others(struct engine *engine) {
        far_look(engine);
        if (!engine->looks_for_word && !engine->stopping && !servers_alone(engine->servers)) {
                engine->looks_for_word = true;
                engine_job_add(engine, NULL, WORD_JOBS, session_far_read_word, NULL);
        }
        if (!engine->looks_for_orphans && !engine->stopping &&
            clock_now_ms() - engine->last_orphans_ms >= ORPHANS_MS) {
                engine->looks_for_orphans = true;
                engine->last_orphans_ms = clock_now_ms();
                engine_job_add(engine, NULL, WORD_JOBS, session_far_find_orphans, NULL);
        }
}

/* Those of whom all that must be done waits for a store that is shared are left to threads. What has ended is cleared, and then forgotten. */
static void sweep(struct engine *engine) {
        bool shared = engine->config.store->class->shared;
        struct session *next;

        if (!shared) {
                once_write_ends(engine);
        } else if (engine->unwritten_ends && !engine->writing_once_ends) {
                engine->writing_once_ends = true;
                engine_job_add(engine, NULL, "", write_once_ends, NULL);
        }
        if (engine->servers) {
                look_for_others(engine);
                engine_seats_tend(engine);
        }
        for (struct session *session = engine->first; session; session = next) {
                next = session->next;
                if (!shared) {
                        tend(engine, session);
                } else if (!session->tended_soon && !session->taken && needs_tending(engine, session)) {
                        session->tended_soon = true;
                        engine_job_add(engine, session, session->record.owner, tend_soon, NULL);
                }
                session_clear_if_due(engine, session);
                engine_forget_if_over(engine, session);
        }
}

/* Idempotency keys of more than a day ago; the first time others are counted. By a thread: there may be millions. */
static void purge_keys(struct engine *engine, struct session *none, void *context) {
        int64_t now_ms = engine_now(engine);
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
                        struct session_change change = { SESSION_TABLE_KEYS, items[i].key, NULL,
                                                         SESSION_EXPECT_VERSION, items[i].version };

                        if (record_expires_ms(SESSION_TABLE_KEYS, items[i].value) < now_ms &&
                            session_store_write(engine->config.store, &change, 1, &err) < 0)
                                count = 0;
                }
                if (count > 0) {
                        free_text(&after);
                        after = record_copy_text(items[count - 1].key);
                }
                pthread_mutex_lock(&engine->lock);
                for (size_t i = 0; engine->once_counting && i < count; i++)
                        once_count_item(engine, &items[i]);
                arena_clear(arena);
        }
        engine->once_counting = false;
        engine->purging = false;
        arena_free(arena);
}

/* One that was told to end is heard to its end also while the engine closes: who comes later may never come. */
static bool is_heard(const struct engine *engine, const struct session *session) {
        return session->place && (!engine->stopping || !session_lives(session));
}

/* By a thread: what it means is written to a store that is shared. */
static void hear_soon(struct engine *engine, struct session *session, void *context) {
        (void)context;
        session->heard_soon = false;
        if (session->place && is_heard(engine, session))
                session_hear(engine, session);
        if (session->wakes_due)
                engine_followers_wake_due(session);
}

static void hear(struct engine *engine, struct session *session) {
        if (!engine->config.store->class->shared) {
                session_hear(engine, session);
                return;
        }
        session->heard_soon = true;
        engine_job_add(engine, session, session->record.owner, hear_soon, NULL);
}

/* One that somebody has the turn of, or is about to, is not listened to: he wakes us. */
static bool is_listened_to(const struct engine *engine, const struct session *session) {
        return is_heard(engine, session) && !session->taken && !session->heard_soon;
}

static bool has_more_to_hear(const struct engine *engine) {
        if (!engine->stopping)
                return true;
        for (const struct session *session = engine->first; session; session = session->next) {
                if (is_heard(engine, session))
                        return clock_now_ms() < engine->stopping_ms + ENDING_MS;
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
                count += is_listened_to(engine, session);
        *ret = (struct waiting){
                .descriptors = arena_array(arena, count + 1, sizeof(*ret->descriptors)),
                .sessions = arena_array(arena, count + 1, sizeof(*ret->sessions)),
                .due_ms = arena_array(arena, count + 1, sizeof(*ret->due_ms)),
        };
        for (struct session *session = engine->first; session; session = session->next) {
                int64_t patience;

                if (!is_listened_to(engine, session))
                        continue;
                patience = session->tells_more ? 0 : class->patience_ms(session->place);
                session->polled = true;
                ret->sessions[ret->count] = session;
                ret->due_ms[ret->count] = patience < 0 ? INT64_MAX : clock_now_ms() + patience;
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
                left_ms = until_ms - clock_now_ms();
                wake_due(engine);
                pthread_mutex_unlock(&engine->lock);
                poll(waiting.descriptors, waiting.count + 1, left_ms > 0 ? (int)left_ms : 0);
                pthread_mutex_lock(&engine->lock);
                if (waiting.descriptors[waiting.count].revents &&
                    read(engine->wake, &ignored, sizeof(ignored)) < 0 && errno != EAGAIN)
                        abort();
                for (size_t i = 0; i < waiting.count; i++) {
                        waiting.sessions[i]->polled = false;
                        if (waiting.descriptors[i].revents || waiting.due_ms[i] <= clock_now_ms())
                                hear(engine, waiting.sessions[i]);
                }
                if (clock_now_ms() - engine->last_sweep_ms >= SWEEP_MS) {
                        engine->last_sweep_ms = clock_now_ms();
                        sweep(engine);
                        look_at_memory(engine);
                        engine->sandbox_went = true; /* or what others run there has ended */
                }
                if (engine->sandbox_went && !engine->stopping) {
                        engine->sandbox_went = false;
                        engine_serve_line(engine);
                }
                if (!engine->config.store->class->expires &&
                    clock_now_ms() - engine->last_purge_ms >= PURGE_MS) {
                        engine->last_purge_ms = clock_now_ms();
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
                        if (*after == RECORD_OTHERS)
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

/* Those that stood in line stand there again, in the same order. */
static void restore_line(struct engine *engine) {
        for (;;) {
                struct session *next = NULL;

                for (struct session *session = engine->first; session; session = session->next) {
                        if (session->record.queued_ms > 0 && session->in_line == 0 &&
                            session_lives(session) &&
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
                result = engine_revive(engine, sessions[i], err);
        array_free_alone(sessions);
        return result;
}

static int open_servers(struct engine *engine, struct error *err) {
        const struct servers_config config = {
                .store = engine->config.store,
                .number = engine->number,
                .beat_ms = engine->config.beat_ms,
                .silent_ms = engine->config.silent_ms,
                .changed = servers_changed,
                .context = engine,
        };

        return servers_open(&config, &engine->servers, err);
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
        limits->keys_bytes = limits->keys_bytes ? limits->keys_bytes : (uint64_t)512 << 20;
        limits->checkpoint_ms = limits->checkpoint_ms ? limits->checkpoint_ms : 5000;
        random_bytes(number, sizeof(number));
        digest_hex(number, sizeof(number), engine->number);
        pthread_mutex_init(&engine->lock, NULL);
        pthread_cond_init(&engine->turns, NULL);
        engine->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (engine->wake < 0) {
                engine_close(engine);
                return error_set(err, "cannot make an eventfd: %s", strerror(errno));
        }
        if (engine_jobs_start(engine, err) < 0 ||
            (config->store->class->shared && open_servers(engine, err) < 0)) {
                engine_close(engine);
                return -1;
        }
        pthread_mutex_lock(&engine->lock);
        found = session_find_endings(engine, err);
        /* Of a store that others share nothing is known before it is asked for, or nobody else sees to it. */
        if (found == 0 && !engine->servers)
                found = find_sessions(engine, err);
        engine->last_orphans_ms = clock_now_ms() - ORPHANS_MS;
        engine->once_counting = !config->store->class->shared;
        pthread_mutex_unlock(&engine->lock);
        if (found < 0) {
                engine_close(engine);
                return -1;
        }
        engine->last_purge_ms = clock_now_ms() - PURGE_MS;
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
        engine->stopping_ms = clock_now_ms();
        pthread_mutex_unlock(&engine->lock);
        if (engine->started) {
                engine_wake(engine);
                pthread_join(engine->thread, NULL);
        }
        engine_jobs_stop(engine);
        pthread_mutex_lock(&engine->lock);
        engine_seats_close(engine);
        pthread_mutex_unlock(&engine->lock);
        while (engine->first) {
                /* The rest of its end is left to the next server, which may never come. */
                if (!session_lives(engine->first) && engine->first->end != SESSION_OVER)
                        engine_tell_life(engine, engine->first->record.owner, engine->first->record.id);
                if (engine->first->place)
                        engine->config.place->class->leave(engine->first->place);
                engine_forget_session(engine, engine->first);
        }
        pthread_mutex_lock(&engine->lock);
        once_write_ends(engine);
        pthread_mutex_unlock(&engine->lock);
        once_forget_ends(engine);
        once_shares_clear(&engine->once_shares);
        /* From here on others take over what this one held. */
        servers_close(engine->servers);
        engine_notices_free(engine);
        close_descriptor(&engine->wake);
        pthread_cond_destroy(&engine->turns);
        pthread_mutex_destroy(&engine->lock);
        free(engine);
}
