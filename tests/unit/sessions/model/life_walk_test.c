/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All worlds that the table of a session's life can come into (world.h), each once, within limits: executions, crashes, lapses,
 * faults. In each of them the properties must hold. Then the steps that are no fault are looked at as a graph: it must have no
 * cycle, and end only where the session is gone, or where nothing was asked that is not done. So once faults cease, any order of
 * steps, fair or not, leads there.
 *
 * The table with one mistake in it must break the property that the mistake is about; otherwise the walk would prove nothing.
 *
 * BERTH_MODEL=deep walks wider limits, for minutes.
 */
#include "sessions/model/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const char *const property_names[PROPERTY_COUNT] = {
        "all holds",
        "each event has a row",
        "an execution runs at most once",
        "no two servers run in one session",
        "each accepted execution gets exactly one end",
        "a slot is never counted twice, nor used without being counted",
        "GONE is reached, and leaves nothing",
};

#define CYCLE_MAX 12

/* Worlds that were met, in the order in which they were. */

struct met {
        struct world *worlds;
        uint32_t *from; /* the world that led there first */
        struct step *by;
        uint32_t count, room;
        uint32_t *slots; /* index + 1; 0: free */
        size_t size;
};

struct edges {
        uint32_t *from, *to;
        size_t count, room;
};

struct walk {
        const struct limits *limits;
        struct met met;
        struct edges edges;
        enum property broken;
        uint32_t at; /* the world that breaks it */
        uint32_t cycle[CYCLE_MAX];
};

static void *grow(void *array, size_t count, size_t size) {
        void *grown = realloc(array, count * size);

        assert_non_null(grown);
        return grown;
}

static uint64_t hash_of(const struct world *world) {
        const uint8_t *at = (const uint8_t *)world;
        size_t length = sizeof(*world);
        uint64_t hash = 7;

        for (; length > 0; at += 8, length -= length < 8 ? length : 8) {
                uint64_t word = 0;

                memcpy(&word, at, length < 8 ? length : 8);
                hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
                hash ^= hash >> 29;
        }
        return hash ^ (hash >> 32);
}

static void place(struct met *met, uint32_t index) {
        size_t i = (size_t)hash_of(&met->worlds[index]) & (met->size - 1);

        while (met->slots[i])
                i = (i + 1) & (met->size - 1);
        met->slots[i] = index + 1;
}

static void widen(struct met *met) {
        met->room = met->room ? met->room * 2 : 1 << 15;
        met->worlds = grow(met->worlds, met->room, sizeof(*met->worlds));
        met->from = grow(met->from, met->room, sizeof(*met->from));
        met->by = grow(met->by, met->room, sizeof(*met->by));
        met->size = (size_t)met->room * 2;
        free(met->slots);
        met->slots = calloc(met->size, sizeof(*met->slots));
        assert_non_null(met->slots);
        for (uint32_t i = 0; i < met->count; i++)
                place(met, i);
}

static uint32_t meet(struct met *met, const struct world *world, uint32_t from, struct step by) {
        size_t i;

        if (met->count == met->room)
                widen(met);
        i = (size_t)hash_of(world) & (met->size - 1);
        while (met->slots[i]) {
                if (memcmp(&met->worlds[met->slots[i] - 1], world, sizeof(*world)) == 0)
                        return met->slots[i] - 1;
                i = (i + 1) & (met->size - 1);
        }
        met->worlds[met->count] = *world;
        met->from[met->count] = from;
        met->by[met->count] = by;
        met->slots[i] = ++met->count;
        return met->count - 1;
}

static void add_edge(struct edges *edges, uint32_t from, uint32_t to) {
        if (edges->count == edges->room) {
                edges->room = edges->room ? edges->room * 2 : 1 << 16;
                edges->from = grow(edges->from, edges->room, sizeof(*edges->from));
                edges->to = grow(edges->to, edges->room, sizeof(*edges->to));
        }
        edges->from[edges->count] = from;
        edges->to[edges->count++] = to;
}

static void fail_at(struct walk *walk, enum property property, uint32_t at) {
        if (walk->broken)
                return;
        walk->broken = property;
        walk->at = at;
}

/* Progress */

static bool is_done(const struct world *world) {
        return !world->record.exists || (!world->end_asked && world->record.accepted == world->record.ended);
}

static void check_last(struct walk *walk, uint32_t i) {
        const struct world *world = &walk->met.worlds[i];

        if (!is_done(world))
                fail_at(walk, world->end_asked ? GONE_IS_REACHED : ONE_END_EACH, i);
        if (!world->record.exists && world->record.accepted != world->record.ended)
                fail_at(walk, ONE_END_EACH, i);
}

/* The edges that lead away from it stand together, in the order of worlds. */
static size_t first_edge(const struct edges *edges, uint32_t from) {
        size_t low = 0, high = edges->count;

        while (low < high) {
                size_t middle = (low + high) / 2;

                if (edges->from[middle] < from)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

/* From a world that no end is reached from in every order, the way that comes round again. */
static uint32_t on_cycle(struct walk *walk, const uint32_t *left, uint32_t at) {
        for (uint32_t steps = 0; steps <= walk->met.count; steps++) {
                size_t edge = first_edge(&walk->edges, at);

                while (left[walk->edges.to[edge]] == 0)
                        edge++;
                walk->cycle[steps % CYCLE_MAX] = at = walk->edges.to[edge];
        }
        return at;
}

/* Worlds are taken away from which no step leads to one that is still there: what stays has a cycle. */
static void check_progress(struct walk *walk) {
        uint32_t count = walk->met.count, *left = calloc(count, sizeof(*left)), *queue, head = 0, tail = 0;
        uint32_t *first = calloc((size_t)count + 1, sizeof(*first)), *into;
        const struct edges *edges = &walk->edges;

        queue = grow(NULL, count, sizeof(*queue));
        into = grow(NULL, edges->count + 1, sizeof(*into));
        assert_true(left && first);
        for (size_t i = 0; i < edges->count; i++) {
                left[edges->from[i]]++;
                first[edges->to[i] + 1]++;
        }
        for (uint32_t i = 0; i < count; i++) {
                first[i + 1] += first[i];
                if (left[i] == 0) {
                        check_last(walk, i);
                        queue[tail++] = i;
                }
        }
        for (size_t i = edges->count; i > 0; i--)
                into[--first[edges->to[i - 1] + 1]] = edges->from[i - 1];
        while (head < tail) {
                uint32_t at = queue[head++], end = at + 2 <= count ? first[at + 2] : (uint32_t)edges->count;

                for (uint32_t i = first[at + 1]; i < end; i++) {
                        if (--left[into[i]] == 0)
                                queue[tail++] = into[i];
                }
        }
        for (uint32_t i = 0; i < count && tail < count; i++) {
                if (left[i] > 0) {
                        fail_at(walk, GONE_IS_REACHED, on_cycle(walk, left, i));
                        break;
                }
        }
        free(left);
        free(first);
        free(into);
        free(queue);
}

static void run_walk(struct walk *walk) {
        struct world world;

        world_begin(&world, walk->limits);
        meet(&walk->met, &world, 0, (struct step){ 0 });
        for (uint32_t at = 0; at < walk->met.count; at++) {
                struct steps steps;

                world_steps(&walk->met.worlds[at], walk->limits, &steps);
                for (size_t i = 0; i < steps.count; i++) {
                        uint32_t to;

                        world = walk->met.worlds[at];
                        world_step(&world, walk->limits, steps.list[i]);
                        to = meet(&walk->met, &world, at, steps.list[i]);
                        if (world.broken) {
                                fail_at(walk, (enum property)world.broken, to);
                                return;
                        }
                        if (to != at && !is_fault(&steps.list[i]) && steps.list[i].type != STEP_ASK_END)
                                add_edge(&walk->edges, at, to);
                }
        }
        check_progress(walk);
}

static void end_walk(struct walk *walk) {
        free(walk->met.worlds);
        free(walk->met.from);
        free(walk->met.by);
        free(walk->met.slots);
        free(walk->edges.from);
        free(walk->edges.to);
}

/* The way there */

static void print_view(const struct server *server) {
        const struct life_state *view = &server->view;

        print_message(
                "    %s execution %d writing %d sandbox %d slot %d files %d parking %d waiting %d ends %d"
                " lease %d effects %d\n",
                life_name((enum life)view->life), view->execution, view->writing, view->sandbox, view->slot,
                view->files, view->parking, view->waiting, view->ends, server->lease, server->effect_count);
}

static void print_step(const struct world *before, const struct step *step) {
        static const char *const names[] = {
                "a client's execution is accepted",
                "a client asks for the end",
                "carries out",
                "is given",
                "takes the session",
                "takes the idle session",
                "is granted the slot",
                "the other session takes the slot",
                "the other session leaves the slot",
                "the execution ends in the sandbox",
                "the sandbox is gone",
                "renews its lease",
                "is started",
                "may be taken for dead",
                "cannot store",
                "stores, and the answer is lost",
                "cannot open a sandbox",
                "opens a sandbox, which dies",
                "dies",
                "is silent",
                "the sandbox dies",
                "loses its slot",
        };
        const struct server *server = &before->servers[step->server];

        print_message("  server %d: %s %s\n", step->server + 1, names[step->type],
                      step->type == STEP_EVENT ? life_event_name((enum life_event)step->event)
                      : step->type == STEP_EFFECT
                              ? life_effect_name((enum life_effect)(1U << server->effects[0]))
                              : "");
}

static void print_way(const struct walk *walk, uint32_t at) {
        if (at > 0) {
                print_way(walk, walk->met.from[at]);
                print_step(&walk->met.worlds[walk->met.from[at]], &walk->met.by[at]);
        }
        for (size_t s = 0; s < SERVERS; s++)
                print_view(&walk->met.worlds[at].servers[s]);
}

/* The tests */

static const struct {
        struct limits limits;
        bool deep;
} cases[] = {
        { { .executions = 2, .files = 2, .parks = 1, .leavings = 1 }, false },
        { { .executions = 2, .files = 1, .parks = 1, .restarts = 2, .open_faults = 1 }, false },
        { { .executions = 2, .slot_losses = 1, .stays = 1, .store_faults = 1 }, false },
        { { .executions = 2, .crashes = 1, .sandbox_deaths = 1 }, false },
        { { .executions = 4, .crashes = 1 }, false },
        { { .executions = 2, .crashes = 1, .store_faults = 1 }, false },
        { { .executions = 2, .open_faults = 1, .withdrawals = 1, .crashes = 1 }, false },
        { { .executions = 2, .files = 1, .crashes = 1, .stays = 1 }, false },
        { { .executions = 2, .lapses = 1 }, false },
        { { .executions = 4, .crashes = 2 }, false },
        { { .executions = 2, .crashes = 1, .lapses = 1 }, true },
        { { .executions = 2, .crashes = 1, .store_faults = 1, .sandbox_deaths = 1 }, true },
};

static void walk_limits(const struct limits *limits) {
        struct walk walk = { .limits = limits };

        run_walk(&walk);
        if (walk.broken) {
                print_way(&walk, walk.at);
                for (size_t i = 0; i < CYCLE_MAX && walk.cycle[0]; i++) {
                        print_message("  on the cycle:\n");
                        print_view(&walk.met.worlds[walk.cycle[i]].servers[0]);
                        print_view(&walk.met.worlds[walk.cycle[i]].servers[1]);
                }
                fail_msg("does not hold: %s", property_names[walk.broken]);
        }
        print_message("%7u states, %8zu steps: %d executions, %d crashes, %d lapses, faults of store %d, "
                      "sandbox %d, opening %d, slot %d\n",
                      walk.met.count, walk.edges.count, limits->executions, limits->crashes, limits->lapses,
                      limits->store_faults, limits->sandbox_deaths, limits->open_faults, limits->slot_losses);
        /* Limits under which nothing happens would hold as well. */
        assert_true(walk.met.count > 10000);
        end_walk(&walk);
}

/* And each row is needed: but for those to which no effect leads yet. */
static void all_states_hold(void **unused) {
        const char *wanted = getenv("BERTH_MODEL");
        uint32_t *taken = calloc(life_row_count, sizeof(*taken));

        (void)unused;
        assert_non_null(taken);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct limits limits = cases[i].limits;

                limits.rows = life_rows;
                limits.row_count = life_row_count;
                limits.taken = taken;
                if (!cases[i].deep || (wanted && strcmp(wanted, "deep") == 0))
                        walk_limits(&limits);
        }
        for (size_t i = 0; i < life_row_count; i++) {
                bool needed = !life_rows[i].later;

                if (life_rows[i].on != LIFE_GO_ON && (taken[i] > 0) != needed)
                        fail_msg("row %zu (%s) was taken %u times", i,
                                 life_event_name((enum life_event)life_rows[i].on), taken[i]);
        }
        free(taken);
}

/* The tests of the test: each spoils one row. */

static void forget_end(struct life_row *row) {
        row->make.ends = 0;
}

static void wait_again(struct life_row *row) {
        row->make.ends = 0;
        row->make.waiting = 1;
}

static void never_had_it(struct life_row *row) {
        row->make.execution = LIFE_TO(LIFE_IDLE);
        row->make.waiting = 1;
}

static void do_nothing(struct life_row *row) {
        *row = (struct life_row){ .on = row->on, .in = row->in, .when = row->when };
}

static void not_be(struct life_row *row) {
        row->on = UINT8_MAX;
}

static void keep_slot(struct life_row *row) {
        row->effects &= (uint16_t)~LIFE_DO_RELEASE_SLOT;
}

static void begin_unrecorded(struct life_row *row) {
        row->make.writing = 0;
        row->make.execution = LIFE_TO(LIFE_RUNNING);
        row->make.waiting = -1;
        row->effects = LIFE_DO_EXECUTE;
}

static void not_wait_for_sandbox(struct life_row *row) {
        row->when.sandbox = 0;
}

static void open_without_slot(struct life_row *row) {
        row->when.slot = 0;
}

static void not_look_for_sandbox(struct life_row *row) {
        row->make.sandbox = 0;
        row->effects &= (uint16_t)~LIFE_DO_JOIN;
}

static void acquire_again(struct life_row *row) {
        row->effects |= LIFE_DO_ACQUIRE_SLOT;
}

static const struct {
        const char *mistake;
        struct life_row row; /* `on`, `in` and `when`: of the first that fits */
        void (*spoil)(struct life_row *row);
        enum property breaks;
        struct limits limits; /* under which it shows; two executions */
} mistakes[] = {
#define NO_FAULT .crashes = 0
#define CRASH .crashes = 1
#define DEATH .sandbox_deaths = 1
#define CRASH_AND_DEATH .crashes = 1, .sandbox_deaths = 1
#define LAPSE .lapses = 1
#define STORE .store_faults = 1
#define SLOT .slot_losses = 1, .stays = 1
#define IN(value) .in = LIFE_BIT(LIFE_##value)
#define WHEN(member, value) .when.member = LIFE_BIT(LIFE_##value)
        { "an execution is given to the sandbox before the record says so",
          { .on = LIFE_GO_ON, IN(OPEN), WHEN(slot, SLOT_HELD) },
          begin_unrecorded,
          RUNS_AT_MOST_ONCE,
          { CRASH } },
        { "an execution whose sandbox is gone waits again",
          { .on = LIFE_OPEN_FAILED, IN(OPENING), WHEN(execution, RUNNING) },
          wait_again,
          RUNS_AT_MOST_ONCE,
          { CRASH_AND_DEATH } },
        { "an execution that was cut off waits again",
          { .on = LIFE_ENDED, IN(OPEN), WHEN(execution, RUNNING) },
          wait_again,
          RUNS_AT_MOST_ONCE,
          { DEATH } },
        { "a sandbox that has had the execution is given it again",
          { .on = LIFE_OPENED_RUNNING, IN(OPENING) },
          never_had_it,
          RUNS_AT_MOST_ONCE,
          { CRASH } },
        { "a server goes on that others took for dead",
          { .on = LIFE_LEASE_LOST, IN(OPEN) },
          do_nothing,
          ONE_SERVER_RUNS,
          { LAPSE } },
        { "an end is forgotten", { .on = LIFE_DONE, IN(OPEN) }, forget_end, ONE_END_EACH, { NO_FAULT } },
        { "an end is forgotten where the sandbox died",
          { .on = LIFE_ENDED, IN(OPEN), WHEN(execution, RUNNING) },
          forget_end,
          ONE_END_EACH,
          { DEATH } },
        { "an end is recorded twice",
          { .on = LIFE_STORED, IN(ENDING), WHEN(writing, WRITES_END) },
          forget_end,
          ONE_END_EACH,
          { NO_FAULT } },
        { "an execution begins before the end of the one before it is recorded",
          { .on = LIFE_GO_ON, IN(OPEN), .when.ends = LIFE_SOME },
          not_be,
          RUNS_AT_MOST_ONCE,
          { CRASH } },
        { "a write that failed is never tried again",
          { .on = LIFE_TICK, IN(QUEUED) },
          do_nothing,
          ONE_END_EACH,
          { STORE } },
        { "what waits is not opened a sandbox for",
          { .on = LIFE_GO_ON, IN(PARKED), WHEN(sandbox, NO_SANDBOX) },
          not_be,
          ONE_END_EACH,
          { DEATH } },
        { "what waited when a server died is not gone on with",
          { .on = LIFE_TAKEN_OVER, IN(QUEUED) },
          do_nothing,
          ONE_END_EACH,
          { CRASH } },
        { "what lost its slot and cannot be parked stays open",
          { .on = LIFE_STAYED, IN(PARKING), WHEN(slot, SLOT_GONE) },
          not_be,
          ONE_END_EACH,
          { SLOT } },
        { "a sandbox that ended keeps its slot",
          { .on = LIFE_ENDED, IN(PARKED), WHEN(sandbox, SANDBOX_ENDING) },
          keep_slot,
          EVENT_HAS_ROW,
          { CRASH } },
        { "an execution begins though the slot is lost",
          { .on = LIFE_STORED, IN(OPEN), WHEN(writing, WRITES_BEGIN), .when.slot = LIFE_BIT(LIFE_SLOT_GONE) },
          not_be,
          SLOT_COUNTED_ONCE,
          { SLOT } },
        { "an execution begins before the slot is there",
          { .on = LIFE_GO_ON, IN(OPEN), WHEN(slot, SLOT_HELD) },
          open_without_slot,
          SLOT_COUNTED_ONCE,
          { CRASH } },
        { "a slot is acquired that is held",
          { .on = LIFE_OPENED, IN(OPENING) },
          acquire_again,
          EVENT_HAS_ROW,
          { CRASH } },
        { "a session that waits in line ends without leaving it",
          { .on = LIFE_STORED, IN(QUEUED), WHEN(writing, WRITES_ENDING), WHEN(sandbox, NO_SANDBOX) },
          keep_slot,
          EVENT_HAS_ROW,
          { CRASH } },
        { "the record goes before the sandbox",
          { .on = LIFE_GO_ON, IN(ENDING), WHEN(sandbox, NO_SANDBOX) },
          not_wait_for_sandbox,
          GONE_IS_REACHED,
          { NO_FAULT } },
        { "a parked session ends without a look at what lives",
          { .on = LIFE_STORED, IN(PARKED), WHEN(writing, WRITES_ENDING), WHEN(sandbox, NO_SANDBOX) },
          not_look_for_sandbox,
          GONE_IS_REACHED,
          { CRASH } },
        { "the end of a session is forgotten where its server dies",
          { .on = LIFE_TAKEN_OVER, IN(ENDING) },
          do_nothing,
          GONE_IS_REACHED,
          { CRASH } },
        { "a sandbox is not told to end",
          { .on = LIFE_GO_ON, IN(ENDING), WHEN(sandbox, SANDBOX_LIVES) },
          not_be,
          GONE_IS_REACHED,
          { NO_FAULT } },
        { "what waits when the session ends is left",
          { .on = LIFE_GO_ON, IN(ENDING), .when.waiting = LIFE_SOME },
          not_be,
          GONE_IS_REACHED,
          { NO_FAULT } },
#undef IN
#undef WHEN
};

static bool covers(unsigned set, unsigned wanted) {
        return wanted == 0 || (set & wanted) == wanted;
}

static struct life_row *row_like(struct life_row *rows, const struct life_row *wanted) {
        for (size_t i = 0; i < life_row_count; i++) {
                const struct life_row *row = &rows[i];

                if (row->on == wanted->on && (row->in == 0 || covers(row->in, wanted->in)) &&
                    covers(row->when.execution, wanted->when.execution) &&
                    covers(row->when.writing, wanted->when.writing) &&
                    covers(row->when.sandbox, wanted->when.sandbox) &&
                    covers(row->when.slot, wanted->when.slot) &&
                    (!wanted->when.waiting || row->when.waiting == wanted->when.waiting) &&
                    (!wanted->when.ends || row->when.ends == wanted->when.ends))
                        return &rows[i];
        }
        return NULL;
}

/* False where another property breaks first, or none. */
static bool is_found(size_t i) {
        struct limits limits = mistakes[i].limits;
        struct walk walk = { .limits = &limits };
        struct life_row *rows = malloc(life_row_count * sizeof(*rows)), *row;

        assert_non_null(rows);
        memcpy(rows, life_rows, life_row_count * sizeof(*rows));
        row = row_like(rows, &mistakes[i].row);
        if (!row)
                fail_msg("there is no row for: %s", mistakes[i].mistake);
        mistakes[i].spoil(row);
        limits.executions = 2;
        limits.rows = rows;
        limits.row_count = life_row_count;
        run_walk(&walk);
        if (walk.broken != mistakes[i].breaks) {
                print_way(&walk, walk.at);
                print_message("%s: %s\n", mistakes[i].mistake, property_names[walk.broken]);
        }
        end_walk(&walk);
        free(rows);
        return walk.broken == mistakes[i].breaks;
}

static void every_mistake_is_found(void **unused) {
        size_t missed = 0;

        (void)unused;
        for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++)
                missed += !is_found(i);
        assert_int_equal(missed, 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(all_states_hold),
                cmocka_unit_test(every_mistake_is_found),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
