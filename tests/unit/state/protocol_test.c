/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every interleaving of the protocol in protocol_model.h, within limits: two or three machines, a few runs, commits, renewals,
 * answers that are lost or late, crashes. In each world every property must hold, and progress must be possible: with
 * all machines but one gone and the weather good again, that one gets the lease in the end and commits. The protocol with one
 * mistake in it must break the property that the mistake is about; otherwise the search would prove nothing.
 *
 * BERTH_MODEL=deep searches wider limits, for minutes.
 */
#include "state/protocol_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static const char *const property_names[] = {
        "all holds",
        "one commit a number",
        "no commit twice, none after a gap",
        "nothing of an older holder after a younger one began",
        "what was acknowledged is kept",
        "a read sees what was acknowledged before",
        "one caller, who knows all that was acknowledged",
};

/*
 * Worlds that were met, as hashes of 64 bits: of a million, two share one by a chance of one in thirty million. A machine's place
 * among the others means nothing, so that the hashes of machines are summed.
 */

struct met {
        uint64_t *slots; /* 0: free */
        size_t size, count;
};

static uint64_t hash_bytes(const void *bytes, size_t length, uint64_t hash) {
        const uint8_t *at = bytes;

        for (; length > 0; at += 8, length -= length < 8 ? length : 8) {
                uint64_t word = 0;

                memcpy(&word, at, length < 8 ? length : 8);
                hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
                hash ^= hash >> 29;
        }
        hash *= 0xbf58476d1ce4e5b9u;
        return hash ^ (hash >> 32);
}

static uint64_t hash_of(const struct world *world) {
        uint64_t sum = 0;
        struct world rest = *world;

        for (size_t i = 0; i < MACHINES_MAX; i++)
                sum += hash_bytes(&world->machines[i], sizeof(world->machines[i]), 7);
        memset(rest.machines, 0, sizeof(rest.machines));
        sum = hash_bytes(&rest, sizeof(rest), sum);
        return sum ? sum : 1;
}

static bool place(uint64_t *slots, size_t size, uint64_t hash) {
        size_t i = (size_t)hash & (size - 1);

        while (slots[i] && slots[i] != hash)
                i = (i + 1) & (size - 1);
        if (slots[i])
                return false;
        slots[i] = hash;
        return true;
}

/* False where it was met before. */
static bool meet(struct met *met, uint64_t hash) {
        if (met->count * 2 >= met->size) {
                size_t size = met->size ? met->size * 2 : 1 << 16;
                uint64_t *slots = calloc(size, sizeof(*slots));

                assert_non_null(slots);
                for (size_t i = 0; i < met->size; i++) {
                        if (met->slots[i])
                                place(slots, size, met->slots[i]);
                }
                free(met->slots);
                met->slots = slots;
                met->size = size;
        }
        if (!place(met->slots, met->size, hash))
                return false;
        met->count++;
        return true;
}

/* Progress */

/* The one step that a machine in good weather takes next. */
static struct step next_step(const struct world *world, const struct limits *limits) {
        struct step steps[STEPS_MAX];
        size_t count = model_steps(world, limits, steps);

        for (size_t i = 0; i < count; i++) {
                if (steps[i].type != STEP_TICK && steps[i].type != STEP_STRAY &&
                    steps[i].type != STEP_RENEW && steps[i].type != STEP_SNAPSHOT &&
                    steps[i].type != STEP_CLEAR)
                        return steps[i];
        }
        return (struct step){ .type = STEP_TICK };
}

/*
 * Whether the first machine, alone and undisturbed, comes to a commit: it starts again, each time a
 * tick later, until its holder's lease has passed.
 */
static bool gets_on(const struct world *from, const struct limits *limits) {
        struct limits good = { .machines = 1, .runs = UINT8_MAX, .commits = 1 };
        struct world world = *from;

        good.mistake = limits->mistake;
        good.snapshots = limits->snapshots;
        for (size_t i = 0; i < MACHINES_MAX; i++)
                end_run(&world, &world.machines[i]);
        world.machines[0].runs = 0;
        for (size_t i = 0; i < 200; i++) {
                struct step step = next_step(&world, &good);

                if (world.machines[0].at == AT_REST)
                        tick(&world);
                model_step(&world, &good, step);
                if (world.machines[0].commits > 0)
                        return !world.broken;
        }
        return false;
}

/* The search: depth first, with the way here on a stack. */

struct level {
        struct world world;
        struct step steps[STEPS_MAX];
        size_t count, next;
};

struct search {
        const struct limits *limits;
        struct met met;
        struct level *levels;
        size_t depth, room;
        enum property broken;
        bool stuck;
};

static void print_step(const struct step *step) {
        static const char *const names[] = {
                "a tick passes",
                "starts",
                "S3 carries out its request",
                "S3 carries out its request, the answer is lost",
                "its request is given up, and may arrive later",
                "a request that was given up arrives",
                "receives an answer",
                "calls the cloud",
                "commits",
                "renews the lease",
                "gives the lease back",
                "writes a snapshot",
                "what lies below the floor is deleted",
                "stops by its clock",
                "dies",
        };

        if (step->type == STEP_TICK || step->type == STEP_STRAY || step->type == STEP_CLEAR)
                print_message("  %s\n", names[step->type]);
        else
                print_message("  machine %d%s: %s\n", step->machine, step->keeper ? " (keeper)" : "",
                              names[step->type]);
}

static void print_way(const struct search *search) {
        for (size_t i = 0; i < search->depth; i++) {
                const struct level *level = &search->levels[i];

                if (level->next > 0)
                        print_step(&level->steps[level->next - 1]);
        }
}

static void enter(struct search *search, const struct world *world) {
        struct level *level;

        if (search->depth == search->room) {
                search->room = search->room ? search->room * 2 : 256;
                search->levels = realloc(search->levels, search->room * sizeof(*search->levels));
                assert_non_null(search->levels);
        }
        level = &search->levels[search->depth++];
        level->world = *world;
        level->count = model_steps(world, search->limits, level->steps);
        level->next = 0;
}

/* Ends at the first world in which something does not hold, with the way to it on the stack. */
static void run_search(struct search *search) {
        struct world world;

        memset(&world, 0, sizeof(world));
        meet(&search->met, hash_of(&world));
        enter(search, &world);
        while (search->depth > 0) {
                struct level *level = &search->levels[search->depth - 1];

                if (level->next == level->count) {
                        search->depth--;
                        continue;
                }
                world = level->world;
                model_step(&world, search->limits, level->steps[level->next++]);
                if (world.broken) {
                        search->broken = (enum property)world.broken;
                        return;
                }
                if (!meet(&search->met, hash_of(&world)))
                        continue;
                if (search->limits->mistake == MISTAKE_NONE && !gets_on(&world, search->limits)) {
                        search->stuck = true;
                        return;
                }
                enter(search, &world);
        }
}

static void end_search(struct search *search) {
        free(search->met.slots);
        free(search->levels);
}

static void check_limits(const struct limits *limits) {
        struct search search = { .limits = limits };

        run_search(&search);
        if (search.broken || search.stuck) {
                print_way(&search);
                fail_msg("does not hold: %s", search.stuck ? "progress" : property_names[search.broken]);
        }
        print_message("%zu worlds: %d machines, %d runs, %d commits, %d renewals, %d faults, %d crashes, "
                      "%d snapshots\n",
                      search.met.count, limits->machines, limits->runs, limits->commits, limits->renewals,
                      limits->faults, limits->crashes, limits->snapshots);
        /* Limits under which nothing happens would hold as well. */
        assert_true(search.met.count > 100000);
        end_search(&search);
}

static void every_interleaving_holds(void **unused) {
        static const struct {
                struct limits limits;
                bool deep;
        } cases[] = {
                { { .machines = 1, .runs = 2, .commits = 2, .renewals = 1, .faults = 1, .crashes = 1 },
                  false },
                { { .machines = 2, .runs = 1, .commits = 2, .faults = 1 }, false },
                { { .machines = 2, .runs = 1, .commits = 1, .faults = 1, .crashes = 1 }, false },
                { { .machines = 2, .runs = 1, .commits = 1, .renewals = 1, .faults = 1 }, false },
                { { .machines = 3, .runs = 1, .commits = 1 }, false },
                { { .machines = 2, .runs = 2, .snapshots = 1 }, true },
                { { .machines = 2, .runs = 1, .commits = 1, .faults = 1, .snapshots = 1 }, false },
                { { .machines = 2, .runs = 1, .commits = 2, .renewals = 1, .faults = 2 }, true },
                { { .machines = 2, .runs = 2, .commits = 1, .snapshots = 1 }, true },
                { { .machines = 3, .runs = 1, .commits = 1, .snapshots = 1 }, true },
                { { .machines = 2, .runs = 2, .commits = 1, .crashes = 1 }, true },
                { { .machines = 3, .runs = 1, .commits = 1, .faults = 1 }, true },
        };
        const char *wanted = getenv("BERTH_MODEL");

        (void)unused;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                if (!cases[i].deep || (wanted && strcmp(wanted, "deep") == 0))
                        check_limits(&cases[i].limits);
        }
}

/* The tests of the test. */
static void every_mistake_is_found(void **unused) {
        static const struct {
                enum mistake mistake;
                enum property breaks;
        } cases[] = {
                { NO_FENCE, FENCED_IS_FENCED },
                { CLOCK_OF_ITS_OWN, ONE_CALLER },
                { STAMP_FROM_ANSWER, ONE_CALLER },
                { NO_MARGIN, ONE_CALLER },
                { HOLDER_WITHOUT_CLOCK, ONE_CALLER },
                { CONDITION_LEFT_OUT, ONE_COMMIT_A_NUMBER },
                { REFUSAL_IS_OURS, ACKNOWLEDGED_IS_KEPT },
                { NAME_IS_RENEWAL, ONE_CALLER },
                { LIST_IS_THE_END, READERS_SEE_ALL },
                { NEXT_NUMBER_WHEN_UNSURE, NO_COMMIT_TWICE },
                { FLOOR_UNREAD, READERS_SEE_ALL },
                { FLOOR_AFTER, READERS_SEE_ALL },
                { FENCE_UNASKED, ACKNOWLEDGED_IS_KEPT },
                { BELIEF_WITHOUT_CLOCK, ACKNOWLEDGED_IS_KEPT },
        };

        (void)unused;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                /*
                 * Mistakes of deletion; the search is for mistakes that are found sooner without.
                 */
                bool deletes = cases[i].mistake >= FLOOR_UNREAD;
                const struct limits limits = {
                        .machines = 2,
                        .runs = deletes ? 2 : 1,
                        .commits = 2,
                        .renewals = !deletes,
                        .faults = !deletes,
                        .snapshots = deletes,
                        .mistake = cases[i].mistake,
                };
                struct search search = { .limits = &limits };

                run_search(&search);
                if (search.broken != cases[i].breaks) {
                        print_way(&search);
                        fail_msg("mistake %d: %s", (int)cases[i].mistake, property_names[search.broken]);
                }
                end_search(&search);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_interleaving_holds),
                cmocka_unit_test(every_mistake_is_found),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
