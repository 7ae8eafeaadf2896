/* SPDX-License-Identifier: Apache-2.0 */
/* An interrupt while changes only wait for a quota. */
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "world.h"

#define STACK "apiVersion: berth/v1\nkind: Stack\nmetadata: {name: lab}\nspec: {}\n---\n"
#define THREE ENVIRONMENT("b", "") ENVIRONMENT("c", "") ENVIRONMENT("d", "")

/* What an earlier run that died left of `address`. */
static void leave_half_way(struct bench *bench, const char *address) {
        struct journal_entry entry = { .run = 1, .address = address, .action = "update", .stage = 0 };
        struct state_op op = { .type = STATE_JOURNAL_BEGIN, .journal = &entry };
        struct error err;

        assert_int_equal(state_commit(bench->state, &op, 1, &err), 0);
}

static void test_what_stands_in_line_is_taken_back(void **state) {
        struct bench *bench = *state;
        struct journal_entry *journal;
        struct record *records;
        size_t journal_count, record_count;
        struct interrupt interrupt;
        struct error err;

        assert_int_equal(interrupt_init(&interrupt, &err), 0);
        bench_apply(bench, STACK ENVIRONMENT("a", ""));
        leave_half_way(bench, "Environment/a");
        world.queue = 4;
        world.interrupt = &interrupt;
        bench_apply(bench, STACK ENVIRONMENT("a", ", memoryMB: 4096") THREE);

        assert_int_equal(world.queued, 4);
        assert_non_null(strstr(bench_line(bench), "update Environment/a(memoryMB); create Environment/b;"));
        assert_string_equal(world.log, "");
        assert_int_equal(world.count, 2);
        assert_true(bench->result.interrupted);
        assert_int_equal(bench->result.done, 0);
        assert_int_equal(bench->result.skipped, 4);
        for (size_t i = 0; i < 4; i++)
                assert_int_equal(bench->result.changes[i].outcome, JOB_NOT_STARTED);
        /* Those that had a turn let go of what they may hold. */
        for (const char *name = "abcd"; *name; name++)
                assert_non_null(strchr(world.abandoned, *name));

        /* Nothing of this run is left in the state; what the earlier one left half-way still is. */
        assert_int_equal(state_load_records(bench->state, bench->arena, &records, &record_count, &err), 0);
        assert_int_equal(record_count, 2);
        assert_int_equal(state_load_journal(bench->state, bench->arena, &journal, &journal_count, &err), 0);
        assert_int_equal(journal_count, 1);
        assert_string_equal(journal[0].address, "Environment/a");
        interrupt_dispose(&interrupt);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_what_stands_in_line_is_taken_back, bench_set_up,
                                                bench_tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
