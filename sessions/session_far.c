/* SPDX-License-Identifier: Apache-2.0 */
#include "sessions/session_far.h"

#include "base/array.h"
#include "base/json.h"
#include "base/log.h"
#include "sessions/engine_seats.h"
#include "sessions/servers.h"
#include "sessions/session_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ATTEMPTS 8
#define PAGE 500

/* Nothing but the record is looked at. */
static struct session as_session(struct engine *engine, const struct record_session *record) {
        return (struct session){ .engine = engine, .record = *record, .far = true };
}

bool session_far_lives(const struct engine *engine, const struct engine_caller *caller,
                       const struct record_session *record) {
        const struct session session = { .record = *record, .far = true };

        return session_lives(&session) && session_expires_ms(&session) > engine_now(engine) &&
               engine_may_use(caller, record->environment, record->agent);
}

int session_far_find(struct engine *engine, const struct engine_caller *caller, const char *owner,
                     const char *id, struct record_session *ret, struct problem *problem) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct session_item item = { 0 };
        struct record_session record;
        struct error err;
        int found;

        if (!record_is_id(id))
                return 0;
        found = engine_get(engine, SESSION_TABLE_SESSIONS, record_session_key(owner, id, arena), arena, &item,
                           &err);
        if (found > 0 && record_from_text(&item, &record, &err) < 0)
                found = -1;
        if (found < 0)
                return problem_from_error(problem, PROBLEM_STORE_FAILED, &err);
        if (found == 0)
                return 0;
        /* A key has no more of the owner than a digest. */
        if (strcmp(record.owner, owner) != 0 || strcmp(record.id, id) != 0 ||
            !session_far_lives(engine, caller, &record)) {
                record_dispose(&record);
                return 0;
        }
        *ret = record;
        return 1;
}

json_t *session_far_json(struct engine *engine, const struct record_session *record) {
        const struct session session = as_session(engine, record);

        return session_json(&session);
}

/* What is in memory */

/* Also where the end of what was open is not written yet. */
bool session_far_holds(const struct engine *engine, const struct session *session) {
        return !session->far && (record_is_open(&session->record) || session_busy(session)) &&
               strcmp(session->record.holder, engine->number) == 0;
}

bool session_far_needs_look(const struct session *session, enum session_look look) {
        const struct engine *engine = session->engine;

        if (session->end != SESSION_LIVES)
                return false;
        if (session->stale || session->far)
                return true;
        if (session_far_holds(engine, session))
                return false;
        return look == SESSION_AS_STORED || strcmp(session->record.holder, engine->number) != 0 ||
               session_expires_ms(session) <= engine_now(engine);
}

/* Whose it is, where that is not known. */
static const char *owner_of(struct engine *engine, const char *id, struct arena *arena, int *ret_found,
                            struct error *err) {
        struct session_item item = { 0 };

        *ret_found = engine_get(engine, SESSION_TABLE_SESSIONS, arena_printf(arena, RECORD_OWNER "%s", id),
                                arena, &item, err);
        return *ret_found > 0 ? item.value : NULL;
}

int session_far_load(struct engine *engine, const char *owner, const char *id, struct problem *problem) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct session_item item = { 0 };
        struct record_session record;
        struct session *session;
        struct error err;
        int found = 1;

        if (!record_is_id(id))
                return engine_not_found(problem), 0;
        if (!owner)
                owner = owner_of(engine, id, arena, &found, &err);
        if (found > 0)
                found = engine_get(engine, SESSION_TABLE_SESSIONS, record_session_key(owner, id, arena),
                                   arena, &item, &err);
        if (found > 0 && record_from_text(&item, &record, &err) < 0)
                found = -1;
        if (found < 0)
                return problem_from_error(problem, PROBLEM_STORE_FAILED, &err);
        if (found == 0)
                return engine_not_found(problem), 0;
        /* A key has no more of the owner than a digest; and somebody else may have been faster. */
        if (strcmp(record.owner, owner) != 0 || strcmp(record.id, id) != 0 || engine_find_id(engine, id)) {
                found = engine_find_id(engine, id) != NULL;
                record_dispose(&record);
                return found ? 1 : (engine_not_found(problem), 0);
        }
        session = calloc(1, sizeof(*session));
        if (!session)
                abort();
        session->record = record;
        session->history_stored = session->history_told = record.history_bytes;
        session->ever_open = true; /* somewhere */
        session->told_status = record.ending ? ENGINE_ENDED_STATUS : NULL;
        session->far = record_is_open(&record);
        session->stale = session->far; /* who holds it is looked at before anything else */
        engine_add(engine, session);
        return 1;
}

/* Who has its sandbox open, or is about that, is waited for: it takes a moment. */
static void await_quiet(struct engine *engine, struct session *session) {
        while (!session->place && (session->phase == SESSION_OPENING || session->phase == SESSION_ENDING)) {
                session->takers++;
                session_turn_give(session);
                if (pthread_cond_wait(&engine->turns, &engine->lock) != 0)
                        abort();
                session->takers--;
                session_turn_take(session);
        }
}

/* What this server has had of it is another's by now, or will be read anew. Nothing is written of it, and what it ran runs on. */
static void let_go(struct engine *engine, struct session *session) {
        struct place_session *place = session->place;

        session->place = NULL;
        session->phase = SESSION_NO_PLACE;
        session->heard_id = 0;
        session->bringing = session->parks_next = session->rejoining = session->leaving = false;
        session->tells_more = false;
        session->brought = session->bring_wanted;
        session->unknown = session->number_used = 0;
        engine_seat_drop(engine, session);
        engine_leave_line(engine, session);
        session_forget_restarts(session);
        session_forget_image(session);
        far_follow_instead(engine, session);
        execution_drop(session->running);
        session->running = NULL;
        while (session->waiting > 0)
                execution_drop(session_next_waiting(session));
        while (session->unwritten) {
                struct execution *execution = session->unwritten;

                session->unwritten = execution->next;
                execution_drop(execution);
        }
        if (!place)
                return;
        /* With the turn: nobody else is to see it so. */
        pthread_mutex_unlock(&engine->lock);
        engine->config.place->class->leave(place);
        pthread_mutex_lock(&engine->lock);
}

static void take_record(struct session *session, struct record_session *fresh) {
        record_dispose(&session->record);
        session->record = *fresh;
        *fresh = (struct record_session){ 0 };
        session->history_stored = session->record.history_bytes;
}

static bool has_text(const json_t *list, const char *text) {
        const json_t *item;
        size_t index;

        json_array_foreach (list, index, item) {
                if (strcmp(json_string_value(item) ? json_string_value(item) : "", text) == 0)
                        return true;
        }
        return false;
}

void session_far_heed(struct engine *engine, struct session *session) {
        json_t *interrupts JSON_CLEANUP = session->record.interrupts;
        const json_t *item;
        struct problem ignored;
        size_t index;

        json_array_foreach (session->record.restarts, index, item) {
                const char *context = json_string_value(item);

                if (context && content_is_context(context) && !has_text(session->restarts, context))
                        (void)!session_restart(session, context, &ignored);
        }
        session->record.interrupts = NULL;
        json_array_foreach (interrupts, index, item) {
                struct execution *execution = session->running;

                if (!execution || execution->n != json_integer_value(item)) {
                        execution = session->first_waiting;
                        while (execution && execution->n != json_integer_value(item))
                                execution = execution->next;
                }
                if (execution && !execution->interrupted)
                        session_interrupt(engine, session, execution);
        }
}

/* Of one that this server holds: what others may change is theirs, all else is its own. */
static void merge(struct session *session, struct record_session *fresh) {
        struct record_session *record = &session->record;
        json_t *labels = record->labels;
        const json_t *item;
        size_t index;

        record->version = fresh->version;
        record->labels = fresh->labels;
        fresh->labels = labels;
        record->ending = record->ending ? record->ending : fresh->ending;
        record->idle_seconds = fresh->idle_seconds;
        record->ttl_seconds = fresh->ttl_seconds;
        record->active_ms = fresh->active_ms > record->active_ms ? fresh->active_ms : record->active_ms;
        record->history_bytes += fresh->history_bytes - session->history_stored;
        session->history_stored = fresh->history_bytes;
        if (fresh->last_n > record->last_n) {
                session->unknown += fresh->last_n - record->last_n;
                record->last_n = fresh->last_n;
        }
        if (fresh->trimmed_n > record->trimmed_n)
                record->trimmed_n = fresh->trimmed_n;
        if (fresh->followed_n > record->followed_n)
                record->followed_n = fresh->followed_n;
        json_array_foreach (fresh->restarts, index, item) {
                if (!json_string_value(item) || has_text(record->restarts, json_string_value(item)))
                        continue;
                if (!record->restarts)
                        record->restarts = json_checked(json_array());
                json_add(record->restarts, json_deep_copy(item));
        }
        json_array_foreach (fresh->interrupts, index, item) {
                if (!record->interrupts)
                        record->interrupts = json_checked(json_array());
                json_add(record->interrupts, json_deep_copy(item));
        }
}

/* 1 and the record, to be disposed of; 0: it has gone. */
static int read_record(struct engine *engine, const struct session *session, struct record_session *ret,
                       struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct session_item item = { 0 };
        int found = engine_get(engine, SESSION_TABLE_SESSIONS,
                               record_session_key(session->record.owner, session->record.id, arena), arena,
                               &item, err);

        return found > 0 && record_from_text(&item, ret, err) < 0 ? -1 : found;
}

bool session_far_merge(struct engine *engine, struct session *session) {
        struct record_session fresh = { 0 };
        struct error ignored;
        bool holds;

        if (!session_far_holds(engine, session) || read_record(engine, session, &fresh, &ignored) <= 0)
                return false;
        holds = strcmp(fresh.holder, engine->number) == 0;
        if (holds) {
                merge(session, &fresh);
                session->stale = false;
        }
        record_dispose(&fresh);
        return holds;
}

/*
 * Nobody else sees to what is open of it: this server does from now on, if it is the first to write so. 1: it does; 0: somebody was faster.
 */
static int take_over(struct engine *engine, struct session *session, struct problem *problem) {
        struct error err;
        int taken;

        session->far = false;
        taken = session_try_record(engine, session, NULL, 0, problem);
        if (taken <= 0) {
                session->far = true;
                return taken;
        }
        session->stale = false;
        if (engine_revive(engine, session, &err) < 0) {
                let_go(engine, session);
                session->far = session->stale = true;
                return problem_from_error(problem, PROBLEM_STORE_FAILED, &err);
        }
        session_far_heed(engine, session);
        session_go_on(engine, session);
        session_changed(session);
        return 1;
}

/*
 * Its record still says that this server has what is open of it. Where others could take this server for dead
 * meanwhile, one of them may be about to write: only a write of our own shows that none was first. An end that
 * is still to be written is such a write, and comes next. 1: this server has it; 0: the record has to be read once more.
 */
static int go_on_holding(struct engine *engine, struct session *session, struct record_session *fresh,
                         uint64_t term, struct problem *problem) {
        if (fresh->version != session->record.version)
                merge(session, fresh);
        session->stale = false;
        if (term != 0 && session->term != term && !session->unwritten) {
                int stored = session_try_record(engine, session, NULL, 0, problem);

                if (stored <= 0)
                        return stored;
        }
        if (session->unknown > 0 && !engine_revive_unknown(engine, session))
                return 1;
        session_far_heed(engine, session);
        session_go_on(engine, session);
        return 1;
}

/*
 * The record is another than that which is known. `term` is from before it was read. 1: it is known now; 0: it has to be
 * read once more.
 */
static int take_in(struct engine *engine, struct session *session, struct record_session *fresh,
                   uint64_t term, struct problem *problem) {
        bool is_open = record_is_open(fresh), own = strcmp(fresh->holder, engine->number) == 0;
        bool takes;
        struct error err;
        int lives = 1;

        if (session_far_holds(engine, session) && own)
                return go_on_holding(engine, session, fresh, term, problem);
        if (is_open && !own) {
                pthread_mutex_unlock(&engine->lock);
                lives = servers_lives(engine->servers, fresh->holder, &err);
                pthread_mutex_lock(&engine->lock);
                if (lives < 0)
                        return problem_from_error(problem, PROBLEM_STORE_FAILED, &err);
        }
        takes = is_open && (own || lives == 0);
        if (takes || fresh->version != session->record.version || session_far_holds(engine, session)) {
                let_go(engine, session);
                take_record(session, fresh);
        }
        session->stale = false;
        session->far = is_open;
        session->term = is_open ? 0 : term;
        session_changed(session);
        if (takes)
                return take_over(engine, session, problem);
        if (session->record.ending)
                session_is_over(engine, session, SESSION_OVER);
        return 1;
}

int session_far_look(struct engine *engine, struct session *session, struct problem *problem) {
        int result = 0;

        for (int attempt = 0; result == 0 && attempt < ATTEMPTS; attempt++) {
                struct record_session fresh = { 0 };
                struct error err;
                uint64_t term;
                int found;

                await_quiet(engine, session);
                if (session->end != SESSION_LIVES && !session->stale && session->unknown == 0)
                        return 0;
                term = servers_term(engine->servers);
                found = read_record(engine, session, &fresh, &err);
                if (found < 0)
                        return problem_from_error(problem, PROBLEM_STORE_FAILED, &err);
                if (found == 0) {
                        /* Another server has ended it and cleared what was left. */
                        session->far = session->stale = false;
                        session->unknown = 0;
                        session_is_over(engine, session, SESSION_OVER);
                        return 0;
                }
                result = take_in(engine, session, &fresh, term, problem);
                record_dispose(&fresh);
        }
        if (result == 0)
                return problem_set(problem, PROBLEM_BUSY, "too many change this session at the same time");
        return result < 0 ? -1 : 0;
}

/* Word */

struct session_change session_far_word(const struct session *session, struct arena *arena) {
        return (struct session_change){
                SESSION_TABLE_SESSIONS,
                arena_printf(arena, RECORD_WORD "%s/%s", session->record.holder, session->record.id),
                arena_strdup(arena, session->record.owner), SESSION_EXPECT_NOTHING, 0
        };
}

/* Loads it where it is not in memory, and looks. */
static int look_at(struct engine *engine, const char *owner, const char *id) {
        struct session *session;
        struct problem problem;
        int result;

        while (!(session = engine_find_id(engine, id))) {
                result = session_far_load(engine, owner, id, &problem);
                if (result <= 0)
                        return result;
        }
        session->jobs++;
        session_turn_take(session);
        result = session->end == SESSION_LIVES ? session_far_look(engine, session, &problem) : 0;
        session_turn_give(session);
        session->jobs--;
        engine_forget_if_over(engine, session);
        return result;
}

static int heed_word(struct engine *engine, const char *value, const char *what) {
        if (strncmp(what, ENGINE_SEATS_WORD, strlen(ENGINE_SEATS_WORD)) != 0)
                return look_at(engine, value, what);
        engine_seats_called(engine, value);
        return 0;
}

/* Word that came again meanwhile has another version, and stays. What cannot be seen to now is read again. */
void session_far_read_word(struct engine *engine, struct session *none, void *context) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *prefix = arena_printf(arena, RECORD_WORD "%s/", engine->number);
        struct session_item *items = NULL;
        struct error err;
        size_t count = 0;
        int listed;

        (void)none;
        (void)context;
        pthread_mutex_unlock(&engine->lock);
        listed = session_store_list(engine->config.store, SESSION_TABLE_SESSIONS, prefix, NULL, false, PAGE,
                                    arena, &items, &count, &err);
        pthread_mutex_lock(&engine->lock);
        if (listed < 0)
                log_warning("what other servers ask for cannot be read: %s", err.message);
        for (size_t i = 0; listed == 0 && i < count && !engine->stopping; i++) {
                const struct session_change change = { SESSION_TABLE_SESSIONS, items[i].key, NULL,
                                                       SESSION_EXPECT_VERSION, items[i].version };

                if (heed_word(engine, items[i].value, items[i].key + strlen(prefix)) >= 0 &&
                    engine_write(engine, &change, 1, &err) < 0)
                        log_warning("session %s: %s", items[i].key + strlen(prefix), err.message);
        }
        engine->looks_for_word = false;
}

/* Of a record: it has expired and nobody sees to it, or it is open and its holder does not live. The first is seen to by the sweep. */
static bool is_orphan(struct engine *engine, const struct record_session *record) {
        const struct session session = { .record = *record, .far = true };
        bool expired = session_expires_ms(&session) <= engine_now(engine);
        struct error ignored;

        if (!record_is_open(record))
                return expired;
        return strcmp(record->holder, engine->number) != 0 &&
               servers_lives(engine->servers, record->holder, &ignored) == 0;
}

/* Word for a server that is no more is nobody's: what it was about stands in the sessions' records. */
static void drop_word(struct engine *engine, const struct session_item *item) {
        const char *number = item->key + strlen(RECORD_WORD), *end = strchr(number, '/');
        const struct session_change change = { SESSION_TABLE_SESSIONS, item->key, NULL,
                                               SESSION_EXPECT_VERSION, item->version };
        char holder[RECORD_HOLDER_SIZE];
        struct error ignored;

        if (!end || (size_t)(end - number) >= sizeof(holder))
                return;
        snprintf(holder, sizeof(holder), "%.*s", (int)(end - number), number);
        if (servers_lives(engine->servers, holder, &ignored) == 0)
                (void)!session_store_write(engine->config.store, &change, 1, &ignored);
}

void session_far_find_orphans(struct engine *engine, struct session *none, void *context) {
        const char *after = NULL;
        struct arena *kept ARENA_CLEANUP = arena_new();
        size_t count = PAGE;

        (void)none;
        (void)context;
        while (count == PAGE && !engine->stopping) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                const char *(*orphans)[2] = NULL;
                struct session_item *items;
                struct error err;
                size_t found = 0;

                pthread_mutex_unlock(&engine->lock);
                if (session_store_list(engine->config.store, SESSION_TABLE_SESSIONS, "", after, false, PAGE,
                                       arena, &items, &count, &err) < 0) {
                        log_warning("cannot look for sessions without a server: %s", err.message);
                        count = 0;
                }
                for (size_t i = 0; i < count; i++) {
                        struct record_session record;

                        after = arena_strdup(kept, items[i].key);
                        if (strncmp(items[i].key, RECORD_WORD, strlen(RECORD_WORD)) == 0)
                                drop_word(engine, &items[i]);
                        if (*items[i].key == RECORD_OTHERS || record_from_text(&items[i], &record, &err) < 0)
                                continue;
                        if (is_orphan(engine, &record)) {
                                orphans = array_grow(arena, orphans, found, sizeof(*orphans));
                                orphans[found][0] = arena_strdup(arena, record.owner);
                                orphans[found++][1] = arena_strdup(arena, record.id);
                        }
                        record_dispose(&record);
                }
                pthread_mutex_lock(&engine->lock);
                for (size_t i = 0; i < found && !engine->stopping; i++)
                        (void)look_at(engine, orphans[i][0], orphans[i][1]);
        }
        engine->looks_for_orphans = false;
}
