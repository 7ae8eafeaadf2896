/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session's line of executions, and their ends.
 *
 * An execution's record is written when it is put in line, and again when it has ended; the place is told that its events were heard
 * only after the second. So whatever dies in between, either the place tells the end once more to whoever comes next, or the
 * record says that nobody knows. `taken_n` in the session's record is written before a sandbox gets an execution: an engine that
 * starts knows by it which of them may have begun.
 */
#include "sessions/engine_seats.h"
#include "sessions/history.h"
#include "sessions/session_parts.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

#define REFUSED_MS 20000 /* somebody may give rights back meanwhile */

/* That it began or ended: what it said is its owner's alone. */
void session_tell_execution(struct session *session, const struct execution *execution) {
        engine_tell(session, "execution", execution->n,
                    execution->result ? json_text(execution->result, "status") : "running");
}

/* Asked once for each sandbox, which has that image as long as it lives: what was applied is read anew for each question. */
void session_describe(struct engine *engine, struct session *session, struct arena *arena,
                      struct execution_owner *ret) {
        struct catalog_environment environment = { 0 };
        struct error ignored;

        if (!session->described &&
            engine->config.catalog->environment(engine->config.catalog, session->record.environment, arena,
                                                &environment, &ignored) == 1) {
                session->described = true;
                session->image_digest = record_copy_text(environment.image_digest);
        }
        *ret = (struct execution_owner){ session->record.id, session->record.environment,
                                         session->image_digest };
}

void session_forget_image(struct session *session) {
        free(session->image_digest);
        session->image_digest = NULL;
        session->described = false;
}

/* The least number of those whose end is not written, but for the one that is being: from there on, whoever comes after us has to look. */
static int64_t oldest_open(const struct session *session, const struct execution *written) {
        int64_t oldest = session->running         ? session->running->n
                         : session->first_waiting ? session->first_waiting->n
                                                  : session->record.last_n + 1 - session->unknown;

        for (const struct execution *ended = session->unwritten; ended; ended = ended->next)
                oldest = ended != written && ended->n < oldest ? ended->n : oldest;
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
        int64_t old_oldest = session->record.oldest_n;
        struct error err;
        int result = 0;

        session->record.active_ms = engine_now(engine);
        session->record.oldest_n = oldest_open(session, execution);
        if (far_publishes(session, execution))
                far_publish(engine, session, execution);
        if (!session->forgotten) {
                history_count(session, execution, text);
                if (session->end != SESSION_OVER)
                        result = session_store_record(engine, session, &change, 1, problem);
                else if (engine_write(engine, &change, 1, &err) < 0) {
                        session->refused = err.kind == ERROR_REFUSED;
                        result = problem_from_error(problem, PROBLEM_STORE_FAILED, &err);
                }
        }
        free(text);
        if (result < 0) {
                session->record.history_bytes = old_bytes;
                session->record.oldest_n = old_oldest;
                execution->record_bytes = old_record;
                return -1;
        }
        if (!session->forgotten)
                history_trim(engine, session, execution->n);
        history_tell(engine, session, false);
        return 0;
}

/*
 * What the store refuses is refused again, and whoever waits for the result cannot wait for ever: after a while it is `failed`, and says why. If the
 * record of that is taken, it is written; if not, who asks here is told all the same, and it is tried on: what comes after this server
 * finds an execution of which no more is known than what the place has kept.
 */
static bool write_less(struct engine *engine, struct session *session, struct execution *execution,
                       struct problem *problem) {
        int64_t now_ms = clock_now_ms();
        struct problem refused = *problem;

        if (!session->refused) {
                execution->refused_ms = 0;
                return false;
        }
        if (execution->refused_ms == 0)
                execution->refused_ms = now_ms;
        if (execution->unkept || now_ms - execution->refused_ms < REFUSED_MS)
                return false;
        log_warning("session %s: the result of execution %lld is given up: %s", session->record.id,
                    (long long)execution->n, refused.detail);
        execution_give_up(execution, refused.detail);
        if (write_end(engine, session, execution, problem) == 0)
                return true;
        execution->unwritten = false;
        engine_followers_wake(session, execution);
        return false;
}

/* Each is among them until it is written: the store may be waited for, and who asks meanwhile finds that it has not ended. */
static int write_ends(struct engine *engine, struct session *session, struct problem *problem) {
        struct execution *execution;

        while ((execution = session->unwritten)) {
                if (write_end(engine, session, execution, problem) < 0 &&
                    !write_less(engine, session, execution, problem))
                        return -1;
                session->unwritten = execution->next;
                execution->unwritten = false;
                engine_followers_wake(session, execution);
                session_changed(session);
                execution_drop(execution);
        }
        return 0;
}

/*
 * Where the end cannot be written (a full disk), nobody hears of it: it is tried again and again, the place keeps it meanwhile for whoever
 * comes after us, and nothing else begins.
 */
void session_execution_ended(struct engine *engine, struct session *session, struct execution *execution) {
        struct execution **last = &session->unwritten;
        bool first = !session->unwritten;
        struct problem problem;

        session_tell_execution(session, execution);
        engine_watch_end(engine, execution);
        execution->unwritten = true;
        execution->next = NULL;
        while (*last)
                last = &(*last)->next;
        *last = execution;
        if (first && write_ends(engine, session, &problem) < 0)
                log_warning("session %s: the end of execution %lld cannot be written: %s", session->record.id,
                            (long long)execution->n, problem.detail);
}

bool session_write_ends(struct engine *engine, struct session *session) {
        struct problem ignored;

        if (write_ends(engine, session, &ignored) < 0)
                return false;
        if (session->place && session->heard_id > 0)
                engine->config.place->class->heard(session->place, session->heard_id);
        session->heard_id = 0;
        /* What was cut off kept it until here: its record said that it runs. */
        if (session->phase == SESSION_NO_PLACE)
                engine_seat_give(engine, session);
        return true;
}

/* Of events whose meaning is written. */
void session_tell_heard(struct engine *engine, struct session *session, uint64_t id) {
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
void session_wait_again(struct session *session, struct execution *execution) {
        execution->status = EXECUTION_QUEUED;
        execution->begun_ms = 0;
        execution->next = session->first_waiting;
        session->first_waiting = execution;
        session->last_waiting = session->last_waiting ? session->last_waiting : execution;
        count_waiting(session, execution);
}

/* From the line; the caller's then. */
struct execution *session_next_waiting(struct session *session) {
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

        session_turn_leave(engine, session);
        workspaces->drop_staged(workspaces->context, session->record.owner, session->record.id, staged);
        session_turn_return(engine, session);
}

void session_drop_staged(struct engine *engine, struct session *session, const struct execution *execution) {
        if (execution->staged && engine->config.workspaces->drop_staged)
                engine_job_add(engine, session, session->record.owner, drop_staged,
                               record_copy_text(execution->staged));
}

void session_end_waiting(struct engine *engine, struct session *session, struct execution *execution,
                         enum report_status status, const char *detail) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct execution_owner owner;

        session_drop_staged(engine, session, execution);
        session_describe(engine, session, arena, &owner);
        execution_cut_off(execution, &owner, status, detail, engine_now(engine));
        session_execution_ended(engine, session, execution);
}

void session_note_end(const struct session *session, enum report_status *status, const char **detail) {
        if (session_lives(session))
                return;
        *status = REPORT_KILLED;
        *detail = record_why_ended(session->record.ending);
}

void session_cut_off_running(struct engine *engine, struct session *session, enum report_status status,
                             const char *detail) {
        struct execution *running = session->running;

        if (!running)
                return;
        session->running = NULL;
        session_note_end(session, &status, &detail);
        session_end_waiting(engine, session, running, status, detail);
}

void session_cut_off(struct engine *engine, struct session *session, enum report_status status,
                     const char *detail) {
        session_cut_off_running(engine, session, status, detail);
        while (session->waiting > 0)
                session_end_waiting(engine, session, session_next_waiting(session), status, detail);
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
        session_end_waiting(engine, session, execution, REPORT_INTERRUPTED,
                            "nothing of it ran: it was interrupted while it waited");
}
