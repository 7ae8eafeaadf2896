/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A place without sandboxes: it does what the code says, a word a line. Its "sandboxes" outlive who opened them, as real ones do, and
 * tell again what was not heard.
 *
 *     say TEXT      output          show TEXT     a display of text/plain
 *     hold          goes on when fake_release() is called, or when it is interrupted
 *     die           the sandbox ends in the middle of it
 *     fail          ends with an exception
 *     keep TEXT     its memory: what `recall` says, also after it was parked
 *     recall        output
 */
#ifndef BERTH_TESTS_UNIT_SESSIONS_FAKE_PLACE_H
#define BERTH_TESTS_UNIT_SESSIONS_FAKE_PLACE_H

#include "base/json.h"
#include "sessions/place.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define FAKE_EVENTS 512
#define FAKE_SANDBOXES 256

struct fake_event {
        enum place_event_type type;
        uint64_t id;
        int64_t n;
        char text[8192];
        size_t length;
        enum report_status status;
        enum place_was was;
        int64_t stdout_bytes;
};

struct fake_sandbox {
        char id[64], owner[64];
        bool lives, parked, of_agent;
        int64_t last, running, generation;
        char rest[8192]; /* of the code that runs */
        uint64_t next_id;
        int64_t said;
        struct fake_event *events[FAKE_EVENTS]; /* not heard yet */
        size_t count;
        size_t told;
        bool fresh, opened, ending, holding, bringing;
        int descriptor; /* of who has it open, or -1 */
        char memory[64], checkpoint[64];
        struct place_checkpoint last_checkpoint; /* its digest is the fake's own number */
        bool restored, restoring_died;
};

/* One owner's slow calls wait, as long as the gate is shut. Threads that come there are counted. */
struct fake_gate {
        pthread_mutex_t shut;
        atomic_int came;
};
static struct fake_gate fake_opening __attribute__((unused)) = { .shut = PTHREAD_MUTEX_INITIALIZER };
static struct fake_gate fake_going __attribute__((unused)) = { .shut = PTHREAD_MUTEX_INITIALIZER };
static struct fake_gate fake_adopting __attribute__((unused)) = { .shut = PTHREAD_MUTEX_INITIALIZER };
static struct fake_gate fake_clearing __attribute__((unused)) = { .shut = PTHREAD_MUTEX_INITIALIZER };
#define FAKE_SLOW_OWNER "app/alice"

static inline void fake_pass(struct fake_gate *gate, const char *owner) {
        if (!owner || strcmp(owner, FAKE_SLOW_OWNER) != 0)
                return;
        atomic_fetch_add(&gate->came, 1);
        pthread_mutex_lock(&gate->shut);
        pthread_mutex_unlock(&gate->shut);
}

/* Until a thread stands at it. */
static inline void fake_await(struct fake_gate *gate, int before) {
        while (atomic_load(&gate->came) == before)
                usleep(1000);
}

struct fake_place {
        struct place place; /* first */
        pthread_mutex_t lock;
        struct fake_sandbox sandboxes[FAKE_SANDBOXES];
        size_t count;
        bool refuse_open, fail_start;
        bool notes;          /* it gives a note with each end, {"n": NUMBER} */
        int64_t opened_note; /* of the last opening; 0: it had none */
        bool opened_parked;
        size_t agent_max; /* this number of sandboxes of agents may live; 0: any number */
        bool slow_end;    /* a sandbox that is to end takes its time, until fake_let_end() */
        bool slow_bring;  /* files are brought until fake_let_bring(); else there is nothing to bring */
        size_t brings;
        bool slow_park, fail_park, refuse_park, die_restoring, lose_checkpoints, adopts;
        bool die_executing; /* once: a sandbox that is given an execution is dying, and takes none */
        size_t parks;
        char restarted[256]; /* "CONTEXT CONTEXT " */
        size_t opens, clears, executes, expires;
        size_t ends, kills;     /* end(); clear() of one that lived */
        struct place_life life; /* told last, by expire() */
        /* Of the last execution. */
        int64_t asked_ms;
        char asked_input[16], asked_name[16]; /* the latter of the variable NAME */
};

struct place_session {
        struct fake_place *place;
        struct fake_sandbox *sandbox;
        bool kept, told_opened;
        struct place_event last;
        struct fake_event copy;
        struct content_display display;
        char why[16]; /* its own: with it the reason goes that an event has */
        json_t *note;
};

static inline void fake_wake(struct fake_sandbox *sandbox) {
        const uint64_t one = 1;

        if (sandbox->descriptor >= 0 && write(sandbox->descriptor, &one, sizeof(one)) < 0)
                abort();
}

static inline struct fake_event *fake_add(struct fake_sandbox *sandbox, enum place_event_type type,
                                          const char *text) {
        struct fake_event *event = calloc(1, sizeof(*event));

        if (!event || sandbox->count == FAKE_EVENTS)
                abort();
        event->type = type;
        event->id = ++sandbox->next_id;
        event->n = sandbox->running;
        event->length = strlen(text);
        memcpy(event->text, text, event->length);
        sandbox->events[sandbox->count++] = event;
        fake_wake(sandbox);
        return event;
}

static inline void fake_done(struct fake_sandbox *sandbox, enum report_status status) {
        struct fake_event *event = fake_add(sandbox, PLACE_DONE, "");

        event->status = status;
        event->stdout_bytes = sandbox->said;
        sandbox->running = 0;
        sandbox->holding = false;
}

/* Goes on with the code until it ends or holds. The place's lock is held. */
static inline void fake_run(struct fake_sandbox *sandbox) {
        enum report_status status = REPORT_OK;

        while (sandbox->rest[0]) {
                char line[8192], *end = strchr(sandbox->rest, '\n');
                size_t length = end ? (size_t)(end - sandbox->rest) : strlen(sandbox->rest);

                memcpy(line, sandbox->rest, length);
                line[length] = '\0';
                memmove(sandbox->rest, sandbox->rest + length + (end ? 1 : 0),
                        strlen(sandbox->rest + length + (end ? 1 : 0)) + 1);
                if (strncmp(line, "say ", 4) == 0) {
                        fake_add(sandbox, PLACE_OUTPUT, line + 4);
                        sandbox->said += (int64_t)strlen(line + 4);
                } else if (strncmp(line, "show ", 5) == 0) {
                        fake_add(sandbox, PLACE_DISPLAY, line + 5);
                } else if (strcmp(line, "hold") == 0) {
                        sandbox->holding = true;
                        return;
                } else if (strcmp(line, "die") == 0) {
                        sandbox->ending = true;
                        sandbox->lives = false;
                        fake_wake(sandbox);
                        return;
                } else if (strncmp(line, "keep ", 5) == 0) {
                        snprintf(sandbox->memory, sizeof(sandbox->memory), "%.60s", line + 5);
                } else if (strcmp(line, "recall") == 0) {
                        fake_add(sandbox, PLACE_OUTPUT, sandbox->memory);
                        sandbox->said += (int64_t)strlen(sandbox->memory);
                } else if (strcmp(line, "fail") == 0) {
                        status = REPORT_ERROR;
                        break;
                }
        }
        fake_done(sandbox, status);
}

static inline struct fake_sandbox *fake_find(struct fake_place *place, const char *id) {
        for (size_t i = 0; i < place->count; i++) {
                if (strcmp(place->sandboxes[i].id, id) == 0)
                        return &place->sandboxes[i];
        }
        return NULL;
}

static inline void fake_forget(struct fake_sandbox *sandbox) {
        for (size_t i = 0; i < sandbox->count; i++)
                free(sandbox->events[i]);
        sandbox->count = sandbox->told = 0;
        sandbox->lives = false;
        sandbox->running = 0;
        sandbox->rest[0] = '\0';
        sandbox->ending = sandbox->restored = sandbox->bringing = false;
        sandbox->memory[0] = '\0';
}

static inline size_t fake_count_agents(const struct fake_place *place) {
        size_t count = 0;

        for (size_t i = 0; i < place->count; i++)
                count += place->sandboxes[i].lives && place->sandboxes[i].of_agent;
        return count;
}

static inline int fake_open(struct place *base, const struct place_opening *opening,
                            struct place_session **ret, struct error *err) {
        struct fake_place *place = (struct fake_place *)base;
        struct fake_sandbox *sandbox;
        struct place_session *session;
        int result = -1;

        fake_pass(&fake_opening, opening->owner);
        pthread_mutex_lock(&place->lock);
        place->opens++;
        place->opened_note = json_integer_or(opening->note, "n", 0);
        place->opened_parked = opening->parked;
        sandbox = fake_find(place, opening->id);
        if (place->refuse_open) {
                result = error_set(err, "the machine is full");
        } else if (opening->agent && place->agent_max && !(sandbox && sandbox->lives) &&
                   fake_count_agents(place) >= place->agent_max) {
                result = error_set_kind(err, ERROR_LOCKED, "the agent has as many as it may");
        } else if (opening->only_living && !(sandbox && sandbox->lives)) {
                result = error_set_kind(err, ERROR_NOT_FOUND, "it does not live");
        } else {
                if (!sandbox) {
                        if (place->count == FAKE_SANDBOXES)
                                abort();
                        sandbox = &place->sandboxes[place->count++];
                        snprintf(sandbox->id, sizeof(sandbox->id), "%s", opening->id);
                        snprintf(sandbox->owner, sizeof(sandbox->owner), "%s", opening->owner);
                }
                session = calloc(1, sizeof(*session));
                if (!session)
                        abort();
                *session =
                        (struct place_session){ .place = place, .sandbox = sandbox, .kept = sandbox->lives };
                if (!sandbox->lives) {
                        fake_forget(sandbox);
                        sandbox->lives = true;
                        sandbox->of_agent = opening->agent != NULL;
                        sandbox->last = 0;
                        sandbox->generation = 1;
                        sandbox->fresh = true;
                        sandbox->restored =
                                opening->checkpoint && !place->lose_checkpoints &&
                                strcmp(opening->checkpoint->digest, sandbox->last_checkpoint.digest) == 0;
                        sandbox->generation += sandbox->restored;
                        if (sandbox->restored)
                                memcpy(sandbox->memory, sandbox->checkpoint, sizeof(sandbox->memory));
                        sandbox->restoring_died = opening->checkpoint && place->die_restoring;
                        sandbox->ending = sandbox->restoring_died;
                }
                if (place->fail_start)
                        sandbox->ending = true;
                sandbox->told = 0;
                sandbox->descriptor = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
                *ret = session;
                result = 0;
        }
        pthread_mutex_unlock(&place->lock);
        return result;
}

static inline int fake_descriptor(const struct place_session *session) {
        return session->sandbox->descriptor;
}

static inline int64_t fake_patience_ms(const struct place_session *session) {
        (void)session;
        return -1;
}

static inline int fake_next(struct place_session *session, struct place_event *ret, struct error *err) {
        struct fake_sandbox *sandbox = session->sandbox;
        struct place_event event = { .type = PLACE_NOTHING, .exit_code = -1 };
        uint64_t ignored;

        (void)err;
        pthread_mutex_lock(&session->place->lock);
        if (!session->told_opened && !session->place->fail_start && !sandbox->restoring_died) {
                session->told_opened = true;
                event.type = PLACE_OPENED;
                event.kept = session->kept;
                event.last = sandbox->last;
                event.loaded = sandbox->restored && !session->kept;
                event.reason = event.loaded ? NULL : "the checkpoint is not there";
        } else if (sandbox->told < sandbox->count) {
                struct fake_event *kept = sandbox->events[sandbox->told++];

                session->copy = *kept;
                event.type = kept->type;
                event.id = kept->id;
                event.n = kept->n;
                event.bytes = session->copy.text;
                event.length = session->copy.length;
                event.status = kept->status;
                event.exit_code = kept->status == REPORT_OK ? 0 : kept->status == REPORT_ERROR ? 1 : -1;
                event.stdout_bytes = kept->stdout_bytes;
                if (kept->type == PLACE_DONE && session->place->notes) {
                        json_decref(session->note);
                        event.note = session->note = json_pack("{s:I}", "n", (json_int_t)kept->n);
                }
                if (kept->type == PLACE_STARTED) {
                        event.context = "main";
                        event.generation = sandbox->generation;
                        event.was = kept->was;
                }
                if (kept->type == PLACE_PARKED)
                        event.checkpoint = sandbox->last_checkpoint;
                if (kept->type == PLACE_STAYED)
                        event.reason = session->copy.text;
                if (kept->type == PLACE_PARKED || kept->type == PLACE_STAYED || kept->type == PLACE_LEAVING ||
                    kept->type == PLACE_BROUGHT) {
                        event.id = 0;
                        free(kept);
                        memmove(sandbox->events + sandbox->told - 1, sandbox->events + sandbox->told,
                                (sandbox->count - sandbox->told) * sizeof(struct fake_event *));
                        sandbox->told--;
                        sandbox->count--;
                }
                if (event.type == PLACE_DISPLAY) {
                        session->display = (struct content_display){
                                .parts = { { "text/plain", session->copy.text, session->copy.length } },
                                .count = 1,
                        };
                        event.display = &session->display;
                        event.length = 0;
                }
        } else if (sandbox->ending && !session->place->slow_end) {
                event.type = PLACE_ENDED;
                snprintf(session->why, sizeof(session->why), "it was ended");
                event.reason = session->why;
                event.restoring = sandbox->restoring_died;
                fake_forget(sandbox);
        } else if (read(sandbox->descriptor, &ignored, sizeof(ignored)) < 0 && errno != EAGAIN) {
                abort();
        }
        pthread_mutex_unlock(&session->place->lock);
        *ret = event;
        return 0;
}

static inline int fake_execute(struct place_session *session, const struct place_execution *execution,
                               struct error *err) {
        struct fake_sandbox *sandbox = session->sandbox;
        int result = 0;

        pthread_mutex_lock(&session->place->lock);
        if (session->place->die_executing || sandbox->ending) {
                session->place->die_executing = false;
                sandbox->ending = true;
                fake_wake(sandbox);
                result = error_set_kind(err, ERROR_UNREACHABLE, "it is dying");
        } else if (sandbox->running) {
                result = error_set(err, "two executions at once");
        } else {
                const char *name = json_string_value(json_object_get(execution->variables, "NAME"));

                session->place->executes++;
                session->place->asked_ms = execution->timeout_ms;
                if (execution->input && execution->input_length < sizeof(session->place->asked_input))
                        memcpy(session->place->asked_input, execution->input, execution->input_length);
                snprintf(session->place->asked_name, sizeof(session->place->asked_name), "%.15s",
                         name ? name : "");
                sandbox->running = sandbox->last = execution->n;
                sandbox->said = 0;
                snprintf(sandbox->rest, sizeof(sandbox->rest), "%.*s", (int)execution->code_length,
                         execution->code);
                fake_add(sandbox, PLACE_STARTED, "")->was = !sandbox->fresh     ? PLACE_KEPT
                                                            : sandbox->restored ? PLACE_RESTORED
                                                                                : PLACE_NEW;
                sandbox->fresh = false;
                fake_run(sandbox);
        }
        pthread_mutex_unlock(&session->place->lock);
        return result;
}

static inline void fake_interrupt(struct place_session *session, int64_t n) {
        pthread_mutex_lock(&session->place->lock);
        if (session->sandbox->running == n)
                fake_done(session->sandbox, REPORT_INTERRUPTED);
        pthread_mutex_unlock(&session->place->lock);
}

static inline int fake_restart(struct place_session *session, const char *context, struct error *err) {
        size_t length;

        (void)err;
        pthread_mutex_lock(&session->place->lock);
        length = strlen(session->place->restarted);
        snprintf(session->place->restarted + length, sizeof(session->place->restarted) - length, "%s ",
                 context);
        session->sandbox->generation++;
        if (session->sandbox->running)
                fake_done(session->sandbox, REPORT_KILLED);
        fake_add(session->sandbox, PLACE_RESTARTED, "");
        pthread_mutex_unlock(&session->place->lock);
        return 0;
}

/* With the place's lock: the checkpoint is taken, or cannot be. */
static inline void fake_end_park(struct fake_place *place, struct fake_sandbox *sandbox) {
        if (place->fail_park) {
                fake_add(sandbox, PLACE_STAYED, "the disk is full");
                return;
        }
        snprintf(sandbox->last_checkpoint.digest, sizeof(sandbox->last_checkpoint.digest), "%064zu",
                 place->parks);
        sandbox->last_checkpoint.bytes = strlen(sandbox->memory);
        memcpy(sandbox->checkpoint, sandbox->memory, sizeof(sandbox->checkpoint));
        fake_add(sandbox, PLACE_PARKED, "");
}

static inline int fake_park(struct place_session *session, struct error *err) {
        int result = 0;

        pthread_mutex_lock(&session->place->lock);
        if (session->sandbox->running || session->sandbox->bringing || session->place->refuse_park) {
                result = error_set_kind(err, ERROR_REFUSED, "something runs");
        } else {
                session->place->parks++;
                if (!session->place->slow_park)
                        fake_end_park(session->place, session->sandbox);
        }
        pthread_mutex_unlock(&session->place->lock);
        return result;
}

static inline int fake_bring(struct place_session *session, struct error *err) {
        int result;

        (void)err;
        pthread_mutex_lock(&session->place->lock);
        result = !session->place->slow_bring || session->sandbox->running || session->sandbox->bringing;
        session->sandbox->bringing = session->sandbox->bringing || result == 0;
        session->place->brings += result == 0;
        pthread_mutex_unlock(&session->place->lock);
        return result;
}

static inline void fake_expire(struct place_session *session, const struct place_life *life) {
        pthread_mutex_lock(&session->place->lock);
        session->place->life = *life;
        session->place->expires++;
        pthread_mutex_unlock(&session->place->lock);
}

static inline void fake_heard(struct place_session *session, uint64_t id) {
        struct fake_sandbox *sandbox = session->sandbox;
        size_t gone = 0;

        pthread_mutex_lock(&session->place->lock);
        while (gone < sandbox->count && sandbox->events[gone]->id <= id)
                free(sandbox->events[gone++]);
        memmove(sandbox->events, sandbox->events + gone,
                (sandbox->count - gone) * sizeof(struct fake_event *));
        sandbox->count -= gone;
        sandbox->told -= gone;
        pthread_mutex_unlock(&session->place->lock);
}

static inline void fake_end(struct place_session *session) {
        pthread_mutex_lock(&session->place->lock);
        session->sandbox->ending = true;
        session->place->ends++;
        fake_wake(session->sandbox);
        pthread_mutex_unlock(&session->place->lock);
}

static inline void fake_leave(struct place_session *session) {
        fake_pass(&fake_going, session->sandbox->owner);
        pthread_mutex_lock(&session->place->lock);
        close(session->sandbox->descriptor);
        session->sandbox->descriptor = -1;
        pthread_mutex_unlock(&session->place->lock);
        explicit_bzero(session->why, sizeof(session->why));
        json_decref(session->note);
        free(session);
}

static inline int fake_clear(struct place *base, const char *id, struct error *err) {
        struct fake_place *place = (struct fake_place *)base;
        struct fake_sandbox *sandbox;

        (void)err;
        pthread_mutex_lock(&place->lock);
        sandbox = fake_find(place, id);
        pthread_mutex_unlock(&place->lock);
        fake_pass(&fake_clearing, sandbox ? sandbox->owner : NULL);
        pthread_mutex_lock(&place->lock);
        place->clears++;
        place->kills += sandbox && sandbox->lives;
        if (sandbox)
                fake_forget(sandbox);
        pthread_mutex_unlock(&place->lock);
        return 0;
}

static inline int fake_adopt(struct place *base, const struct place_opening *opening, int64_t last,
                             struct place_checkpoint *ret, struct error *err) {
        struct fake_place *place = (struct fake_place *)base;
        struct fake_sandbox *sandbox;
        int found;

        (void)last;
        (void)err;
        fake_pass(&fake_adopting, opening->owner);
        pthread_mutex_lock(&place->lock);
        sandbox = fake_find(place, opening->id);
        found = place->adopts && sandbox && sandbox->last_checkpoint.digest[0];
        if (found)
                *ret = sandbox->last_checkpoint;
        pthread_mutex_unlock(&place->lock);
        return found;
}

static const struct place_class fake_class __attribute__((unused)) = {
        .open = fake_open,
        .descriptor = fake_descriptor,
        .patience_ms = fake_patience_ms,
        .next = fake_next,
        .execute = fake_execute,
        .interrupt = fake_interrupt,
        .restart = fake_restart,
        .park = fake_park,
        .bring = fake_bring,
        .expire = fake_expire,
        .heard = fake_heard,
        .end = fake_end,
        .leave = fake_leave,
        .clear = fake_clear,
        .adopt = fake_adopt,
};

/* Lets a park that is slow come to its end. */
static inline void fake_let_park(struct fake_place *place, const char *id) {
        pthread_mutex_lock(&place->lock);
        fake_end_park(place, fake_find(place, id));
        pthread_mutex_unlock(&place->lock);
}

static inline void fake_let_bring(struct fake_place *place, const char *id) {
        struct fake_sandbox *sandbox;

        pthread_mutex_lock(&place->lock);
        sandbox = fake_find(place, id);
        if (sandbox->bringing)
                fake_add(sandbox, PLACE_BROUGHT, "");
        sandbox->bringing = false;
        pthread_mutex_unlock(&place->lock);
}

/* The sandbox ends by itself. */
static inline void fake_die(struct fake_place *place, const char *id) {
        struct fake_sandbox *sandbox;

        pthread_mutex_lock(&place->lock);
        sandbox = fake_find(place, id);
        sandbox->ending = true;
        sandbox->lives = false;
        fake_wake(sandbox);
        pthread_mutex_unlock(&place->lock);
}

/* Its worker gets SIGTERM. */
static inline void fake_tell_to_leave(struct fake_place *place, const char *id) {
        pthread_mutex_lock(&place->lock);
        fake_add(fake_find(place, id), PLACE_LEAVING, "");
        pthread_mutex_unlock(&place->lock);
}

/* Lets the code that holds go on. False where none does. */
static inline bool fake_release(struct fake_place *place, const char *id) {
        struct fake_sandbox *sandbox;
        bool holds;

        pthread_mutex_lock(&place->lock);
        sandbox = fake_find(place, id);
        holds = sandbox && sandbox->holding;
        if (holds) {
                sandbox->holding = false;
                fake_run(sandbox);
        }
        pthread_mutex_unlock(&place->lock);
        return holds;
}

static inline void fake_let_end(struct fake_place *place) {
        pthread_mutex_lock(&place->lock);
        place->slow_end = false;
        for (size_t i = 0; i < place->count; i++)
                fake_wake(&place->sandboxes[i]);
        pthread_mutex_unlock(&place->lock);
}

static inline bool fake_is_ending(struct fake_place *place, const char *id) {
        bool ending;

        pthread_mutex_lock(&place->lock);
        ending = fake_find(place, id)->ending;
        pthread_mutex_unlock(&place->lock);
        return ending;
}

/* The word that it should end never came. */
static inline void fake_revive(struct fake_place *place, const char *id) {
        place->slow_end = false;
        fake_find(place, id)->ending = false;
}

/* The machine is started again: no sandbox lives. */
static inline void fake_kill_all(struct fake_place *place) {
        for (size_t i = 0; i < place->count; i++)
                fake_forget(&place->sandboxes[i]);
}

static inline void fake_kill(struct fake_place *place, const char *id) {
        fake_forget(fake_find(place, id));
}

static inline bool fake_lives(struct fake_place *place, const char *id) {
        struct fake_sandbox *sandbox;
        bool lives;

        pthread_mutex_lock(&place->lock);
        sandbox = fake_find(place, id);
        lives = sandbox && sandbox->lives;
        pthread_mutex_unlock(&place->lock);
        return lives;
}

#endif
