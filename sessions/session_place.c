/* SPDX-License-Identifier: Apache-2.0 */
/* A session's sandbox: opened, given executions, parked, asked for its files. What it says is heard in session_hear.c. */
#include "sessions/engine_seats.h"
#include "sessions/servers.h"
#include "sessions/session_parts.h"

#include "base/json.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

/* How long a sandbox may live that is joined in order to end it. */
#define ENDING_LIFE_MS 60000
#define SESSION_IS_DOUBTED "another server may already have the session: its record is read first"

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

static bool may_begin(void *context, uint64_t term) {
        return term != 0 && servers_term(context) == term;
}

/* Since before it was written that it begins, nobody can have taken this server for dead: else another may have ended it, and begun the next. */
static bool may_begin_still(struct engine *engine, const struct execution *execution) {
        return !engine->servers || may_begin(engine->servers, execution->term);
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
                .parked = record->parked,
                .note = record->note,
                .checkpoint_bytes_max = engine->config.limits.checkpoint_bytes,
                .may_begin = engine->servers ? may_begin : NULL,
                .may_begin_context = engine->servers,
        };
}

/* Where the session was ended meanwhile: only an attempt to join has shown that no sandbox lives. */
static void not_opened(struct session *session) {
        if (session->end == SESSION_ENDS && (!session->rejoining || session->stale))
                session->end = SESSION_IS_SOUGHT;
        session->phase = SESSION_NO_PLACE;
        session->rejoining = false;
}

int session_open_place(struct engine *engine, struct session *session, bool only_living, struct error *err) {
        const struct place_class *class = engine->config.place->class;
        struct arena *arena ARENA_CLEANUP = arena_new();
        const struct record_session *record = &session->record;
        int64_t left_ms = record->created_ms + record->ttl_seconds * 1000 - engine_now(engine);
        json_t *contexts JSON_CLEANUP = contexts_to_restore(record);
        struct place_opening opening = opening_of(engine, record, arena);
        struct place_session *place = NULL;
        int opened;

        /* The record of a session that ends has no age, and its kernels need time to end. */
        opening.ttl_ms = !session_lives(session) ? ENDING_LIFE_MS : left_ms > 1 ? left_ms : 1;
        opening.only_living = only_living;
        opening.running = session->running ? session->running->n : 0;
        opening.running_ms = session->running ? session->running->timeout_seconds * 1000 : 0;
        opening.contexts = contexts;
        opening.checkpoint_ms = engine->config.limits.checkpoint_ms;
        session->phase = SESSION_OPENING;
        session->rejoining = only_living;
        if (!only_living && engine_seat_take(engine, session, err) < 0) {
                not_opened(session);
                return -1;
        }
        if (!session_may_act(session)) {
                if (!only_living)
                        engine_seat_give(engine, session);
                not_opened(session);
                return error_set(err, SESSION_IS_DOUBTED);
        }
        session_turn_leave(engine, session);
        opened = class->open(engine->config.place, &opening, &place, err);
        session_turn_return(engine, session);
        if (opened < 0) {
                engine_seat_give(engine, session);
                not_opened(session);
                return -1;
        }
        if (only_living)
                engine_seat_keep(engine, session);
        session->place = place;
        session->park_after_ms = 0; /* that was of the last place */
        if (session_lives(session))
                session_tell_life(engine, session);
        else
                session_go_on(engine, session);
        engine_wake(engine);
        return 0;
}

int session_park(struct engine *engine, struct session *session, struct error *err) {
        if (!session_may_act(session))
                return error_set_kind(err, ERROR_REFUSED, SESSION_IS_DOUBTED);
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

void session_be_parked(struct session *session, const struct place_checkpoint *checkpoint, int64_t now_ms) {
        session->record.checkpoint = *checkpoint;
        session->record.checkpoint.taken_ms = now_ms;
        session->record.parked = true;
}

/*
 * Whether the worker parked it by itself, when it does not live any more; the record says so then. Without the lock meanwhile, since what
 * it has left is read whole.
 */
bool session_adopt(struct engine *engine, struct session *session) {
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
        session_turn_leave(engine, session);
        found = class->adopt(engine->config.place, &opening, taken_n, &checkpoint, &err);
        session_turn_return(engine, session);
        if (found < 0)
                log_warning("session %s: what its worker has left is of no use: %s", record->id, err.message);
        if (found <= 0 || !session_lives(session))
                return false;
        session_be_parked(session, &checkpoint, engine_now(engine));
        session_store_or_warn(engine, session, NULL, 0);
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

/*
 * False: its record cannot be written, or its sandbox is dying and the next one gets it; it waits on. So it does where this server was out
 * of touch: first it is looked at whose the session is. And where another server has recorded the session's end, which the write merges.
 */
static bool give_next(struct engine *engine, struct session *session) {
        const struct place_class *class = engine->config.place->class;
        struct execution *execution = session_next_waiting(session);
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

        if (!written && engine->servers && (execution->term = servers_term(engine->servers)) == 0) {
                session_wait_again(session, execution);
                return false;
        }
        execution->status = EXECUTION_RUNNING;
        execution->begun_ms = engine_now(engine);
        session->record.taken_n = execution->n;
        session->record.active_ms = execution->begun_ms;
        session->record.parked = false;
        /* The store may be waited for: it is nowhere else. */
        session->running = execution;
        if (!written && session_store_record(engine, session, NULL, 0, &problem) < 0) {
                session->running = NULL;
                session->record.taken_n = was_taken;
                session->record.parked = was_parked;
                session_wait_again(session, execution);
                return false;
        }
        execution->taken_before = was_taken;
        if (!session_lives(session) || !may_begin_still(engine, execution)) {
                session->running = NULL;
                session->record.taken_n = was_taken;
                session->record.parked = was_parked;
                session->stale = true;
                session_wait_again(session, execution);
                return false;
        }
        given.term = execution->term;
        /* From here on its record keeps its seat: whether it had one until here is looked at now. */
        if (engine_seat_is_lost(session)) {
                session->running = NULL;
                session->record.taken_n = was_taken;
                session_wait_again(session, execution);
                session_store_or_warn(engine, session, NULL, 0);
                return false;
        }
        given.life = session_life(engine, session);
        if (class->execute(session->place, &given, &err) < 0) {
                struct strbuf detail STRBUF_CLEANUP = STRBUF_INIT;

                session->running = NULL;
                session->record.taken_n = was_taken;
                if (err.kind == ERROR_UNREACHABLE) {
                        session_wait_again(session, execution);
                        session_store_or_warn(engine, session, NULL, 0);
                        return false;
                }
                strbuf_printf(&detail, "nothing of it ran: %s", err.message);
                session_end_waiting(engine, session, execution, REPORT_FAILED, strbuf_text(&detail));
                return true;
        }
        session->just_brought = false;
        session->seat_used = true;
        session_tell_execution(session, execution);
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
        if (engine->stopping || !session_lives(session) || session->phase != SESSION_NO_PLACE ||
            session->in_line > 0 || !session_wants(session))
                return;
        /* Where another server may have it, nothing is decided before that was looked at. */
        if (session_open_or_wait(engine, session, true, &err) < 0 && !session->stale) {
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

/*
 * The session lives on. If its place could not park it, or its record could not be written, that is tried again as late as if something had
 * run now. A stale session is looked at first: then it is another server's, or may be parked at once.
 */
void session_stay(struct engine *engine, struct session *session, const char *why) {
        if (session->phase == SESSION_PARKING)
                session->phase = SESSION_OPEN;
        session->leaving = false;
        if (why && !session->stale)
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
        session_stay(engine, session, err.message);
        return false;
}

/* Of a session that ends. A sandbox that is being joined is told to end after PLACE_OPENED: before that, the place would kill it. */
static void end_place(struct engine *engine, struct session *session) {
        if (!session->place || session->phase == SESSION_ENDING ||
            (session->phase == SESSION_OPENING && session->rejoining) || !session_may_act(session))
                return;
        session->phase = SESSION_ENDING;
        engine->config.place->class->end(session->place);
        engine_wake(engine);
}

void session_go_on(struct engine *engine, struct session *session) {
        struct error err;
        bool begun;

        if (session->end != SESSION_LIVES) {
                end_place(engine, session);
                return;
        }
        /* What others have changed is looked at first: of what they hold nothing is begun here. */
        if (session->far || session->stale ||
            (session->unknown > 0 && !engine_revive_unknown(engine, session)))
                return;
        /* Another server has recorded the end, and left the rest to this one. */
        if (session->record.ending) {
                session_is_over(engine, session, SESSION_ENDS);
                return;
        }
        if (session->unwritten ||
            ((session->phase == SESSION_OPEN || session_wants(session)) && !session_may_act(session)))
                return;
        if (park_next(engine, session) || bring_files(engine, session))
                return;
        /* What is said to begin does so first: a session that is parked has nothing that runs, as its record says. */
        begun = session->waiting > 0 && session->record.taken_n >= session->first_waiting->n;
        if (session->leaving && session->phase == SESSION_OPEN && !session->running && !begun) {
                if (session_park(engine, session, &err) == 0)
                        return;
                session->leaving = false;
                log_warning("session %s: its worker was told to end, and it cannot be parked: %s",
                            session->record.id, err.message);
        }
        if (session->phase == SESSION_OPEN && !session->running && !begun && engine_seat_is_to_go(session)) {
                session->leaving = session_park(engine, session, &err) == 0;
                return;
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
