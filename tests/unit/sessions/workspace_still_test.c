/* SPDX-License-Identifier: Apache-2.0 */
/* Each change below a folder is seen, and nothing else is. */
#include "sessions/support.h"

#include "sessions/workspace_still.h"

#include <time.h>

static struct workspace_still *still_of(struct world *world, int folder) {
        struct arena *arena = world->place->arena;
        struct workspace_still_look look;
        struct workspace_tree tree;
        struct error err;

        workspace_still_look(folder, &look);
        if (workspace_tree_read(folder, 0, 0, NULL, arena, &tree, &err) < 0)
                fail_msg("%s", err.message);
        return workspace_still_new(&look, &tree);
}

/* What changed just now is too young at first. */
static struct workspace_still *await_still(struct world *world, int folder) {
        const struct timespec pause = { .tv_nsec = 5 * 1000 * 1000 };
        struct workspace_still *still;

        for (int i = 0; i < 10000; i++) {
                if ((still = still_of(world, folder)))
                        return still;
                nanosleep(&pause, NULL);
        }
        fail_msg("it never becomes old");
        return NULL;
}

static void append(const char *path) {
        FILE *file = fopen(path, "ae");

        assert_non_null(file);
        fputc('x', file);
        fclose(file);
}

static void changes_are_seen(void **state) {
        struct world world = world_of(state);
        struct workspace workspace WORKSPACE_CLEANUP = world_open(&world, "one");
        const char *file = world_path(&world, "one", "sub/deep/file"),
                   *folder = world_path(&world, "one", "sub/deep"),
                   *new = world_path(&world, "one", "sub/new"), *link = world_path(&world, "one", "sub/link");

        world_put(&world, &workspace, "sub/deep/file", "1");
        world_put(&world, &workspace, "top", "2");
        for (int change = 0; change < 9; change++) {
                struct workspace_still *still = await_still(&world, workspace.files);

                assert_true(workspace_still_holds(still, workspace.files));
                assert_true(workspace_still_holds(still, workspace.files));
                switch (change) {
                case 0:
                        append(file);
                        break;
                case 1:
                        append(new);
                        break;
                case 2:
                        assert_int_equal(rename(new, file), 0);
                        break;
                case 3:
                        assert_int_equal(chmod(file, 0700), 0);
                        break;
                case 4:
                        assert_int_equal(mkdir(world_path(&world, "one", "empty"), 0700), 0);
                        break;
                case 5:
                        assert_int_equal(rename(folder, link), 0);
                        break;
                case 6:
                        assert_int_equal(rename(link, folder), 0);
                        break;
                case 7:
                        world_put(&world, &workspace, "top", "3");
                        break;
                default:
                        assert_int_equal(unlink(file), 0);
                }
                assert_false(workspace_still_holds(still, workspace.files));
                workspace_still_free(still);
        }
}

static void what_is_not_looked_at_cannot_be_told(void **state) {
        struct world world = world_of(state);
        struct workspace workspace WORKSPACE_CLEANUP = world_open(&world, "one"),
                                   gone WORKSPACE_CLEANUP = world_open(&world, "two");
        struct workspace_still *still = await_still(&world, gone.files);
        struct workspace_still_look look;
        struct workspace_tree tree = { 0 };

        /* The last look at what is removed since. */
        assert_int_equal(workspace_remove(&world.workspaces, OWNER, "two", &world.problem), 0);
        assert_false(workspace_still_holds(still, gone.files));
        workspace_still_free(still);
        assert_false(workspace_still_holds(NULL, workspace.files));
        workspace_still_free(NULL);

        workspace_still_look(workspace.files, &look);
        look.at_ns += INT64_C(60) * 1000 * 1000 * 1000;
        tree.count = WORKSPACE_STILL_MAX + 1;
        assert_null(workspace_still_new(&look, &tree));
        tree = (struct workspace_tree){ .skipped_count = 1 };
        assert_null(workspace_still_new(&look, &tree));
        tree = (struct workspace_tree){ .cut = true };
        assert_null(workspace_still_new(&look, &tree));
        tree = (struct workspace_tree){ 0 };
        still = workspace_still_new(&look, &tree);
        assert_non_null(still);
        workspace_still_free(still);
        /* A clock that was set back. */
        look.at_ns -= INT64_C(3600) * 1000 * 1000 * 1000;
        assert_null(workspace_still_new(&look, &tree));
        workspace_still_look(-1, &look);
        assert_null(workspace_still_new(&look, &tree));
}

int main(void) {
        const struct CMUnitTest tests[] = { TEST(changes_are_seen),
                                            TEST(what_is_not_looked_at_cannot_be_told) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
