/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a session's sandbox says, and what becomes of the session by that.
 */
#include "sessions/engine_seats.h"
#include "sessions/history.h"
#include "sessions/session_parts.h"

#include "base/files.h"
#include "base/json.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

/* Of events that the place keeps until they are heard: from there on its code would soon have to wait. */
#define UNHEARD_ENOUGH (PLACE_UNHEARD_MAX / 4)
/* Of one sandbox, before the others are heard. */
#define EVENTS_AT_ONCE 256

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
                if (!session->forgotten && engine_write(engine, &change, 1, &err) < 0)
                        log_warning("session %s: %s", session->record.id, err.message);
                free(text);
        }
        session_tell_heard(engine, session, event->id);
}

/* It is of no use any more; what would have been restored is lost. The next write of the record says so. */
static void drop_checkpoint(struct session *session, const char *reason) {
        log_warning("session %s: its checkpoint was not restored: %s", session->record.id,
                    reason ? reason : "nobody knows why");
        session->record.checkpoint = (struct place_checkpoint){ 0 };
        session->record.parked = false;
        session_lost(session, reason);
}

/* What becomes of the execution that is recorded as begun, by what its sandbox has had. */
static void find_running(struct engine *engine, struct session *session, const struct place_event *event) {
        struct execution *running = session->running;
        bool had = event->kept && event->last >= running->n;

        if (had && running->interrupted) {
                engine->config.place->class->interrupt(session->place, running->n);
        } else if (!had && event->kept && !running->cut && !running->interrupted && session_lives(session)) {
                /* The last server died before this sandbox had it. */
                session->running = NULL;
                session_wait_again(session, running);
        } else if (!had) {
                session_cut_off_running(
                        engine, session, REPORT_FAILED,
                        event->kept ? "nothing of it ran: the server died before its sandbox had it"
                                    : "cut off: its sandbox died, and it is not known how far it had come");
        }
}

static void hear_opened(struct engine *engine, struct session *session, const struct place_event *event) {
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
        if (session->running)
                find_running(engine, session, event);
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
                bool counted = engine->config.place->class->counts_generations;

                began.generation = (counted ? 0 : record->generation_base) +
                                   (event->generation < INT32_MAX ? event->generation : INT32_MAX);
                if (event->was == PLACE_NEW && json_object_get(record->contexts, context)) {
                        began.was = PLACE_LOST;
                        began.reason = lost ? lost : "its checkpoint had nothing of it";
                } else if (event->was == PLACE_RESTORED) {
                        json_t *taken JSON_CLEANUP = json_from_time(record->checkpoint.taken_ms);

                        if (event->says_why)
                                strbuf_printf(&why, "%s", event->reason);
                        else if (lost)
                                strbuf_printf(
                                        &why,
                                        "%s; this is the checkpoint of %s, and what came after it is lost",
                                        lost, json_string_value(taken));
                        else
                                strbuf_append(&why, ENGINE_WHY_PARKED);
                        if (event->reason && !event->says_why)
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
        if (event->generation > 0 && context && json_object_size(record->contexts) < SESSION_CONTEXTS_MAX) {
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
        /* Where another server may already have the session, a sandbox that lives is that server's. */
        bool clears = ending->clear && session_may_act(session);
        struct error err;

        session_turn_leave(engine, session);
        class->leave(ending->place);
        if (clears && class->clear(engine->config.place, session->record.id, &err) < 0)
                log_warning("session %s: %s", session->record.id, err.message);
        session_turn_return(engine, session);
        if (ending->restoring && session->record.checkpoint.digest[0]) {
                strbuf_printf(&detail, "its sandbox ended while its checkpoint was restored%s%s",
                              ending->reason ? ": " : "", ending->reason ? ending->reason : "");
                drop_checkpoint(session, strbuf_text(&detail));
                strbuf_clear(&detail);
                if (session_lives(session))
                        session_store_or_warn(engine, session, NULL, 0);
        } else if (ending->never_was)
                session_forget_restarts(session);
        else if (!session->record.parked && (!session_lives(session) || !session_adopt(engine, session)))
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
        if (!session->unwritten)
                engine_seat_give(engine, session);
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
        if (!session->record.parked && (!session_lives(session) || !session_adopt(engine, session)))
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
                session_stay(engine, session, NULL);
                return;
        }
        session_be_parked(session, &event->checkpoint, engine_now(engine));
        if (session_store_record(engine, session, NULL, 0, &problem) < 0) {
                session->record.checkpoint = old.checkpoint;
                session->record.parked = old.parked;
                session_stay(engine, session, problem.detail);
                return;
        }
        /* Another server may have begun something in it since that was written. It is parked again then, or is that server's. */
        if (session_may_act(session))
                engine->config.place->class->end(session->place);
        else
                session_stay(engine, session, NULL);
}

/* What stands in the record of kernels that are to be restarted. NULL: all of them were. */
static bool forget_asked(struct record_session *record, const char *context) {
        size_t count = json_array_size(record->restarts), index = 0;

        while (index < json_array_size(record->restarts)) {
                const char *asked = json_string_value(json_array_get(record->restarts, index));

                if (!context || !asked || strcmp(asked, context) == 0)
                        json_array_remove(record->restarts, index);
                else
                        index++;
        }
        return json_array_size(record->restarts) < count;
}

/* Who asked for a fresh kernel does not get the old one's memory when this one dies; other contexts keep what a checkpoint has. */
static void forget_restarted(struct engine *engine, struct session *session, const char *context,
                             bool has_note) {
        bool was_asked = forget_asked(&session->record, context);
        bool forgets =
                session->record.checkpoint.digest[0] && json_object_size(session->record.contexts) <= 1;

        if (forgets) {
                session->record.checkpoint = (struct place_checkpoint){ 0 };
                session->record.parked = false;
        }
        if (forgets || has_note || was_asked)
                session_store_or_warn(engine, session, NULL, 0);
}

static void hear_brought(struct session *session) {
        session->bringing = false;
        session->just_brought = true;
        session->brought++;
        engine_followers_wake(session, NULL);
}

/* It is written with the event that it came with: of a place that has notes, each of these leads to a write of the record. */
static void take_note(struct session *session, const struct place_event *event) {
        json_decref(session->record.note);
        session->record.note = json_checked(json_deep_copy(event->note));
}

static void hear_done(struct engine *engine, struct session *session, struct execution *execution,
                      const struct place_event *event) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct place_event done = *event;
        struct execution_owner owner;

        /* They are in the workspace by now, or nothing ran and the result says so. */
        session_drop_staged(engine, session, execution);
        session_describe(engine, session, arena, &owner);
        if (event->not_taken && session->record.taken_n == execution->n)
                session->record.taken_n = execution->taken_before;
        if (done.exit_code < 0)
                session_note_end(session, &done.status, &done.detail);
        execution_done(execution, &owner, &done, engine_now(engine));
        session->running = NULL;
        session_execution_ended(engine, session, execution);
}

static void hear_event(struct engine *engine, struct session *session, const struct place_event *event) {
        struct execution *execution = running_of(session, event->n);

        if (event->note)
                take_note(session, event);
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
                if (execution)
                        hear_done(engine, session, execution, event);
                execution = NULL;
                session_tell_heard(engine, session, event->id);
                break;
        case PLACE_RESTARTED:
                forget_restarted(engine, session, event->context, event->note != NULL);
                session_tell_heard(engine, session, event->id);
                break;
        case PLACE_PARKED:
                hear_parked(engine, session, event);
                break;
        case PLACE_STAYED:
                session_stay(engine, session, event->reason);
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
                session->hears = !engine->config.store->class->shared &&
                                 (event.type == PLACE_STARTED || event.type == PLACE_OUTPUT ||
                                  event.type == PLACE_DISPLAY || event.type == PLACE_DONE);
                hear_event(engine, session, &event);
                session->hears = false;
                if (session->phase == SESSION_OPEN || !session_lives(session))
                        session_go_on(engine, session);
        }
        session_go_on(engine, session);
}
