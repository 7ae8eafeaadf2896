/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of a session's life (sessions/model/) beside the engine, in each test of the engine. Whenever
 * an engine lets go of its lock, and after each write, the state of each session is derived from its
 * flags. The table must lead there from the state before, by events that the place and the clients have
 * given in between.
 *
 * A way that the table does not know is printed to standard error and ends the test; with BERTH_BESIDE=print
 * the test goes on. What the two are known to differ in is in is_known(). This file goes when the engine reads
 * the table itself.
 *
 * The linker puts it between the engine and the functions that are named __wrap_ here.
 */
#include "base/text.h"
#include "sessions/engine_parts.h"
#include "sessions/engine_seats.h"
#include "sessions/model/life_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_session_store_write(struct session_store *store, const struct session_change *changes,
                               size_t count, struct error *err);
int __wrap_session_store_write(struct session_store *store, const struct session_change *changes,
                               size_t count, struct error *err);
int __real_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);
int __wrap_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);
int __real_engine_open(const struct engine_config *config, struct engine **ret, struct error *err);
int __wrap_engine_open(const struct engine_config *config, struct engine **ret, struct error *err);
void __real_engine_close(struct engine *engine);
void __wrap_engine_close(struct engine *engine);

#define ENGINES_MAX 8
#define SESSIONS_MAX 4096
#define PAIRS_MAX 65536
/* Between two looks a whole line of executions may begin and end, by three events each. */
#define EVENTS_MAX (3 * (ENGINE_QUEUE_MAX + 2))
#define LOCKED_MAX 8
#define REACHED_MAX 131072 /* a line of eight needs half of that */
#define SAID(event) (UINT64_C(1) << (event))

struct seen {
        const struct engine *engine;
        char id[ENGINE_ID_SIZE];
        struct life_state state;
        uint64_t said; /* set of events: what the place has said since */
        int64_t last_n;
};

/* A way from one state to another: whether the table knows one. */
struct pair {
        struct life_state from, to;
        uint64_t said;
        bool is_known;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct engine *engines[ENGINES_MAX];
static struct seen seen[SESSIONS_MAX];
static size_t seen_count;
static struct pair pairs[PAIRS_MAX];
static size_t pair_count;

/* From the flags of today */

static uint8_t life_of_flags(const struct session *session) {
        if (session->far || session->stale)
                return LIFE_AWAY;
        /* In a store that servers share, another server may have its end. */
        if (session->end == SESSION_OVER && session->phase == SESSION_NO_PLACE && !session->unwritten)
                return session->engine->servers ? LIFE_AWAY : LIFE_GONE;
        if (!session_lives(session))
                return LIFE_ENDING;
        if ((session->engine->servers && session->phase == SESSION_NO_PLACE && session->in_line == 0 &&
             !session->wanted && !session_busy(session)))
                return LIFE_AWAY;
        switch (session->phase) {
        case SESSION_OPENING:
                /* The place of this machine counts what runs for an agent: whether there is a slot is said with the sandbox. */
                return session->place || session->rejoining || !session->record.agent ? LIFE_OPENING
                                                                                      : LIFE_QUEUED;
        case SESSION_OPEN:
                return LIFE_OPEN;
        case SESSION_PARKING:
                return session->record.parked ? LIFE_PARKED : LIFE_PARKING;
        default:
                return !session->unwritten &&
                                       (session->in_line > 0 || session->wanted || session->waiting > 0)
                               ? LIFE_QUEUED
                               : LIFE_PARKED;
        }
}

static uint8_t sandbox_of_flags(const struct session *session) {
        /* A sandbox that is being opened is told to end once it is there, and one that is joined once it is heard. */
        if (session->phase == SESSION_OPENING && !session_lives(session))
                return session->rejoining ? LIFE_SANDBOX_SOUGHT : LIFE_SANDBOX_ENDING;
        /* A thread is about to look for it. */
        if (session->phase == SESSION_NO_PLACE && !session_lives(session) && session->end < SESSION_ENDS)
                return LIFE_SANDBOX_SOUGHT;
        if (life_of_flags(session) == LIFE_QUEUED)
                return LIFE_NO_SANDBOX;
        if (session->phase == SESSION_OPENING)
                return session->rejoining ? LIFE_SANDBOX_SOUGHT : LIFE_SANDBOX_ASKED;
        if (session->phase == SESSION_NO_PLACE)
                return LIFE_NO_SANDBOX;
        /* The end of the session was just recorded: its sandbox is told next. */
        return session->phase == SESSION_ENDING || !session_lives(session) ||
                               (session->phase == SESSION_PARKING && session->record.parked)
                       ? LIFE_SANDBOX_ENDING
                       : LIFE_SANDBOX_LIVES;
}

static uint8_t files_of_flags(const struct session *session) {
        int64_t wanted = session->bring_wanted - session->brought;

        if (session->bringing)
                return wanted > 1 ? LIFE_FILES_WANTED_AGAIN : LIFE_FILES_COMING;
        return wanted > 0 ? LIFE_FILES_WANTED : LIFE_NO_FILES;
}

static struct life_state state_of_flags(const struct session *session) {
        struct life_state state = { .life = life_of_flags(session) };

        if (state.life == LIFE_AWAY || state.life == LIFE_GONE)
                return state;
        state.execution = session->running ? LIFE_RUNNING : LIFE_IDLE;
        state.sandbox = sandbox_of_flags(session);
        state.slot = state.life == LIFE_QUEUED          ? LIFE_SLOT_ASKED
                     : state.sandbox == LIFE_NO_SANDBOX ? LIFE_NO_SLOT
                     : session->seat_lost               ? LIFE_SLOT_GONE
                                                        : LIFE_SLOT_HELD;
        state.files = files_of_flags(session);
        state.parking = session->leaving      ? LIFE_PARKS_FIRST
                        : session->parks_next ? LIFE_PARKS_IDLE
                                              : LIFE_STAYS;
        state.waiting = (uint16_t)session->waiting;
        for (const struct execution *ended = session->unwritten; ended; ended = ended->next)
                state.ends++;
        return state;
}

/* By the table */

/* What the flags of today do not say is left out: a slot, the write that is under way; and what is wanted of a sandbox that goes. */
static bool looks_like(const struct life_state *one, const struct life_state *other) {
        bool goes = one->life == LIFE_PARKING || one->life == LIFE_PARKED || one->life == LIFE_ENDING;

        return one->life == other->life && one->execution == other->execution &&
               one->sandbox == other->sandbox && one->waiting == other->waiting && one->ends == other->ends &&
               (goes || (one->files == other->files && one->parking == other->parking));
}

/* Each state once, found by its bytes. */
struct reached {
        struct life_state states[REACHED_MAX];
        size_t count;
        uint32_t slots[2 * REACHED_MAX]; /* numbers of states, from 1; 0: free */
};

static void reach(struct reached *reached, const struct life_state *state) {
        size_t slot = text_hash_bytes(state, sizeof(*state)) % (2 * REACHED_MAX);

        for (; reached->slots[slot] > 0; slot = (slot + 1) % (2 * REACHED_MAX)) {
                if (memcmp(&reached->states[reached->slots[slot] - 1], state, sizeof(*state)) == 0)
                        return;
        }
        if (reached->count == REACHED_MAX)
                return;
        reached->states[reached->count++] = *state;
        reached->slots[slot] = (uint32_t)reached->count;
}

/*
 * What a place says must have been said, and what is asked have a number. Only servers that share a store take slots and sessions away.
 */
static bool may_come(unsigned event, uint64_t said) {
        static const uint64_t of_others =
                SAID(LIFE_OPENED) | SAID(LIFE_OPENED_RUNNING) | SAID(LIFE_OPEN_FAILED) | SAID(LIFE_STARTED) |
                SAID(LIFE_DONE) | SAID(LIFE_BROUGHT) | SAID(LIFE_CHECKPOINTED) | SAID(LIFE_STAYED) |
                SAID(LIFE_LEAVING) | SAID(LIFE_ENDED) | SAID(LIFE_NOT_TAKEN) | SAID(LIFE_SLOT_LOST) |
                SAID(LIFE_LEASE_LOST) | SAID(LIFE_TAKEN_OVER) | SAID(LIFE_MADE) | SAID(LIFE_ASKED);

        return !(of_others & SAID(event)) || (said & SAID(event));
}

static bool has_way(const struct life_state *from, const struct life_state *to, uint64_t said) {
        static struct reached reached;
        size_t begin = 0, end;
        unsigned effects;

        reached.count = 0;
        memset(reached.slots, 0, sizeof(reached.slots));
        reach(&reached, from);
        for (size_t depth = 0; depth <= EVENTS_MAX; depth++) {
                end = reached.count;
                for (size_t i = begin; i < end; i++) {
                        if (looks_like(&reached.states[i], to))
                                return true;
                }
                for (size_t i = begin; i < end; i++) {
                        for (unsigned event = 0; event < LIFE_EVENT_COUNT; event++) {
                                const struct life_row *row =
                                        life_find_row(life_rows, life_row_count, &reached.states[i], event);
                                struct life_state next;

                                if (!row || row->later || !may_come(event, said) ||
                                    !life_next(&reached.states[i], (enum life_event)event, &next, &effects))
                                        continue;
                                /* It was taken over again before this engine looked. */
                                if (event == LIFE_LEASE_LOST)
                                        next = life_recorded(&reached.states[i]);
                                /* The flags do not count kernels that must be restarted: one stands for all. */
                                if (next.waiting <= from->waiting + to->waiting + 1 &&
                                    next.ends <= from->ends + to->ends + 1 && next.restarts <= 1)
                                        reach(&reached, &next);
                        }
                }
                begin = end;
        }
        /* Where there are more states than fit, nothing is said. */
        return reached.count == REACHED_MAX;
}

/*
 * What the engine does otherwise than the table. Each goes when the engine has moved over, and nothing is added.
 *
 * - A sandbox that is dying and has not taken an execution is given it again and again, each time with two writes, until it
 *   says that it has ended. In the table it is on its way out from then on.
 * - A sandbox is asked for before the execution that needs it is accepted, so that an agent's
 *   limits turn it away first; or for a kernel that must be a fresh one.
 */
static bool is_known(const struct life_state *from, const struct life_state *to) {
        bool stops = from->life == LIFE_OPEN && from->execution == LIFE_RUNNING && to->execution == LIFE_IDLE;
        bool begins = from->life == LIFE_PARKED && from->sandbox == LIFE_NO_SANDBOX && to->waiting == 0 &&
                      (to->life == LIFE_QUEUED || to->sandbox == LIFE_SANDBOX_ASKED);

        return (stops && to->life == LIFE_OPEN && to->waiting == from->waiting + 1) || begins;
}

static void print_state(const struct life_state *state) {
        fprintf(stderr, "%s execution %d sandbox %d slot %d files %d parking %d waiting %d ends %d",
                life_name((enum life)state->life), state->execution, state->sandbox, state->slot,
                state->files, state->parking, state->waiting, state->ends);
}

static void compare(const struct life_state *from, const struct life_state *to, uint64_t said) {
        struct pair *pair;

        for (size_t i = 0; i < pair_count; i++) {
                if (pairs[i].said == said && memcmp(&pairs[i].from, from, sizeof(*from)) == 0 &&
                    memcmp(&pairs[i].to, to, sizeof(*to)) == 0) {
                        return;
                }
        }
        if (pair_count == PAIRS_MAX)
                abort();
        pair = &pairs[pair_count++];
        *pair = (struct pair){ .from = *from,
                               .to = *to,
                               .said = said,
                               .is_known = is_known(from, to) || has_way(from, to, said) };
        if (pair->is_known)
                return;
        fprintf(stderr, "the table knows no way from\n  ");
        print_state(from);
        fprintf(stderr, "\nto\n  ");
        print_state(to);
        fprintf(stderr, "\nsessions/model/README.md says what that means\n");
        if (!getenv("BERTH_BESIDE") || strcmp(getenv("BERTH_BESIDE"), "print") != 0)
                abort();
}

/* Looking */

static int executions_of(const struct life_state *state) {
        return state->execution + state->waiting + state->ends;
}

static void look_at(const struct engine *engine, const struct session *session) {
        struct life_state state = state_of_flags(session);
        size_t i = 0;

        while (i < seen_count && (seen[i].engine != engine || strcmp(seen[i].id, session->record.id) != 0))
                i++;
        if (i == SESSIONS_MAX)
                return;
        /*
         * A sandbox that ends has not ended before it is left. And where a store that servers share
         * is waited for with the session's turn, no other thread sees it as it is.
         */
        if ((!session->place && (session->phase == SESSION_ENDING || session->phase == SESSION_PARKING)) ||
            session->taken)
                return;
        if (i < seen_count && session->record.last_n > seen[i].last_n)
                seen[i].said |= SAID(LIFE_ASKED);
        if (i < seen_count && seen[i].state.life != LIFE_AWAY && state.life != LIFE_AWAY &&
            memcmp(&seen[i].state, &state, sizeof(state)) != 0)
                compare(&seen[i].state, &state, seen[i].said);
        if (i == seen_count) {
                seen_count++;
                seen[i].engine = engine;
                seen[i].said = 0;
                snprintf(seen[i].id, sizeof(seen[i].id), "%s", session->record.id);
                seen[i].last_n = session->record.last_n;
                /* A session that was just made will ask for its sandbox next. */
                if (state.life == LIFE_PARKED && !session->ever_open && session->record.last_n == 0)
                        state = (struct life_state){ .life = LIFE_QUEUED, .slot = LIFE_SLOT_ASKED };
        }
        /* Its number is written before it waits. */
        if (executions_of(&state) > executions_of(&seen[i].state))
                seen[i].last_n = session->record.last_n;
        /* That it cannot be opened is said without the engine's lock: others look before that is acted on. */
        seen[i].said = memcmp(&seen[i].state, &state, sizeof(state)) == 0
                               ? seen[i].said & SAID(LIFE_OPEN_FAILED)
                               : 0;
        seen[i].state = state;
        seen[i].said |=
                engine->servers ? SAID(LIFE_SLOT_LOST) | SAID(LIFE_LEASE_LOST) | SAID(LIFE_TAKEN_OVER) : 0;
}

/* What this thread has locked, of whichever kind. */
static _Thread_local pthread_mutex_t *locked[LOCKED_MAX];

static void note_lock(const pthread_mutex_t *old, pthread_mutex_t *new) {
        size_t i = 0;

        while (i < LOCKED_MAX && locked[i] != old)
                i++;
        if (i < LOCKED_MAX)
                locked[i] = new;
}

static bool has_locked(const pthread_mutex_t *mutex) {
        size_t i = 0;

        while (i < LOCKED_MAX && locked[i] != mutex)
                i++;
        return i < LOCKED_MAX;
}

/* At the engine that has this lock; NULL: at those that this thread has locked. */
static void look(const pthread_mutex_t *mutex) {
        (void)__real_pthread_mutex_lock(&lock);
        for (size_t i = 0; i < ENGINES_MAX; i++) {
                if (!engines[i] || engines[i]->stopping ||
                    (mutex ? &engines[i]->lock != mutex : !has_locked(&engines[i]->lock)))
                        continue;
                for (const struct session *session = engines[i]->first; session; session = session->next)
                        look_at(engines[i], session);
        }
        (void)__real_pthread_mutex_unlock(&lock);
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex) {
        int result = __real_pthread_mutex_lock(mutex);

        note_lock(NULL, mutex);
        return result;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex) {
        look(mutex);
        note_lock(mutex, NULL);
        return __real_pthread_mutex_unlock(mutex);
}

/* A value set before a write that failed is put back after it. */
int __wrap_session_store_write(struct session_store *store, const struct session_change *changes,
                               size_t count, struct error *err) {
        int result = __real_session_store_write(store, changes, count, err);

        if (result > 0)
                look(NULL);
        return result;
}

int __wrap_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex) {
        look(mutex);
        return __real_pthread_cond_wait(condition, mutex);
}

static void replace(const struct engine *old, struct engine *new) {
        size_t i = 0;

        (void)__real_pthread_mutex_lock(&lock);
        while (i < ENGINES_MAX && engines[i] != old)
                i++;
        if (i == ENGINES_MAX)
                abort();
        engines[i] = new;
        for (i = 0; old && i < seen_count; i++) {
                if (seen[i].engine == old)
                        seen[i--] = seen[--seen_count];
        }
        (void)__real_pthread_mutex_unlock(&lock);
}

/* What the place says */

static struct place_class spied;
static int (*next_of_place)(struct place_session *session, struct place_event *ret, struct error *err);
static int (*open_of_place)(struct place *place, const struct place_opening *opening,
                            struct place_session **ret, struct error *err);

static uint64_t said_by(const struct place_event *event) {
        switch (event->type) {
        case PLACE_OPENED:
                return SAID(LIFE_OPENED) | SAID(LIFE_OPENED_RUNNING);
        case PLACE_STARTED:
                return SAID(LIFE_STARTED);
        case PLACE_DONE:
                return SAID(LIFE_DONE);
        case PLACE_PARKED:
                return SAID(LIFE_CHECKPOINTED);
        case PLACE_STAYED:
                return SAID(LIFE_STAYED);
        case PLACE_BROUGHT:
                return SAID(LIFE_BROUGHT);
        case PLACE_LEAVING:
                return SAID(LIFE_LEAVING);
        case PLACE_ENDED:
                return SAID(LIFE_ENDED);
        default:
                return 0;
        }
}

static void note_said(const struct place_session *place, uint64_t said) {
        (void)__real_pthread_mutex_lock(&lock);
        for (size_t i = 0; i < seen_count; i++) {
                const struct session *session = NULL;

                if (has_locked(&seen[i].engine->lock))
                        session = seen[i].engine->first;
                while (session && session->place != place)
                        session = session->next;
                if (session && strcmp(session->record.id, seen[i].id) == 0)
                        seen[i].said |= said;
        }
        (void)__real_pthread_mutex_unlock(&lock);
}

static int spy_next(struct place_session *session, struct place_event *ret, struct error *err) {
        int result = next_of_place(session, ret, err);

        note_said(session, result < 0 ? SAID(LIFE_ENDED) : said_by(ret));
        return result;
}

static void note_said_of(const char *id, uint64_t said) {
        (void)__real_pthread_mutex_lock(&lock);
        for (size_t i = 0; i < seen_count; i++) {
                if (strcmp(seen[i].id, id) == 0)
                        seen[i].said |= said;
        }
        (void)__real_pthread_mutex_unlock(&lock);
}

static int spy_open(struct place *place, const struct place_opening *opening, struct place_session **ret,
                    struct error *err) {
        int result = open_of_place(place, opening, ret, err);

        if (result < 0)
                note_said_of(opening->id, SAID(LIFE_OPEN_FAILED));
        return result;
}

static void spy(struct place *place) {
        if (place->class == &spied)
                return;
        spied = *place->class;
        next_of_place = spied.next;
        open_of_place = spied.open;
        spied.next = spy_next;
        spied.open = spy_open;
        place->class = &spied;
}

int __wrap_engine_open(const struct engine_config *config, struct engine **ret, struct error *err) {
        int result;

        spy(config->place);
        result = __real_engine_open(config, ret, err);
        if (result < 0)
                return result;
        replace(NULL, *ret);
        /* The sessions that it has found come first. */
        (void)__wrap_pthread_mutex_lock(&(*ret)->lock);
        (void)__wrap_pthread_mutex_unlock(&(*ret)->lock);
        return result;
}

void __wrap_engine_close(struct engine *engine) {
        if (engine)
                replace(engine, NULL);
        __real_engine_close(engine);
}
