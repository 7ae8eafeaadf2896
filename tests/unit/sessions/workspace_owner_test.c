/* SPDX-License-Identifier: Apache-2.0 */
/* What an owner's workspaces hold together bounds each of them. */
#include "sessions/support.h"

#include "sessions/workspace_owner.h"

static void narrow(struct world *world, const char *id, uint64_t most, struct workspace_limits *limits) {
        const struct workspace_bounds bounds = { .owner_max = most, .free_min = 3 };

        if (workspace_bound(&world->workspaces, OWNER, id, &bounds, NULL, limits, &world->problem) < 0)
                fail_msg("%s", world->problem.detail);
        assert_true(limits->free_min == 3);
}

static void others_take_their_room(void **state) {
        struct world world = world_of(state);
        struct workspace one WORKSPACE_CLEANUP = world_open(&world, "one"),
                             two WORKSPACE_CLEANUP = world_open(&world, "two");
        struct workspace_limits limits = { .bytes_max = 50 }, none = { 0 }, little = { 0 };
        struct workspace_file file;

        world_put(&world, &one, "a", "0123456789");
        /* Files that it holds itself are no other's. */
        narrow(&world, "one", 40, &limits);
        assert_true(limits.bytes_max == 40 && limits.owner_max == 40);
        limits = (struct workspace_limits){ .bytes_max = 50 };
        narrow(&world, "two", 40, &limits);
        assert_true(limits.bytes_max == 30 && limits.owner_max == 40);
        limits = (struct workspace_limits){ .bytes_max = 20 };
        narrow(&world, "two", 40, &limits);
        assert_true(limits.bytes_max == 20 && limits.owner_max == 0);
        narrow(&world, "two", 0, &none);
        assert_true(none.bytes_max == 0);
        /* Full is not unbounded. */
        narrow(&world, "two", 10, &little);
        assert_int_equal(world_try_put(&world, &two, "b", "xx", NULL, &little, &file), -1);
        assert_int_equal(world.problem.code, PROBLEM_WORKSPACE_FULL);
        assert_non_null(strstr(world.problem.detail, "10 bytes together"));
}

/* The records of its executions take up room of the owner's; who has none left makes no further workspace. */
static void history_counts(void **state) {
        struct world world = world_of(state);
        struct workspace one WORKSPACE_CLEANUP = world_open(&world, "one"),
                             two WORKSPACE_CLEANUP = world_open(&world, "two");
        const struct workspace_bounds bounds = { .owner_max = 40 }, none = { 0 };
        struct workspace_limits limits = { .bytes_max = 50 };

        world_put(&world, &one, "a", "0123456789");
        assert_int_equal(workspace_history(&one), 0);
        assert_int_equal(workspace_set_history(&one, 20, &world.problem), 0);
        assert_int_equal(workspace_set_history(&one, 15, &world.problem), 0);
        assert_int_equal(workspace_history(&one), 15);
        narrow(&world, "two", 40, &limits);
        assert_int_equal(limits.bytes_max, 15);
        assert_int_equal(workspace_check_room(&world.workspaces, OWNER, &bounds, &world.problem), 0);
        assert_int_equal(workspace_set_history(&two, 15, &world.problem), 0);
        assert_int_equal(workspace_check_room(&world.workspaces, OWNER, &bounds, &world.problem), -1);
        assert_int_equal(world.problem.code, PROBLEM_WORKSPACE_FULL);
        assert_int_equal(workspace_check_room(&world.workspaces, "realm/bob", &bounds, &world.problem), 0);
        assert_int_equal(workspace_check_room(&world.workspaces, OWNER, &none, &world.problem), 0);
}

static void whose_it_is(void **state) {
        struct world world = world_of(state);
        struct workspace one WORKSPACE_CLEANUP = world_open(&world, "one"),
                             other WORKSPACE_CLEANUP = WORKSPACE_INIT;
        const struct workspace_row row = {
                .id = "agents", .owner = OWNER, .environment = "data", .agent = "coder"
        };
        struct workspace_row read;

        assert_string_equal(one.id, "one");
        assert_int_equal(workspace_open(&world.workspaces, NULL, "one", &other, &world.problem), -1);
        assert_int_equal(world.problem.code, PROBLEM_NOT_FOUND);
        assert_int_equal(workspace_open_any(&world.workspaces, "one", &other, &world.problem), 0);
        assert_int_equal(workspace_describe(&other, world.place->arena, &read, &world.problem), 0);
        assert_null(read.agent);
        workspace_close(&other);
        assert_int_equal(workspace_create(&world.workspaces, &row, &world.problem), 0);
        assert_int_equal(workspace_open(&world.workspaces, OWNER, "agents", &other, &world.problem), 0);
        assert_int_equal(workspace_set_life(&other, 5, &world.problem), 0);
        assert_int_equal(workspace_describe(&other, world.place->arena, &read, &world.problem), 0);
        assert_string_equal(read.agent, "coder");
}

int main(void) {
        const struct CMUnitTest tests[] = { TEST(others_take_their_room), TEST(history_counts),
                                            TEST(whose_it_is) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
