/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a session's life meets, as small as it can be told: a record in a store that two servers share, a sandbox that outlives
 * servers, one slot that another session wants too, leases that lapse, and clients.
 *
 *      world_begin -> world_steps -> world_step -> world_steps ... until .broken or the record is gone
 *
 * A world is plain bytes: two are the same where their bytes are. Each server's view is a state of the table; this file carries
 * out the effects, one a step, and a server may die before each of them and after. What becomes of numbers is followed by what
 * the table does to counts: so an execution that the table forgets is missed.
 *
 * The check of a lease and the call that follows it are one step here, as in the model of the shared state: a call that was begun in
 * time may end too late, which no lease can help. There a sandbox refuses numbers that do not rise.
 */
#ifndef BERTH_TESTS_UNIT_SESSIONS_MODEL_WORLD_H
#define BERTH_TESTS_UNIT_SESSIONS_MODEL_WORLD_H

#include "sessions/model/life_rows.h"

#include <string.h>

#define EXECUTIONS_MAX 4
#define SERVERS 2
#define EFFECTS_MAX 8
#define STEPS_MAX 64

/* Effects that are carried out only while no other server may take this one for dead. */
#define FENCED (LIFE_DO_OPEN | LIFE_DO_JOIN | LIFE_DO_EXECUTE | LIFE_DO_PARK | LIFE_DO_BRING | LIFE_DO_END)

enum property {
        ALL_HOLDS,
        EVENT_HAS_ROW,
        RUNS_AT_MOST_ONCE,
        ONE_SERVER_RUNS,
        ONE_END_EACH,
        SLOT_COUNTED_ONCE,
        GONE_IS_REACHED, /* also: nothing is left behind by a session that is gone */
        PROPERTY_COUNT
};

struct limits {
        uint8_t executions, crashes, lapses;
        uint8_t store_faults, sandbox_deaths, open_faults, slot_losses, stays;
        uint8_t withdrawals, files, parks, leavings, restarts;
        const struct life_row *rows;
        size_t row_count;
        uint32_t *taken; /* how often each row was; NULL: not counted */
};

enum lease { LEASE_HOLDS, LEASE_DOUBTED, LEASE_DEAD /* others may take over */ };

struct server {
        bool up, joined; /* joined: hears the sandbox */
        uint8_t lease;
        bool lease_told;
        struct life_state view;
        uint8_t effects[EFFECTS_MAX],
                effect_count;              /* numbers of bits, in the order in which they are carried out */
        uint8_t known;                     /* set of executions that it was asked for, or has read */
        uint8_t line, ends;                /* sets */
        uint8_t running;                   /* number, from 1; 0: none */
        uint8_t store_answer, open_answer; /* event + 1; 0: none */
        bool wants_slot, slot_granted, slot_refused;
};

/* Without padding, since two are compared byte by byte. */
struct world {
        struct {
                bool exists, ending;
                uint8_t holder;          /* server + 1; 0: no server */
                uint8_t accepted, ended; /* sets */
                uint8_t begun;           /* number */
        } record;
        struct {
                bool lives, ending, parking, bringing;
                uint8_t last, running, done; /* numbers; done: its end was not heard */
        } sandbox;
        uint8_t ran[EXECUTIONS_MAX];
        uint8_t slots[SERVERS], ghosts,
                other; /* ghosts: entries of servers that are no more, or have dropped the session */
        bool end_asked;
        struct server servers[SERVERS];
        struct {
                uint8_t crashes, lapses, store_faults, sandbox_deaths, open_faults, slot_losses, stays;
                uint8_t withdrawals, files, parks, leavings, restarts;
        } used;
        uint8_t broken;
        uint8_t unused; /* else there would be padding */
};

enum step_type {
        STEP_ACCEPT,       /* a client's execution is in the store */
        STEP_ASK_END,      /* a client asks for the end */
        STEP_EFFECT,       /* a server carries out its next effect */
        STEP_EVENT,        /* a server is given an event: `event` */
        STEP_TAKE,         /* a server begins to hold the session, and tells the table */
        STEP_TAKE_QUIETLY, /* the same of one that is idle: the table is not told */
        STEP_GRANT,
        STEP_OTHER_TAKES, /* the other session gets the slot */
        STEP_OTHER_LEAVES,
        STEP_FINISH, /* what runs in the sandbox ends */
        STEP_END,    /* the sandbox that was told to end is gone */
        STEP_RENEW,
        STEP_RESTART,
        STEP_SILENT, /* others may take the server for dead from now on */
        /* Faults. */
        STEP_STORE_FAILS,
        STEP_STORE_ANSWER_LOST,
        STEP_OPEN_FAILS,
        STEP_RESTORE_DIES, /* the sandbox, of the checkpoint that it loads */
        STEP_CRASH,
        STEP_LAPSE,
        STEP_SANDBOX_DIES,
        STEP_LOSE_SLOT
};

struct step {
        uint8_t type, server, event;
};

static inline bool is_fault(const struct step *step) {
        return step->type >= STEP_STORE_FAILS || step->type == STEP_OTHER_TAKES ||
               (step->type == STEP_EVENT && (step->event == LIFE_STAYED || step->event == LIFE_LEAVING));
}

static inline uint8_t bit_of(unsigned n) {
        return (uint8_t)(1U << (n - 1));
}

static inline uint8_t lowest(uint8_t set) {
        for (unsigned n = 1; n <= EXECUTIONS_MAX; n++) {
                if (set & bit_of(n))
                        return (uint8_t)n;
        }
        return 0;
}

static inline unsigned count_of(uint8_t set) {
        return (unsigned)__builtin_popcount(set);
}

static inline void broke(struct world *world, enum property property) {
        if (!world->broken)
                world->broken = (uint8_t)property;
}

static inline bool record_runs(const struct world *world) {
        return world->record.begun && !(world->record.ended & bit_of(world->record.begun));
}

static inline bool holds_session(const struct server *server) {
        return server->view.life != LIFE_AWAY && server->view.life != LIFE_GONE;
}

/* The table */

static inline void move_lowest(uint8_t *from, uint8_t *to) {
        uint8_t n = lowest(*from);

        if (n == 0)
                return;
        *from = (uint8_t)(*from & ~bit_of(n));
        *to = (uint8_t)(*to | bit_of(n));
}

/* Which executions the counts that have changed stand for. */
static inline void follow_numbers(struct world *world, struct server *server, const struct life_state *old,
                                  enum life_event event) {
        const struct life_state *view = &server->view;
        int waiting = view->waiting - old->waiting, ends = view->ends - old->ends;

        if (event == LIFE_ASKED)
                waiting--;
        if (old->execution == LIFE_RUNNING && view->execution == LIFE_IDLE) {
                uint8_t *set = waiting > 0 ? &server->line : &server->ends;

                *set = (uint8_t)(*set | bit_of(server->running));
                server->running = 0;
                waiting -= waiting > 0;
        } else if (old->execution == LIFE_IDLE && view->execution == LIFE_RUNNING) {
                server->running = lowest(server->line);
                server->line = (uint8_t)(server->line & ~bit_of(server->running));
                waiting++;
        }
        for (; waiting < 0 && ends > 0; waiting++)
                move_lowest(&server->line, &server->ends);
        if (event == LIFE_STORED && old->writing == LIFE_WRITES_END)
                server->ends = (uint8_t)(server->ends & ~bit_of(lowest(server->ends)));
        /* The next one's end may have been found by the same event. */
        if (event == LIFE_STORED && old->writing == LIFE_WRITES_END && waiting < 0)
                move_lowest(&server->line, &server->ends);
        if (view->waiting != count_of(server->line) || view->ends != count_of(server->ends) ||
            (view->execution == LIFE_RUNNING) != (server->running > 0))
                broke(world, ONE_END_EACH);
}

static inline void drop_session(struct world *world, uint8_t s) {
        struct server *server = &world->servers[s];

        world->ghosts = (uint8_t)(world->ghosts + world->slots[s]);
        world->slots[s] = 0;
        *server = (struct server){ .up = server->up, .lease = server->lease, .lease_told = true };
}

static inline void count_rows(const struct limits *limits, const struct life_state *state, unsigned event) {
        const struct life_row *row = life_find_row(limits->rows, limits->row_count, state, event);

        if (limits->taken && row)
                limits->taken[row - limits->rows]++;
}

static inline void give(struct world *world, const struct limits *limits, uint8_t s, enum life_event event) {
        struct server *server = &world->servers[s];
        const struct life_state old = server->view;
        unsigned effects;

        count_rows(limits, &old, event);
        if (!life_next_by(limits->rows, limits->row_count, &old, event, &server->view, &effects)) {
                broke(world, EVENT_HAS_ROW);
                return;
        }
        if (event == LIFE_LEASE_LOST) {
                server->lease_told = true;
                if (server->view.life == LIFE_AWAY)
                        drop_session(world, s);
                return;
        }
        follow_numbers(world, server, &old, event);
        for (uint8_t i = 0; (1U << i) <= effects; i++) {
                if ((effects & (1U << i)) && (1U << i) != LIFE_DO_NOTIFY && (1U << i) != LIFE_DO_INTERRUPT)
                        server->effects[server->effect_count++] = i;
        }
}

/* Effects */

/* Under the condition that the record is as this server left it. */
static inline void store(struct world *world, uint8_t s, enum step_type how) {
        struct server *server = &world->servers[s];
        uint8_t n;

        if (!world->record.exists || world->record.holder != s + 1) {
                server->store_answer = LIFE_LEASE_LOST + 1;
                return;
        }
        server->store_answer = LIFE_STORE_FAILED + 1;
        if (how == STEP_STORE_FAILS ||
            (server->view.writing == LIFE_WRITES_REMOVAL && world->record.accepted != world->record.ended))
                return;
        server->store_answer = (uint8_t)((how == STEP_STORE_ANSWER_LOST ? LIFE_LEASE_LOST : LIFE_STORED) + 1);
        if (world->record.begun && (server->line & bit_of(world->record.begun)))
                world->record.begun = 0;
        switch (server->view.writing) {
        case LIFE_WRITES_BEGIN:
                world->record.begun = lowest(server->line);
                break;
        case LIFE_WRITES_END:
                n = lowest(server->ends);
                if (n == 0 || (world->record.ended & bit_of(n)))
                        broke(world, ONE_END_EACH);
                else
                        world->record.ended = (uint8_t)(world->record.ended | bit_of(n));
                if (world->sandbox.done == n) /* it is told that its event was heard */
                        world->sandbox.done = 0;
                break;
        case LIFE_WRITES_ENDING:
                world->record.ending = true;
                break;
        case LIFE_WRITES_REMOVAL:
                world->record.exists = false;
                world->record.holder = 0;
                if (world->sandbox.lives)
                        broke(world, GONE_IS_REACHED);
                if (world->slots[s])
                        broke(world, SLOT_COUNTED_ONCE);
                break;
        default:
                break;
        }
}

static inline void open_sandbox(struct world *world, uint8_t s, bool only_living, enum step_type how) {
        struct server *server = &world->servers[s];

        server->open_answer = LIFE_OPEN_FAILED + 1;
        if (how == STEP_RESTORE_DIES)
                server->open_answer = LIFE_ENDED + 1;
        if (!world->sandbox.lives && (only_living || how != STEP_EFFECT))
                return;
        if (!world->sandbox.lives) {
                memset(&world->sandbox, 0, sizeof(world->sandbox));
                world->sandbox.lives = true;
        }
        world->sandbox.parking = world->sandbox.bringing = false; /* what another server had asked */
        world->servers[1 - s].joined = false; /* a sandbox speaks to the server that opened it last */
        server->joined = true;
        server->open_answer =
                (uint8_t)((server->running && world->sandbox.last >= server->running ? LIFE_OPENED_RUNNING
                                                                                     : LIFE_OPENED) +
                          1);
}

static inline void execute(struct world *world, uint8_t s) {
        struct server *server = &world->servers[s];
        uint8_t n = server->running;

        if (!world->sandbox.lives || world->sandbox.ending) {
                server->store_answer = LIFE_NOT_TAKEN + 1;
                return;
        }
        if (n == 0 || world->sandbox.last >= n || ++world->ran[n - 1] > 1)
                broke(world, RUNS_AT_MOST_ONCE);
        if (world->record.holder != s + 1 || world->sandbox.running)
                broke(world, ONE_SERVER_RUNS);
        if (world->slots[s] != 1)
                broke(world, SLOT_COUNTED_ONCE);
        world->sandbox.last = world->sandbox.running = n;
}

static inline void carry_out(struct world *world, uint8_t s, enum step_type how) {
        struct server *server = &world->servers[s];
        unsigned effect = 1U << server->effects[0];

        memmove(server->effects, server->effects + 1, EFFECTS_MAX - 1);
        server->effects[EFFECTS_MAX - 1] = 0;
        server->effect_count--;
        if ((effect & FENCED) && server->lease != LEASE_HOLDS) {
                server->store_answer = LIFE_LEASE_LOST + 1;
                return;
        }
        switch (effect) {
        case LIFE_DO_STORE:
                store(world, s, how);
                break;
        case LIFE_DO_ACQUIRE_SLOT:
                server->wants_slot = true;
                break;
        case LIFE_DO_RELEASE_SLOT:
                world->slots[s] = (uint8_t)(world->slots[s] - (world->slots[s] > 0));
                server->wants_slot = server->slot_granted = server->slot_refused = false;
                break;
        case LIFE_DO_OPEN:
        case LIFE_DO_JOIN:
                open_sandbox(world, s, effect == LIFE_DO_JOIN, how);
                break;
        case LIFE_DO_EXECUTE:
                execute(world, s);
                break;
        case LIFE_DO_PARK:
                world->sandbox.parking = world->sandbox.lives;
                break;
        case LIFE_DO_BRING:
                world->sandbox.bringing = world->sandbox.lives;
                break;
        case LIFE_DO_END:
                world->sandbox.ending = world->sandbox.lives;
                break;
        default:
                break;
        }
}

/* A write is answered, or what was asked of a sandbox. */
static inline void hear(struct world *world, const struct limits *limits, uint8_t s, enum life_event event) {
        struct server *server = &world->servers[s];

        switch (event) {
        case LIFE_STORED:
        case LIFE_STORE_FAILED:
        case LIFE_NOT_TAKEN:
        case LIFE_LEASE_LOST:
                server->store_answer = 0;
                break;
        case LIFE_OPENED:
        case LIFE_OPENED_RUNNING:
        case LIFE_OPEN_FAILED:
                server->open_answer = 0;
                break;
        case LIFE_STAYED:
                world->used.stays++;
                world->sandbox.parking = false;
                break;
        case LIFE_CHECKPOINTED:
                world->sandbox.parking = false;
                break;
        case LIFE_BROUGHT:
                world->sandbox.bringing = false;
                break;
        case LIFE_ENDED:
                server->joined = false;
                server->open_answer = 0;
                break;
        case LIFE_SLOT_ACQUIRED:
                server->slot_granted = false;
                break;
        case LIFE_SLOT_LOST:
                server->slot_refused = false;
                break;
        case LIFE_ASKED: {
                uint8_t n = lowest((uint8_t)(world->record.accepted & ~server->known));

                server->known = (uint8_t)(server->known | bit_of(n));
                server->line = (uint8_t)(server->line | bit_of(n));
                break;
        }
        case LIFE_ASKED_WITHDRAWAL:
                world->used.withdrawals++;
                break;
        case LIFE_ASKED_FILES:
                world->used.files++;
                break;
        case LIFE_ASKED_RESTART:
                world->used.restarts++;
                break;
        case LIFE_ASKED_PARK:
                world->used.parks++;
                break;
        case LIFE_LEAVING:
                world->used.leavings++;
                break;
        default:
                break;
        }
        give(world, limits, s, event);
}

static inline void take(struct world *world, const struct limits *limits, uint8_t s, bool quietly) {
        struct server *server = &world->servers[s];
        uint8_t open = (uint8_t)(world->record.accepted & ~world->record.ended);
        struct life_state state;

        world->record.holder = (uint8_t)(s + 1);
        server->running = record_runs(world) ? world->record.begun : 0;
        server->line = (uint8_t)(server->running ? open & ~bit_of(server->running) : open);
        server->known = world->record.accepted;
        state = (struct life_state){ .life = world->record.ending ? LIFE_ENDING : LIFE_PARKED,
                                     .execution = server->running ? LIFE_RUNNING : LIFE_IDLE,
                                     .waiting = (uint16_t)count_of(server->line) };
        server->view = life_recorded(&state);
        if (!quietly)
                give(world, limits, s, LIFE_TAKEN_OVER);
}

static inline unsigned slots_taken(const struct world *world) {
        return (unsigned)(world->slots[0] + world->slots[1] + world->ghosts + world->other);
}

/*
 * What the session has elsewhere moves. A session that comes with a sandbox and finds no slot is
 * told so; any other waits.
 */
static inline void grant(struct world *world, uint8_t s) {
        struct server *server = &world->servers[s];
        bool moves = world->slots[1 - s] + world->ghosts > 0;

        world->slots[1 - s] = world->ghosts = 0;
        if (moves || slots_taken(world) == 0) {
                world->slots[s]++;
                server->slot_granted = true;
                server->wants_slot = false;
        } else if (server->view.sandbox != LIFE_NO_SANDBOX) {
                server->slot_refused = true;
                server->wants_slot = false;
        }
}

static inline void crash(struct world *world, uint8_t s) {
        drop_session(world, s);
        world->servers[s] = (struct server){ .lease = LEASE_DEAD, .lease_told = true };
}

static inline void other_takes(struct world *world) {
        if (!record_runs(world)) {
                world->ghosts = 0;
                for (size_t i = 0; i < SERVERS; i++) {
                        if (world->servers[i].lease == LEASE_DEAD)
                                world->slots[i] = 0;
                }
        }
        world->other = slots_taken(world) == 0;
}

static inline void check(struct world *world) {
        const struct server *one = &world->servers[0], *two = &world->servers[1];

        if (slots_taken(world) > 1)
                broke(world, SLOT_COUNTED_ONCE);
        if (one->lease == LEASE_HOLDS && two->lease == LEASE_HOLDS && holds_session(one) &&
            holds_session(two))
                broke(world, ONE_SERVER_RUNS);
        for (size_t i = 0; i < SERVERS; i++) {
                if (world->servers[i].view.life == LIFE_GONE && world->record.exists)
                        broke(world, GONE_IS_REACHED);
        }
}

static inline void world_begin(struct world *world, const struct limits *limits) {
        memset(world, 0, sizeof(*world));
        world->record.exists = true;
        world->record.holder = 1;
        world->servers[0].up = world->servers[1].up = true;
        give(world, limits, 0, LIFE_MADE);
}

static inline void world_step(struct world *world, const struct limits *limits, struct step step) {
        struct server *server = &world->servers[step.server];

        switch ((enum step_type)step.type) {
        case STEP_ACCEPT:
                world->record.accepted = (uint8_t)(world->record.accepted << 1 | 1);
                break;
        case STEP_ASK_END:
                world->end_asked = true;
                break;
        case STEP_STORE_FAILS:
        case STEP_STORE_ANSWER_LOST:
                world->used.store_faults++;
                carry_out(world, step.server, (enum step_type)step.type);
                break;
        case STEP_OPEN_FAILS:
        case STEP_RESTORE_DIES:
                world->used.open_faults++;
                carry_out(world, step.server, (enum step_type)step.type);
                break;
        case STEP_EFFECT:
                carry_out(world, step.server, STEP_EFFECT);
                break;
        case STEP_EVENT:
                hear(world, limits, step.server, (enum life_event)step.event);
                break;
        case STEP_TAKE:
        case STEP_TAKE_QUIETLY:
                take(world, limits, step.server, step.type == STEP_TAKE_QUIETLY);
                break;
        case STEP_GRANT:
                grant(world, step.server);
                break;
        case STEP_OTHER_TAKES:
                other_takes(world);
                break;
        case STEP_OTHER_LEAVES:
                world->other = 0;
                break;
        case STEP_FINISH:
                world->sandbox.done = world->sandbox.running;
                world->sandbox.running = 0;
                break;
        case STEP_END:
                memset(&world->sandbox, 0, sizeof(world->sandbox));
                break;
        case STEP_RENEW:
                server->lease = LEASE_HOLDS;
                break;
        case STEP_RESTART:
                *server = (struct server){ .up = true };
                break;
        case STEP_SILENT:
                server->lease = LEASE_DEAD;
                break;
        case STEP_CRASH:
                world->used.crashes++;
                crash(world, step.server);
                break;
        case STEP_LAPSE:
                world->used.lapses++;
                server->lease = LEASE_DOUBTED;
                server->lease_told = !holds_session(server);
                break;
        case STEP_SANDBOX_DIES:
                world->used.sandbox_deaths++;
                memset(&world->sandbox, 0, sizeof(world->sandbox));
                break;
        case STEP_LOSE_SLOT:
                world->used.slot_losses++;
                world->slots[step.server] = 0;
                server->slot_refused = true;
                break;
        }
        check(world);
}

/* Which steps there are */

struct steps {
        struct step list[STEPS_MAX];
        size_t count;
};

static inline void add_step(struct steps *steps, enum step_type type, size_t server, unsigned event) {
        steps->list[steps->count++] =
                (struct step){ .type = (uint8_t)type, .server = (uint8_t)server, .event = (uint8_t)event };
}

static inline void add_event(struct steps *steps, size_t server, enum life_event event) {
        add_step(steps, STEP_EVENT, server, event);
}

static inline void add_asks(const struct world *world, const struct limits *limits, size_t s,
                            struct steps *steps) {
        const struct server *server = &world->servers[s];
        const struct life_state *view = &server->view;

        if (world->record.accepted & ~server->known)
                add_event(steps, s, LIFE_ASKED);
        if (world->end_asked)
                add_event(steps, s, LIFE_ASKED_END);
        if (view->execution == LIFE_RUNNING)
                add_event(steps, s, LIFE_ASKED_INTERRUPT);
        if (view->waiting > 0 && world->used.withdrawals < limits->withdrawals)
                add_event(steps, s, LIFE_ASKED_WITHDRAWAL);
        if (world->used.files < limits->files)
                add_event(steps, s, LIFE_ASKED_FILES);
        if (world->used.restarts < limits->restarts)
                add_event(steps, s, LIFE_ASKED_RESTART);
        if (world->used.parks < limits->parks)
                add_event(steps, s, LIFE_ASKED_PARK);
        if (!(world->record.accepted & ~server->known))
                add_event(steps, s, LIFE_TICK);
}

static inline void add_news(const struct world *world, const struct limits *limits, size_t s,
                            struct steps *steps) {
        const struct server *server = &world->servers[s];
        const struct life_state *view = &server->view;

        if (server->open_answer) {
                add_event(steps, s, (enum life_event)(server->open_answer - 1));
                if (server->open_answer != LIFE_OPENED + 1 &&
                    server->open_answer != LIFE_OPENED_RUNNING + 1 && view->sandbox == LIFE_SANDBOX_ASKED)
                        add_event(steps, s, LIFE_DYING);
                return;
        }
        if (server->joined && !world->sandbox.lives) {
                add_event(steps, s, LIFE_ENDED);
                if (view->sandbox != LIFE_SANDBOX_ENDING || view->life == LIFE_ENDING)
                        add_event(steps, s, LIFE_DYING);
                return;
        }
        if (!server->joined)
                return;
        if (server->running && world->sandbox.running == server->running)
                add_event(steps, s, LIFE_STARTED);
        if (server->running && world->sandbox.done == server->running)
                add_event(steps, s, LIFE_DONE);
        if (world->sandbox.bringing)
                add_event(steps, s, LIFE_BROUGHT);
        if (world->sandbox.parking)
                add_event(steps, s, LIFE_CHECKPOINTED);
        if (world->sandbox.parking && world->used.stays < limits->stays)
                add_event(steps, s, LIFE_STAYED);
        if (world->used.leavings < limits->leavings)
                add_event(steps, s, LIFE_LEAVING);
}

static inline void add_effect(const struct world *world, const struct limits *limits, size_t s,
                              struct steps *steps) {
        unsigned effect = 1U << world->servers[s].effects[0];
        bool opens = effect == LIFE_DO_OPEN || effect == LIFE_DO_JOIN;

        /* A server that opens a sandbox which is on its way out waits for that. */
        if (opens && world->sandbox.ending)
                return;
        add_step(steps, STEP_EFFECT, s, 0);
        if (effect == LIFE_DO_STORE && world->used.store_faults < limits->store_faults) {
                add_step(steps, STEP_STORE_FAILS, s, 0);
                add_step(steps, STEP_STORE_ANSWER_LOST, s, 0);
        }
        if (effect == LIFE_DO_OPEN && !world->sandbox.lives &&
            world->used.open_faults < limits->open_faults) {
                add_step(steps, STEP_OPEN_FAILS, s, 0);
                add_step(steps, STEP_RESTORE_DIES, s, 0);
        }
}

static inline void add_take(const struct world *world, size_t s, struct steps *steps) {
        uint8_t holder = world->record.holder;
        bool idle = !world->record.ending && world->record.accepted == world->record.ended;

        if (holder && holder != s + 1 && world->servers[holder - 1].lease != LEASE_DEAD)
                return;
        add_step(steps, STEP_TAKE, s, 0);
        if (idle)
                add_step(steps, STEP_TAKE_QUIETLY, s, 0);
}

static inline void add_of_server(const struct world *world, const struct limits *limits, size_t s,
                                 struct steps *steps) {
        const struct server *server = &world->servers[s];

        if (!server->up) {
                add_step(steps, STEP_RESTART, s, 0);
                return;
        }
        if (world->used.crashes < limits->crashes && (holds_session(server) || server->effect_count > 0))
                add_step(steps, STEP_CRASH, s, 0);
        if (server->lease == LEASE_HOLDS && holds_session(server) && world->used.lapses < limits->lapses)
                add_step(steps, STEP_LAPSE, s, 0);
        if (server->lease == LEASE_DOUBTED)
                add_step(steps, STEP_SILENT, s, 0);
        if (server->lease != LEASE_HOLDS && !server->lease_told)
                add_event(steps, s, LIFE_LEASE_LOST);
        if (server->lease != LEASE_HOLDS && server->lease_told)
                add_step(steps, STEP_RENEW, s, 0);
        if (server->wants_slot && server->lease == LEASE_HOLDS && (!world->other || server->view.sandbox))
                add_step(steps, STEP_GRANT, s, 0);
        if (world->slots[s] && server->view.slot == LIFE_SLOT_HELD && !record_runs(world) &&
            !server->slot_refused && world->used.slot_losses < limits->slot_losses)
                add_step(steps, STEP_LOSE_SLOT, s, 0);
        if (server->effect_count > 0) {
                add_effect(world, limits, s, steps);
                return;
        }
        if (server->slot_refused && holds_session(server)) {
                add_event(steps, s, LIFE_SLOT_LOST);
                return;
        }
        if (server->store_answer) {
                add_event(steps, s, (enum life_event)(server->store_answer - 1));
                return;
        }
        if (server->view.life == LIFE_AWAY && server->lease == LEASE_HOLDS)
                add_take(world, s, steps);
        if (!holds_session(server))
                return;
        if (server->slot_granted)
                add_event(steps, s, LIFE_SLOT_ACQUIRED);
        add_news(world, limits, s, steps);
        add_asks(world, limits, s, steps);
}

static inline void world_steps(const struct world *world, const struct limits *limits, struct steps *ret) {
        ret->count = 0;
        for (size_t s = 0; s < SERVERS && !world->record.exists; s++) {
                if (world->servers[s].store_answer == LIFE_STORED + 1 && world->servers[s].effect_count == 0)
                        add_event(ret, s, LIFE_STORED);
        }
        if (!world->record.exists || world->broken)
                return;
        if (!world->end_asked && count_of(world->record.accepted) < limits->executions)
                add_step(ret, STEP_ACCEPT, 0, 0);
        if (!world->end_asked)
                add_step(ret, STEP_ASK_END, 0, 0);
        if (!world->other && (world->servers[0].wants_slot || world->servers[1].wants_slot || world->ghosts ||
                              slots_taken(world) == 0))
                add_step(ret, STEP_OTHER_TAKES, 0, 0);
        if (world->other)
                add_step(ret, STEP_OTHER_LEAVES, 0, 0);
        if (world->sandbox.lives && world->sandbox.running)
                add_step(ret, STEP_FINISH, 0, 0);
        if (world->sandbox.lives && world->sandbox.ending)
                add_step(ret, STEP_END, 0, 0);
        if (world->sandbox.lives && world->used.sandbox_deaths < limits->sandbox_deaths)
                add_step(ret, STEP_SANDBOX_DIES, 0, 0);
        for (size_t s = 0; s < SERVERS; s++)
                add_of_server(world, limits, s, ret);
}

#endif
