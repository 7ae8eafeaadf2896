/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/interrupt.h"
#include "controller/executor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define MOST 2000

/* A job takes `turns` turns, `wait_ms` apart, and fails at the end where `fails`. */
struct script {
        unsigned turns;
        unsigned wait_ms;
        bool fails;
        bool queued_first; /* its first turn only waits for quota */
};

struct stage {
        const struct script *scripts;
        const struct job *jobs;
        size_t count;
        atomic_uint taken[MOST];
        atomic_bool inside[MOST], over[MOST];
        enum job_outcome outcomes[MOST];
        unsigned ended[MOST];
        size_t order[MOST], ended_count;
        atomic_uint queued, most_queued;
        struct interrupt interrupt;
        atomic_int interrupt_at; /* after this number of turns in all; 0: never; -1: before the first */
        atomic_uint turns;
        bool slow_to_hear;  /* what has ended first is taken in only when all turns were taken */
        bool heard_in_time; /* or that took too long for a plan that did not wait */
};

static int run(void *context, size_t job, struct turn *turn) {
        struct stage *stage = context;
        const struct script *script = &stage->scripts[job];
        unsigned taken;

        assert_false(atomic_exchange(&stage->inside[job], true));
        for (size_t i = 0; i < stage->jobs[job].after_count; i++)
                assert_true(atomic_load(&stage->over[stage->jobs[job].after[i]]));
        taken = atomic_fetch_add(&stage->taken[job], 1) + 1;
        if ((int)(atomic_fetch_add(&stage->turns, 1) + 1) == atomic_load(&stage->interrupt_at))
                interrupt_raise(&stage->interrupt);
        turn->queued = script->queued_first && taken == 1;
        if (turn->queued) {
                unsigned now = atomic_fetch_add(&stage->queued, 1) + 1,
                         most = atomic_load(&stage->most_queued);

                while (now > most && !atomic_compare_exchange_weak(&stage->most_queued, &most, now))
                        ;
        } else if (script->queued_first && taken == 2) {
                atomic_fetch_sub(&stage->queued, 1);
        }
        turn->begun = !turn->queued;
        turn->done = taken == script->turns;
        turn->not_before_ms = clock_system.monotonic_ms(&clock_system) + script->wait_ms;
        atomic_store(&stage->over[job], turn->done);
        atomic_store(&stage->inside[job], false);
        return turn->done && script->fails ? -1 : 0;
}

static void ended(void *context, size_t job, enum job_outcome outcome) {
        struct stage *stage = context;
        const struct timespec moment = { .tv_nsec = 1000000 };

        for (int i = 0; stage->slow_to_hear && stage->ended_count == 0 && i < 5000; i++) {
                stage->heard_in_time = atomic_load(&stage->turns) == stage->count;
                if (stage->heard_in_time)
                        break;
                nanosleep(&moment, NULL);
        }
        stage->ended[job]++;
        stage->outcomes[job] = outcome;
        stage->order[stage->ended_count++] = job;
}

static struct stage *play_to(bool slow_to_hear, const struct script *scripts, const struct job *jobs,
                             size_t count, unsigned threads, int interrupt_at) {
        static const struct executor_ops ops = { .run = run, .ended = ended };
        struct stage *stage = calloc(1, sizeof(*stage));
        struct error err;

        assert_non_null(stage);
        stage->slow_to_hear = slow_to_hear;
        stage->scripts = scripts;
        stage->jobs = jobs;
        stage->count = count;
        atomic_store(&stage->interrupt_at, interrupt_at);
        assert_int_equal(interrupt_init(&stage->interrupt, &err), 0);
        if (interrupt_at < 0)
                interrupt_raise(&stage->interrupt);
        executor_run(&ops, stage, jobs, count, threads, &clock_system, &stage->interrupt);
        interrupt_dispose(&stage->interrupt);
        assert_int_equal(stage->ended_count, count);
        for (size_t i = 0; i < count; i++)
                assert_int_equal(stage->ended[i], 1);
        return stage;
}

static struct stage *play(const struct script *scripts, const struct job *jobs, size_t count,
                          unsigned threads, int interrupt_at) {
        return play_to(false, scripts, jobs, count, threads, interrupt_at);
}

static void test_nothing_to_do(void **state) {
        (void)state;
        free(play(NULL, NULL, 0, 4, 0));
}

static void test_a_chain_runs_in_order(void **state) {
        static const size_t first[] = { 2 }, second[] = { 0 };
        static const struct script scripts[] = { { 1, 0, false, false },
                                                 { 3, 1, false, false },
                                                 { 2, 5, false, false } };
        static const struct job jobs[] = { { first, 1, 0, false },
                                           { second, 1, 0, false },
                                           { NULL, 0, 0, false } };
        struct stage *stage = play(scripts, jobs, 3, 4, 0);

        (void)state;
        assert_int_equal(stage->order[0], 2);
        assert_int_equal(stage->order[1], 0);
        assert_int_equal(stage->order[2], 1);
        assert_int_equal(stage->taken[1], 3);
        free(stage);
}

static void test_a_failure_skips_its_dependents_only(void **state) {
        static const size_t on_zero[] = { 0 }, on_one[] = { 1 }, on_both[] = { 1, 3 };
        static const struct script scripts[] = {
                { 2, 1, true, false },  { 1, 0, false, false }, { 1, 0, false, false },
                { 1, 0, false, false }, { 1, 0, false, false },
        };
        static const struct job jobs[] = {
                { NULL, 0, 0, false }, { on_zero, 1, 0, false }, { on_one, 1, 0, false },
                { NULL, 0, 0, false }, { on_both, 2, 0, false },
        };
        static const enum job_outcome expected[] = { JOB_FAILED, JOB_SKIPPED, JOB_SKIPPED, JOB_DONE,
                                                     JOB_SKIPPED };
        struct stage *stage = play(scripts, jobs, 5, 2, 0);

        (void)state;
        for (size_t i = 0; i < 5; i++)
                assert_int_equal(stage->outcomes[i], expected[i]);
        assert_int_equal(stage->taken[1], 0);
        assert_int_equal(stage->taken[4], 0);
        free(stage);
}

static void test_excluded_jobs_take_their_dependents_along(void **state) {
        static const size_t on_zero[] = { 0 };
        static const struct script scripts[] = { { 1, 0, false, false },
                                                 { 1, 0, false, false },
                                                 { 1, 0, false, false } };
        static const struct job jobs[] = { { NULL, 0, 0, true },
                                           { on_zero, 1, 0, false },
                                           { NULL, 0, 0, false } };
        struct stage *stage = play(scripts, jobs, 3, 2, 0);

        (void)state;
        assert_int_equal(stage->outcomes[0], JOB_SKIPPED);
        assert_int_equal(stage->outcomes[1], JOB_SKIPPED);
        assert_int_equal(stage->outcomes[2], JOB_DONE);
        free(stage);
}

static void test_a_cycle_ends(void **state) {
        static const size_t on_zero[] = { 0 }, on_one[] = { 1 };
        static const struct script scripts[] = { { 1, 0, false, false }, { 1, 0, false, false } };
        static const struct job jobs[] = { { on_one, 1, 0, false }, { on_zero, 1, 0, false } };
        struct stage *stage = play(scripts, jobs, 2, 2, 0);

        (void)state;
        assert_int_equal(stage->outcomes[0], JOB_SKIPPED);
        assert_int_equal(stage->outcomes[1], JOB_SKIPPED);
        free(stage);
}

static void test_waiting_jobs_hold_no_thread(void **state) {
        /* 1,000 jobs that wait 200 ms each: one after the other on two threads that would be 100 s. */
        static struct script scripts[1000];
        static struct job jobs[1000];
        int64_t start = clock_system.monotonic_ms(&clock_system);
        struct stage *stage;

        (void)state;
        for (size_t i = 0; i < 1000; i++)
                scripts[i] = (struct script){ .turns = 2, .wait_ms = 200 };
        stage = play(scripts, jobs, 1000, 2, 0);
        assert_true(clock_system.monotonic_ms(&clock_system) - start < 60000);
        for (size_t i = 0; i < 1000; i++)
                assert_int_equal(stage->outcomes[i], JOB_DONE);
        free(stage);
}

static void test_a_lane_queues_no_more_than_the_threads(void **state) {
        static struct script scripts[400];
        static struct job jobs[400];
        struct stage *stage;

        (void)state;
        for (size_t i = 0; i < 400; i++)
                scripts[i] = (struct script){ .turns = 2, .wait_ms = 1, .queued_first = true };
        stage = play(scripts, jobs, 400, 4, 0);
        /* Those that are just being taken up come on top of those that are queued. */
        assert_in_range(stage->most_queued, 1, 8);
        free(stage);
}

static void test_nobody_waits_for_who_is_told(void **state) {
        static const size_t on_zero[] = { 0 };
        static struct script scripts[40];
        static struct job jobs[40];
        struct stage *stage;

        (void)state;
        for (size_t i = 0; i < 40; i++) {
                scripts[i] = (struct script){ .turns = 1 };
                jobs[i] = (struct job){ .after = on_zero, .after_count = i > 0 };
        }
        stage = play_to(true, scripts, jobs, 40, 2, 0);
        assert_true(stage->heard_in_time);
        assert_int_equal(stage->order[0], 0);
        free(stage);
}

static void test_random_graphs(void **state) {
        (void)state;
        srand(7);
        for (int round = 0; round < 20; round++) {
                static struct script scripts[300];
                static struct job jobs[300];
                static size_t after[300][3];
                struct stage *stage;

                for (size_t i = 0; i < 300; i++) {
                        size_t needs = i ? (size_t)rand() % 4 : 0;

                        for (size_t k = 0; k < needs; k++)
                                after[i][k] = (size_t)rand() % i;
                        jobs[i] = (struct job){ .after = after[i],
                                                .after_count = needs,
                                                .lane = (unsigned)rand() % 12 };
                        scripts[i] = (struct script){ .turns = 1 + (unsigned)rand() % 3,
                                                      .wait_ms = (unsigned)rand() % 3,
                                                      .fails = rand() % 50 == 0 };
                }
                stage = play(scripts, jobs, 300, 8, 0);
                for (size_t i = 0; i < 300; i++) {
                        bool doomed = false;

                        for (size_t k = 0; k < jobs[i].after_count; k++)
                                doomed |= stage->outcomes[after[i][k]] != JOB_DONE;
                        assert_int_equal(stage->outcomes[i], doomed             ? JOB_SKIPPED
                                                             : scripts[i].fails ? JOB_FAILED
                                                                                : JOB_DONE);
                }
                free(stage);
        }
}

static void test_an_interrupt_finishes_what_was_begun(void **state) {
        static struct script scripts[500];
        static struct job jobs[500];
        struct stage *stage;
        size_t done = 0, not_started = 0;

        (void)state;
        for (size_t i = 0; i < 500; i++)
                scripts[i] = (struct script){ .turns = 3, .wait_ms = 20 };
        stage = play(scripts, jobs, 500, 2, 100);
        for (size_t i = 0; i < 500; i++) {
                unsigned taken = stage->taken[i];

                assert_true(taken == 0 || taken == 3);
                assert_int_equal(stage->outcomes[i], taken ? JOB_DONE : JOB_NOT_STARTED);
                done += taken > 0;
                not_started += taken == 0;
        }
        assert_true(done > 0 && not_started > 0);
        free(stage);

        /* An interrupt that came before leaves nothing to finish. */
        stage = play(scripts, jobs, 500, 2, -1);
        for (size_t i = 0; i < 500; i++)
                assert_int_equal(stage->outcomes[i], JOB_NOT_STARTED);
        free(stage);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_nothing_to_do),
                cmocka_unit_test(test_a_chain_runs_in_order),
                cmocka_unit_test(test_a_failure_skips_its_dependents_only),
                cmocka_unit_test(test_excluded_jobs_take_their_dependents_along),
                cmocka_unit_test(test_a_cycle_ends),
                cmocka_unit_test(test_waiting_jobs_hold_no_thread),
                cmocka_unit_test(test_a_lane_queues_no_more_than_the_threads),
                cmocka_unit_test(test_nobody_waits_for_who_is_told),
                cmocka_unit_test(test_random_graphs),
                cmocka_unit_test(test_an_interrupt_finishes_what_was_begun),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
