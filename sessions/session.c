/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One session: its sandbox, its line of executions, its end.
 *
 * An execution's record is written when it is put in line, and again when it has ended; the place is told that its events were heard
 * only after the second. So whatever dies in between, either the place tells the end once more to whoever comes next, or the
 * record says that nobody knows. `taken_n` in the session's record is written before a sandbox gets an execution: an engine that
 * starts knows by it which of them may have begun.
 */
#include "sessions/engine_parts.h"
#include "sessions/history.h"

#include "base/files.h"
#include "base/json.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

/* Of events that the place keeps until they are heard: from there on its code would soon have to wait. */
#define UNHEARD_ENOUGH (PLACE_UNHEARD_MAX / 4)
/* Of one sandbox, before the others are heard. */
#define EVENTS_AT_ONCE 256
/* A sandbox has eight at most, and the next one others: more than this are not remembered. */
#define CONTEXTS_MAX 64

const char *session_status(const struct session *session) {
        if (session->in_line > 0)
                return "queued";
        if (session->running || session->waiting > 0)
                return session->ever_open || session->record.parked ? "running" : "starting";
        if (session->phase == SESSION_OPENING && !session->ever_open)
                return "starting";
        return session->record.parked && session->phase == SESSION_NO_PLACE ? "parked" : "idle";
}

bool session_busy(const struct session *session) {
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
        if (index == CONTEXTS_MAX)
                return problem_set(problem, PROBLEM_BUSY, "%zu kernels are to be restarted already", index);
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
        return session->phase == SESSION_OPEN && !session_busy(session) && !session->gone &&
               !session->leaving && !session->restarts && !session->bringing &&
               session->bring_wanted <= session->brought;
}

int64_t session_expires_ms(const struct session *session) {
        const struct record_session *record = &session->record;
        int64_t age = record->created_ms + record->ttl_seconds * 1000;
        int64_t idle = record->active_ms + record->idle_seconds * 1000;

        return session_busy(session) || age < idle ? age : idle;
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
        const char *status = session->gone ? ENGINE_ENDED_STATUS : session_status(session);

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

/* That it began or ended: what it said is its owner's alone. */
static void tell_execution(struct session *session, const struct execution *execution) {
        engine_tell(session, "execution", execution->n,
                    execution->result ? json_text(execution->result, "status") : "running");
}

int session_store_record(struct engine *engine, struct session *session, const struct session_change *more,
                         size_t count, struct problem *problem) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        char *text = record_to_text(&session->record);
        struct session_change changes[SESSION_CHANGES_MAX] = {
                { SESSION_TABLE_SESSIONS,
                  record_session_key(session->record.owner, session->record.id, arena), text,
                  session->record.version ? SESSION_EXPECT_VERSION : SESSION_EXPECT_ABSENT,
                  session->record.version },
        };
        struct error err;
        int stored;

        for (size_t i = 0; i < count; i++)
                changes[i + 1] = more[i];
        stored = session_store_write(engine->config.store, changes, count + 1, &err);
        free(text);
        if (stored < 0)
                return problem_from_error(problem, PROBLEM_STORE_FAILED, &err);
        if (stored == 0)
                return problem_set(problem, PROBLEM_BUSY,
                                   "the session was changed by somebody else meanwhile");
        session->record.version++;
        return 0;
}

/* What cannot be told to anybody who asked: the session goes on, and its record is as it was. */
static void store_or_warn(struct engine *engine, struct session *session, const struct session_change *more,
                          size_t count) {
        struct problem problem;

        if (session_store_record(engine, session, more, count, &problem) < 0)
                log_warning("session %s: its record cannot be written: %s", session->record.id,
                            problem.detail);
}

/* Executions */

/* Asked once for each sandbox, which has that image as long as it lives: what was applied is read anew for each question. */
static void describe_owner(struct engine *engine, struct session *session, struct arena *arena,
                           struct execution_owner *ret) {
        struct catalog_environment environment = { 0 };
        struct error ignored;

        if (!session->described &&
            engine->config.catalog->environment(engine->config.catalog, session->record.environment, arena,
                                                &environment, &ignored) == 1) {
                session->described = true;
                session->image_digest = environment.image_digest ? strdup(environment.image_digest) : NULL;
        }
        *ret = (struct execution_owner){ session->record.id, session->record.environment,
                                         session->image_digest };
}

void session_forget_image(struct session *session) {
        free(session->image_digest);
        session->image_digest = NULL;
        session->described = false;
}

/* The least number of those whose end is not written: from there on, whoever comes after us has to look. */
static int64_t oldest_open(const struct session *session) {
        int64_t oldest = session->running         ? session->running->n
                         : session->first_waiting ? session->first_waiting->n
                                                  : session->record.last_n + 1;

        for (const struct execution *ended = session->unwritten; ended; ended = ended->next)
                oldest = ended->n < oldest ? ended->n : oldest;
        return oldest;
}

static int write_end(struct engine *engine, struct session *session, struct execution *execution,
                     struct problem *problem) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        char *text = execution_record(execution, session->record.environment, session->record.agent);
        const struct session_change change = {
                SESSION_TABLE_EXECUTIONS,
                record_execution_key(session->record.owner, session->record.id, execution->n, arena),
                text,
                SESSION_EXPECT_NOTHING,
                0,
        };
        int64_t old_bytes = session->record.history_bytes, old_record = execution->record_bytes;
        struct error err;
        int result = 0;

        session->record.active_ms = engine_now(engine);
        session->record.oldest_n = oldest_open(session);
        if (!session->forgotten) {
                history_count(session, execution, text);
                if (!session->gone)
                        result = session_store_record(engine, session, &change, 1, problem);
                else if (session_store_write(engine->config.store, &change, 1, &err) < 0)
                        result = problem_from_error(problem, PROBLEM_STORE_FAILED, &err);
        }
        free(text);
        if (result < 0) {
                session->record.history_bytes = old_bytes;
                execution->record_bytes = old_record;
                return -1;
        }
        if (!session->forgotten)
                history_trim(engine, session, execution->n);
        history_tell(engine, session, false);
        return 0;
}

/*
 * Where the end cannot be written (a full disk), nobody hears of it: it is tried again and again, the place keeps it meanwhile for whoever
 * comes after us, and nothing else begins.
 */
void session_execution_ended(struct engine *engine, struct session *session, struct execution *execution) {
        struct execution **last = &session->unwritten;
        struct problem problem;

        tell_execution(session, execution);
        engine_watch_end(engine, execution);
        if (!session->unwritten && write_end(engine, session, execution, &problem) == 0) {
                engine_followers_wake(session, execution);
                session_changed(session);
                execution_drop(execution);
                return;
        }
        if (!session->unwritten)
                log_warning("session %s: the end of execution %lld cannot be written: %s", session->record.id,
                            (long long)execution->n, problem.detail);
        execution->unwritten = true;
        execution->next = NULL;
        while (*last)
                last = &(*last)->next;
        *last = execution;
}

bool session_write_ends(struct engine *engine, struct session *session) {
        struct execution *execution;

        while ((execution = session->unwritten)) {
                struct problem ignored;

                session->unwritten = execution->next;
                if (write_end(engine, session, execution, &ignored) < 0) {
                        session->unwritten = execution;
                        return false;
                }
                execution->unwritten = false;
                engine_followers_wake(session, execution);
                session_changed(session);
                execution_drop(execution);
        }
        if (session->place && session->heard_id > 0)
                engine->config.place->class->heard(session->place, session->heard_id);
        session->heard_id = 0;
        return true;
}

/* Of events whose meaning is written. */
static void tell_heard(struct engine *engine, struct session *session, uint64_t id) {
        if (session->unwritten)
                session->heard_id = id;
        else
                engine->config.place->class->heard(session->place, id);
}

static void count_waiting(struct session *session, const struct execution *execution) {
        session->waiting++;
        session->waiting_bytes += execution->asked_bytes;
        session->engine->waiting_bytes += execution->asked_bytes;
}

static void count_no_more(struct session *session, const struct execution *execution) {
        session->waiting--;
        session->waiting_bytes -= execution->asked_bytes;
        session->engine->waiting_bytes -= execution->asked_bytes;
}

void session_wait(struct session *session, struct execution *execution) {
        *(session->last_waiting ? &session->last_waiting->next : &session->first_waiting) = execution;
        session->last_waiting = execution;
        count_waiting(session, execution);
}

/* It was taken from there, and nothing of it has begun. */
static void wait_again(struct session *session, struct execution *execution) {
        execution->status = EXECUTION_QUEUED;
        execution->begun_ms = 0;
        execution->next = session->first_waiting;
        session->first_waiting = execution;
        session->last_waiting = session->last_waiting ? session->last_waiting : execution;
        count_waiting(session, execution);
}

/* From the line; the caller's then. */
static struct execution *next_waiting(struct session *session) {
        struct execution *execution = session->first_waiting;

        session->first_waiting = execution->next;
        if (!session->first_waiting)
                session->last_waiting = NULL;
        count_no_more(session, execution);
        return execution;
}

/* By a thread: they may be many. */
static void drop_staged(struct engine *engine, struct session *session, void *context) {
        const struct engine_workspaces *workspaces = engine->config.workspaces;
        char *staged TEXT_CLEANUP = context;

        pthread_mutex_unlock(&engine->lock);
        workspaces->drop_staged(workspaces->context, session->record.owner, session->record.id, staged);
        pthread_mutex_lock(&engine->lock);
}

static void end_waiting(struct engine *engine, struct session *session, struct execution *execution,
                        enum report_status status, const char *detail) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct execution_owner owner;

        if (execution->staged && engine->config.workspaces->drop_staged)
                engine_job_add(engine, session, session->record.owner, drop_staged,
                               record_copy_text(execution->staged));
        describe_owner(engine, session, arena, &owner);
        execution_cut_off(execution, &owner, status, detail, engine_now(engine));
        session_execution_ended(engine, session, execution);
}

void session_cut_off_running(struct engine *engine, struct session *session, enum report_status status,
                             const char *detail) {
        struct execution *running = session->running;

        if (!running)
                return;
        session->running = NULL;
        end_waiting(engine, session, running, status, detail);
}

void session_cut_off(struct engine *engine, struct session *session, enum report_status status,
                     const char *detail) {
        session_cut_off_running(engine, session, status, detail);
        while (session->waiting > 0)
                end_waiting(engine, session, next_waiting(session), status, detail);
}

void session_interrupt(struct engine *engine, struct session *session, struct execution *execution) {
        struct execution **link = &session->first_waiting, *before = NULL;

        if (execution == session->running) {
                execution->interrupted = true;
                if (session->phase == SESSION_OPEN)
                        engine->config.place->class->interrupt(session->place, execution->n);
                return;
        }
        while (*link && *link != execution) {
                before = *link;
                link = &before->next;
        }
        if (!*link)
                return;
        *link = execution->next;
        if (session->last_waiting == execution)
                session->last_waiting = before;
        count_no_more(session, execution);
        end_waiting(engine, session, execution, REPORT_INTERRUPTED,
                    "nothing of it ran: it was interrupted while it waited");
}

/* The sandbox */

/* Those that lived when it was parked come first; a sandbox has no more than these. */
static json_t *contexts_to_restore(const struct record_session *record) {
        json_t *contexts = json_checked(json_array()), *state;
        const char *context;

        for (int lived = 1; lived >= 0; lived--) {
                json_object_foreach (record->contexts, context, state) {
                        if (json_is_null(state) == lived && json_array_size(contexts) < PLACE_CONTEXTS_MAX)
                                json_add(contexts, json_string(context));
                }
        }
        return contexts;
}

/* What its record says of it, copied where that may change while it is being opened; the rest is borrowed from it. */
static struct place_opening opening_of(const struct engine *engine, const struct record_session *record,
                                       struct arena *arena) {
        const struct engine_workspaces *workspaces = engine->config.workspaces;
        struct place_checkpoint *checkpoint = arena_alloc(arena, sizeof(*checkpoint));

        *checkpoint = record->checkpoint;
        return (struct place_opening){
                .id = record->id,
                .environment = record->environment,
                .agent = record->agent,
                .owner = record->owner,
                .workspace = workspaces->path(workspaces->context, record->id, arena),
                .checkpoint = checkpoint->digest[0] ? checkpoint : NULL,
                .checkpoint_bytes_max = engine->config.limits.checkpoint_bytes,
        };
}

int session_open_place(struct engine *engine, struct session *session, bool only_living, struct error *err) {
        const struct place_class *class = engine->config.place->class;
        struct arena *arena ARENA_CLEANUP = arena_new();
        const struct record_session *record = &session->record;
        int64_t ttl_seconds = record->ttl_seconds;
        int64_t ends_ms = record->created_ms + ttl_seconds * 1000, left_ms = ends_ms - engine_now(engine);
        json_t *contexts JSON_CLEANUP = contexts_to_restore(record);
        struct place_opening opening = opening_of(engine, record, arena);
        struct place_session *place = NULL;
        int opened;

        opening.ttl_ms = left_ms > 1 ? left_ms : 1;
        opening.only_living = only_living;
        opening.running = session->running ? session->running->n : 0;
        opening.running_ms = session->running ? session->running->timeout_seconds * 1000 : 0;
        opening.contexts = contexts;
        opening.checkpoint_ms = engine->config.limits.checkpoint_ms;
        session->phase = SESSION_OPENING;
        session->rejoining = only_living;
        pthread_mutex_unlock(&engine->lock);
        opened = class->open(engine->config.place, &opening, &place, err);
        pthread_mutex_lock(&engine->lock);
        if (opened < 0) {
                session->phase = SESSION_NO_PLACE;
                session->rejoining = false;
                return -1;
        }
        session->place = place;
        if (record->ttl_seconds != ttl_seconds) {
                left_ms = record->created_ms + record->ttl_seconds * 1000 - engine_now(engine);
                class->expire(place, left_ms > 1 ? left_ms : 1);
        }
        if (session->gone)
                session_go_on(engine, session);
        engine_wake(engine);
        return 0;
}

int session_park(struct engine *engine, struct session *session, struct error *err) {
        /* Who reads its files would hold it up for as long as he likes: it is next. */
        if (session->bringing) {
                session->parks_next = true;
                return 0;
        }
        if (engine->config.place->class->park(session->place, err) < 0)
                return -1;
        session->phase = SESSION_PARKING;
        session_changed(session);
        engine_wake(engine);
        return 0;
}

static void be_parked(struct session *session, const struct place_checkpoint *checkpoint, int64_t now_ms) {
        session->record.checkpoint = *checkpoint;
        session->record.checkpoint_ms = now_ms;
        session->record.parked = true;
}

/*
 * Whether the worker parked it by itself, when it does not live any more; the record says so then. Without the lock meanwhile, since what
 * it has left is read whole.
 */
static bool adopt(struct engine *engine, struct session *session) {
        const struct place_class *class = engine->config.place->class;
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct record_session *record = &session->record;
        struct place_opening opening = opening_of(engine, record, arena);
        int64_t taken_n = record->taken_n;
        struct place_checkpoint checkpoint;
        struct error err = { 0 };
        int found;

        if (!class->adopt)
                return false;
        pthread_mutex_unlock(&engine->lock);
        found = class->adopt(engine->config.place, &opening, taken_n, &checkpoint, &err);
        pthread_mutex_lock(&engine->lock);
        if (found < 0)
                log_warning("session %s: what its worker has left is of no use: %s", record->id, err.message);
        if (found <= 0 || session->gone)
                return false;
        be_parked(session, &checkpoint, engine_now(engine));
        store_or_warn(engine, session, NULL, 0);
        return true;
}

/* The session's and the execution's own, which comes first; a new reference, or NULL. */
static json_t *all_variables(const struct session *session, const struct execution *execution) {
        json_t *all;

        if (!session->record.variables)
                return execution->variables ? json_incref(execution->variables) : NULL;
        all = json_checked(json_copy(session->record.variables));
        if (execution->variables && json_object_update(all, execution->variables) < 0)
                abort();
        return all;
}

/* False: its record cannot be written, or its sandbox is dying and the next one gets it; it waits on. */
static bool give_next(struct engine *engine, struct session *session) {
        const struct place_class *class = engine->config.place->class;
        struct execution *execution = next_waiting(session);
        json_t *variables JSON_CLEANUP = all_variables(session, execution);
        struct place_execution given = {
                .n = execution->n,
                .language = execution->language,
                .context = execution->context,
                .code = execution->code,
                .code_length = execution->code_length,
                .input = execution->input,
                .input_length = execution->input_length,
                .variables = variables,
                .timeout_ms = execution->timeout_seconds * 1000,
                .staged = execution->staged,
        };
        int64_t was_taken =
                session->record.taken_n < execution->n ? session->record.taken_n : execution->taken_before;
        bool written = session->record.taken_n == execution->n; /* of one that did not wait */
        bool was_parked = session->record.parked;
        struct problem problem;
        struct error err;

        execution->status = EXECUTION_RUNNING;
        execution->begun_ms = engine_now(engine);
        session->record.taken_n = execution->n;
        session->record.active_ms = execution->begun_ms;
        session->record.parked = false;
        if (!written && session_store_record(engine, session, NULL, 0, &problem) < 0) {
                session->record.taken_n = was_taken;
                session->record.parked = was_parked;
                wait_again(session, execution);
                return false;
        }
        execution->taken_before = was_taken;
        if (class->execute(session->place, &given, &err) < 0) {
                struct strbuf detail STRBUF_CLEANUP = STRBUF_INIT;

                session->record.taken_n = was_taken;
                if (err.kind == ERROR_UNREACHABLE) {
                        wait_again(session, execution);
                        store_or_warn(engine, session, NULL, 0);
                        return false;
                }
                strbuf_printf(&detail, "nothing of it ran: %s", err.message);
                end_waiting(engine, session, execution, REPORT_FAILED, strbuf_text(&detail));
                return true;
        }
        session->running = execution;
        session->just_brought = false;
        tell_execution(session, execution);
        if (execution->interrupted)
                class->interrupt(session->place, execution->n);
        session_changed(session);
        return true;
}

/* By a thread: that its sandbox is opened, or that it cannot be. */
static void open_wanted(struct engine *engine, struct session *session, void *context) {
        struct strbuf detail STRBUF_CLEANUP = STRBUF_INIT;
        struct error err;

        (void)context;
        session->wanted = false;
        if (engine->stopping || session->gone || session->phase != SESSION_NO_PLACE || session->in_line > 0 ||
            !session_wants(session))
                return;
        if (session_open_or_wait(engine, session, true, &err) < 0) {
                strbuf_printf(&detail, "nothing of it ran: %s", err.message);
                session_forget_restarts(session);
                session_cut_off(engine, session, REPORT_FAILED, strbuf_text(&detail));
        }
        session_changed(session);
}

static void restart_kernels(struct engine *engine, struct session *session) {
        const json_t *context;
        struct error err;
        size_t index;

        json_array_foreach (session->restarts, index, context) {
                if (engine->config.place->class->restart(session->place, json_string_value(context), &err) <
                    0)
                        log_warning("session %s: its kernel was not restarted: %s", session->record.id,
                                    err.message);
        }
        session_forget_restarts(session);
}

/* Where nothing of it can be brought any more, or not now, who waits for it goes on with what there is. */
static void settle_files(struct session *session) {
        if (session->brought >= session->bring_wanted)
                return;
        session->brought = session->bring_wanted;
        engine_followers_wake(session, NULL);
}

/* True: it is under way, and ends in an event. While an execution runs, its files come when it has ended. */
static bool bring_files(struct engine *engine, struct session *session) {
        const struct place_class *class = engine->config.place->class;
        struct error err = { 0 };
        int begun;

        if (session->bringing)
                return true;
        if (session->bring_wanted <= session->brought || session->phase == SESSION_PARKING ||
            (session->phase == SESSION_OPENING && session->rejoining))
                return false;
        if (session->phase != SESSION_OPEN || session->running || !class->bring) {
                settle_files(session);
                return false;
        }
        if (session->just_brought && session->waiting > 0)
                return false;
        begun = class->bring(session->place, &err);
        session->bringing = begun == 0;
        if (begun < 0)
                log_warning("session %s: its files cannot be brought out: %s", session->record.id,
                            err.message);
        if (begun != 0)
                settle_files(session);
        return session->bringing;
}

static void hear_brought(struct session *session) {
        session->bringing = false;
        session->just_brought = true;
        session->brought++;
        engine_followers_wake(session, NULL);
}

/* It lives on, and is tried again as late as if something had run now. */
static void stay(struct engine *engine, struct session *session, const char *why) {
        if (session->phase == SESSION_PARKING)
                session->phase = SESSION_OPEN;
        session->leaving = false;
        session->park_after_ms = engine_now(engine) + engine->config.limits.park_seconds * 1000;
        if (why)
                log_warning("session %s: it is not parked: %s", session->record.id, why);
        session_changed(session);
}

/* It was asked for while files were brought, and what has come since goes first: nobody needs the checkpoint then. */
static bool park_next(struct engine *engine, struct session *session) {
        struct error err = { 0 };

        if (!session->parks_next || session->bringing)
                return false;
        session->parks_next = false;
        if (session->phase != SESSION_OPEN)
                return false;
        if (session_busy(session) || session->restarts) {
                session_changed(session);
                return false;
        }
        if (session_park(engine, session, &err) == 0)
                return true;
        stay(engine, session, err.message);
        return false;
}

void session_go_on(struct engine *engine, struct session *session) {
        struct error err;

        if (session->gone) {
                if (session->place && session->phase != SESSION_ENDING) {
                        session->phase = SESSION_ENDING;
                        engine->config.place->class->end(session->place);
                        engine_wake(engine);
                }
                return;
        }
        if (session->unwritten || park_next(engine, session) || bring_files(engine, session))
                return;
        if (session->leaving && session->phase == SESSION_OPEN && !session->running) {
                if (session_park(engine, session, &err) == 0)
                        return;
                session->leaving = false;
                log_warning("session %s: its worker was told to end, and it cannot be parked: %s",
                            session->record.id, err.message);
        }
        if (session->restarts && session->phase == SESSION_OPEN) {
                restart_kernels(engine, session);
                engine_wake(engine);
        }
        while (session_wants(session) && session->phase == SESSION_OPEN) {
                if (!give_next(engine, session))
                        return;
        }
        /* In any other phase it is being opened, or parked: that ends in an event. */
        if (session_wants(session) && session->phase == SESSION_NO_PLACE && session->in_line == 0 &&
            !session->wanted) {
                session->wanted = true;
                engine_job_add(engine, session, session->record.owner, open_wanted, NULL);
        }
}

/* Whether the event is of what runs; anything else is no more than a place that is out of step. */
static struct execution *running_of(struct session *session, int64_t n) {
        return session->running && session->running->n == n ? session->running : NULL;
}

/*
 * The place keeps what was not heard, and makes the code wait once that is too much. Before that it is heard early, and the
 * record has the heads of the streams from then on: an engine that is started later has no more than these.
 */
static void count_unheard(struct engine *engine, struct session *session, struct execution *execution,
                          const struct place_event *event) {
        execution->unheard += event->length;
        for (size_t i = 0; event->display && i < event->display->count; i++)
                execution->unheard += event->display->parts[i].length;
        if (execution->unheard < UNHEARD_ENOUGH)
                return;
        execution->unheard = 0;
        if (!execution->heard_early && !execution->head_lost) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                struct session_change change = {
                        SESSION_TABLE_EXECUTIONS,
                        record_execution_key(session->record.owner, session->record.id, execution->n, arena),
                        NULL,
                        SESSION_EXPECT_NOTHING,
                        0,
                };
                struct error err;
                char *text;

                execution->heard_early = true;
                change.value = text = execution_record_pending(
                        execution, session->record.id, session->record.environment, session->record.agent);
                history_count(session, execution, text);
                if (!session->forgotten && session_store_write(engine->config.store, &change, 1, &err) < 0)
                        log_warning("session %s: %s", session->record.id, err.message);
                free(text);
        }
        tell_heard(engine, session, event->id);
}

/* It is of no use any more; what would have been restored is lost. The next write of the record says so. */
static void drop_checkpoint(struct session *session, const char *reason) {
        log_warning("session %s: its checkpoint was not restored: %s", session->record.id,
                    reason ? reason : "nobody knows why");
        session->record.checkpoint = (struct place_checkpoint){ 0 };
        session->record.parked = false;
        session_lost(session, reason);
}

static void hear_opened(struct engine *engine, struct session *session, const struct place_event *event) {
        struct execution *running = session->running;

        session->phase = SESSION_OPEN;
        session->ever_open = true;
        session->rejoining = false;
        if (!event->kept) {
                struct record_session *record = &session->record;

                record->generation_base = record->generation;
                /* All that were expected begin with 2. */
                if (event->loaded && record->generation > 0 &&
                    json_object_size(record->contexts) <= PLACE_CONTEXTS_MAX)
                        record->generation_base--;
                if (record->checkpoint.digest[0] && !event->loaded)
                        drop_checkpoint(session, event->reason);
        }
        if (running && event->kept && event->last < running->n && !running->cut && !running->interrupted) {
                /* The last server died before this sandbox had it. */
                session->running = NULL;
                wait_again(session, running);
        } else if (running && (!event->kept || event->last < running->n)) {
                session->running = NULL;
                end_waiting(engine, session, running, REPORT_FAILED,
                            event->kept ? "nothing of it ran: the server died before its sandbox had it"
                                        : "cut off: its sandbox died, and nobody knows how far it had come");
        } else if (running && running->interrupted) {
                engine->config.place->class->interrupt(session->place, running->n);
        }
        session_changed(session);
}

void session_lost(struct session *session, const char *reason) {
        json_t *why JSON_CLEANUP = json_string(reason), *state;
        const char *context;

        session->record.generation_base = session->record.generation;
        json_object_foreach (session->record.contexts, context, state) {
                if (json_is_null(state))
                        json_put(session->record.contexts, context,
                                 json_is_string(why) ? json_incref(why) : json_string("its sandbox ended"));
        }
}

/*
 * A runtime knows nothing of the sandboxes before its own: to it each kernel is the first, but for those that it has restored. A context
 * that has a reason here lost its memory without having been parked: what is restored is older.
 */
static void hear_started(struct engine *engine, struct session *session, struct execution *execution,
                         const struct place_event *event) {
        struct record_session *record = &session->record;
        struct strbuf why STRBUF_CLEANUP = STRBUF_INIT;
        struct place_event began = *event;
        const char *context = execution && execution->context ? execution->context : event->context;

        if (event->generation > 0 && context) {
                const char *lost = json_text(record->contexts, context);

                began.generation = record->generation_base +
                                   (event->generation < INT32_MAX ? event->generation : INT32_MAX);
                if (event->was == PLACE_NEW && json_object_get(record->contexts, context)) {
                        began.was = PLACE_LOST;
                        began.reason = lost ? lost : "its checkpoint had nothing of it";
                } else if (event->was == PLACE_RESTORED) {
                        json_t *taken JSON_CLEANUP = json_from_time(record->checkpoint_ms);

                        if (lost)
                                strbuf_printf(
                                        &why,
                                        "%s; this is the checkpoint of %s, and what came after it is lost",
                                        lost, json_string_value(taken));
                        else
                                strbuf_printf(&why, "it was parked");
                        if (event->reason)
                                strbuf_printf(&why, "; %s", event->reason);
                        began.reason = strbuf_text(&why);
                } else if (event->was == PLACE_LOST && lost && event->reason) {
                        strbuf_printf(&why, "%s; %s", lost, event->reason);
                        began.reason = strbuf_text(&why);
                }
                if (began.generation > record->generation)
                        record->generation = began.generation;
        }
        if (execution)
                execution_started(execution, &began, engine_now(engine));
        if (event->generation > 0 && context && json_object_size(record->contexts) < CONTEXTS_MAX) {
                if (!record->contexts)
                        record->contexts = json_checked(json_object());
                json_put(record->contexts, context, json_null());
        }
}

struct ending {
        struct place_session *place;
        char *reason; /* or NULL */
        bool never_was;
        bool restoring;
        bool clear; /* it could not be heard any more: what is left of it is ended */
};

/*
 * By a thread, and without the lock as long as it waits: until a worker and all that it had mounted are gone, seconds may pass. Meanwhile
 * no other place is opened for the session, and what is asked of it waits. Where the sandbox never came to be, what waits for it
 * ends as well: the next attempt would fare no better.
 */
static void after_end(struct engine *engine, struct session *session, void *context) {
        const struct place_class *class = engine->config.place->class;
        struct strbuf detail STRBUF_CLEANUP = STRBUF_INIT;
        struct ending *ending = context;
        struct error err;

        pthread_mutex_unlock(&engine->lock);
        class->leave(ending->place);
        if (ending->clear && class->clear(engine->config.place, session->record.id, &err) < 0)
                log_warning("session %s: %s", session->record.id, err.message);
        pthread_mutex_lock(&engine->lock);
        if (ending->restoring && session->record.checkpoint.digest[0]) {
                strbuf_printf(&detail, "its sandbox ended while its checkpoint was restored%s%s",
                              ending->reason ? ": " : "", ending->reason ? ending->reason : "");
                drop_checkpoint(session, strbuf_text(&detail));
                strbuf_clear(&detail);
                if (!session->gone)
                        store_or_warn(engine, session, NULL, 0);
        } else if (ending->never_was)
                session_forget_restarts(session);
        else if (!session->record.parked && (session->gone || !adopt(engine, session)))
                session_lost(session, ending->reason);
        engine->sandbox_went = true;
        engine->went++;
        session->phase = SESSION_NO_PLACE;
        if (session->running) {
                strbuf_printf(&detail, "cut off: its sandbox ended%s%s", ending->reason ? ": " : "",
                              ending->reason ? ending->reason : "");
                session_cut_off_running(engine, session, REPORT_FAILED, strbuf_text(&detail));
        } else if (ending->never_was) {
                strbuf_printf(&detail, "nothing of it ran: its sandbox did not start%s%s",
                              ending->reason ? ": " : "", ending->reason ? ending->reason : "");
                session_cut_off(engine, session, REPORT_FAILED, strbuf_text(&detail));
        }
        session_forget_image(session);
        session_changed(session);
        session_go_on(engine, session);
        engine_wake(engine);
        free_text(&ending->reason);
        free(ending);
}

/* The sandbox has gone, whatever it was about; the next execution starts another. */
static void begin_end(struct engine *engine, struct session *session, const char *reason, bool restoring,
                      bool clear) {
        struct ending *ending = calloc(1, sizeof(*ending));

        if (!ending)
                abort();
        *ending = (struct ending){
                .place = session->place,
                .reason = record_copy_text(reason), /* the place's words go with it */
                .never_was = session->phase == SESSION_OPENING && !session->rejoining && !restoring,
                .restoring = restoring,
                .clear = clear,
        };
        session->place = NULL;
        session->heard_id = 0;
        session->bringing = session->parks_next = false;
        session->rejoining = session->leaving = session->tells_more = false;
        if (session->phase != SESSION_PARKING)
                session->phase = SESSION_ENDING;
        engine_job_add(engine, session, session->record.owner, after_end, ending);
}

static void after_lonely_death(struct engine *engine, struct session *session, void *context) {
        if (!session->record.parked && (session->gone || !adopt(engine, session)))
                session_lost(session, "the server was restarted, and its sandbox did not live any more");
        session->phase = SESSION_NO_PLACE;
        session_cut_off_running(engine, session, REPORT_FAILED, context);
        session_changed(session);
        session_go_on(engine, session);
}

void session_died_alone(struct engine *engine, struct session *session, const char *detail) {
        session->phase = SESSION_ENDING;
        engine_job_add(engine, session, session->record.owner, after_lonely_death, (void *)(uintptr_t)detail);
}

/*
 * The sandbox lives until the record names its checkpoint: whoever dies before that finds it alive. What was asked for meanwhile need not
 * wait for another sandbox: it is run in this one, and nobody needs the checkpoint.
 */
static void hear_parked(struct engine *engine, struct session *session, const struct place_event *event) {
        const struct record_session old = session->record;
        struct problem problem;

        if (session->phase != SESSION_PARKING)
                return;
        if (!session->leaving && (session_busy(session) || session->restarts)) {
                stay(engine, session, NULL);
                return;
        }
        be_parked(session, &event->checkpoint, engine_now(engine));
        if (session_store_record(engine, session, NULL, 0, &problem) < 0) {
                session->record.checkpoint = old.checkpoint;
                session->record.checkpoint_ms = old.checkpoint_ms;
                session->record.parked = old.parked;
                stay(engine, session, problem.detail);
                return;
        }
        engine->config.place->class->end(session->place);
}

/* Who asked for a fresh kernel does not get the old one's memory when this one dies; other contexts keep what a checkpoint has. */
static void forget_restarted(struct engine *engine, struct session *session) {
        if (!session->record.checkpoint.digest[0] || json_object_size(session->record.contexts) > 1)
                return;
        session->record.checkpoint = (struct place_checkpoint){ 0 };
        session->record.parked = false;
        store_or_warn(engine, session, NULL, 0);
}

static void hear_event(struct engine *engine, struct session *session, const struct place_event *event) {
        struct execution *execution = running_of(session, event->n);
        int64_t now_ms = engine_now(engine);

        switch (event->type) {
        case PLACE_OPENED:
                hear_opened(engine, session, event);
                break;
        case PLACE_STARTED:
                hear_started(engine, session, execution, event);
                break;
        case PLACE_OUTPUT:
                if (execution) {
                        execution_output(execution, event->is_stderr, event->bytes, event->length);
                        count_unheard(engine, session, execution, event);
                }
                break;
        case PLACE_DISPLAY:
                if (execution) {
                        execution_display(execution, event);
                        count_unheard(engine, session, execution, event);
                }
                break;
        case PLACE_DONE:
                if (execution) {
                        struct arena *arena ARENA_CLEANUP = arena_new();
                        struct execution_owner owner;

                        /* They are in the workspace by now, or nothing ran and the result says so. */
                        if (execution->staged && engine->config.workspaces->drop_staged)
                                engine_job_add(engine, session, session->record.owner, drop_staged,
                                               record_copy_text(execution->staged));
                        describe_owner(engine, session, arena, &owner);
                        if (event->not_taken && session->record.taken_n == execution->n)
                                session->record.taken_n = execution->taken_before;
                        execution_done(execution, &owner, event, now_ms);
                        session->running = NULL;
                        session_execution_ended(engine, session, execution);
                        execution = NULL;
                }
                tell_heard(engine, session, event->id);
                break;
        case PLACE_RESTARTED:
                forget_restarted(engine, session);
                tell_heard(engine, session, event->id);
                break;
        case PLACE_PARKED:
                hear_parked(engine, session, event);
                break;
        case PLACE_STAYED:
                stay(engine, session, event->reason);
                break;
        case PLACE_BROUGHT:
                hear_brought(session);
                break;
        case PLACE_LEAVING:
                session->leaving = true;
                break;
        case PLACE_ENDED:
                begin_end(engine, session, event->reason, event->restoring, false);
                break;
        case PLACE_NOTHING:
                break;
        }
        if (execution)
                engine_followers_wake(session, execution);
}

/* It cannot be heard any more: what is left of it is ended, and what ran in it is cut off. */
static void give_up(struct engine *engine, struct session *session, const struct error *why) {
        bool was_gone = session->rejoining && why->kind == ERROR_NOT_FOUND;

        if (!was_gone)
                log_warning("session %s: its sandbox cannot be heard any more: %s", session->record.id,
                            why->message);
        begin_end(engine, session,
                  was_gone ? "the server was restarted, and it did not live any more" : why->message, false,
                  !was_gone);
}

/* What says much is heard in turns with others. */
void session_hear(struct engine *engine, struct session *session) {
        const struct place_class *class = engine->config.place->class;

        session->tells_more = false;
        for (size_t heard = 0; session->place; heard++) {
                struct place_event event = { 0 };
                struct error err = { 0 };

                if (heard == EVENTS_AT_ONCE) {
                        session->tells_more = true;
                        break;
                }
                if (class->next(session->place, &event, &err) < 0) {
                        give_up(engine, session, &err);
                        break;
                }
                if (event.type == PLACE_NOTHING)
                        break;
                /*
                 * Who follows it would find the lock taken: he is woken when it is let go. The others may let go of it themselves.
                 */
                session->hears = event.type == PLACE_STARTED || event.type == PLACE_OUTPUT ||
                                 event.type == PLACE_DISPLAY || event.type == PLACE_DONE;
                hear_event(engine, session, &event);
                session->hears = false;
                if (session->phase == SESSION_OPEN || session->gone)
                        session_go_on(engine, session);
        }
        session_go_on(engine, session);
}

/* The end */

int session_end(struct engine *engine, struct session *session, const char *detail, struct problem *problem) {
        const struct record_session *record = &session->record;
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct session_change changes[3] = {
                { SESSION_TABLE_SESSIONS, record_session_key(record->owner, record->id, arena), NULL,
                  SESSION_EXPECT_NOTHING, 0 },
                { SESSION_TABLE_SESSIONS, arena_printf(arena, RECORD_ENDING "%s", record->id), record->owner,
                  SESSION_EXPECT_NOTHING, 0 },
        };
        struct session_item item = { 0 };
        size_t count = 2;
        struct error err;
        int found = 0;

        if (record->conversation)
                found = session_store_get(engine->config.store, SESSION_TABLE_CONVERSATIONS,
                                          record_conversation_key(record, arena), arena, &item, &err);
        /* Of one that has expired, the conversation may have another session by now. */
        if (found > 0 && strcmp(item.value, record->id) == 0)
                changes[count++] = (struct session_change){ SESSION_TABLE_CONVERSATIONS, item.key, NULL,
                                                            SESSION_EXPECT_NOTHING, 0 };
        if (found < 0 || session_store_write(engine->config.store, changes, count, &err) < 0)
                return problem_from_error(problem, PROBLEM_STORE_FAILED, &err);
        session->gone = true;
        engine->count--;
        engine_leave_line(engine, session);
        session_cut_off(engine, session, REPORT_KILLED, detail);
        session_go_on(engine, session);
        session_changed(session);
        engine_wake(engine);
        return 0;
}
