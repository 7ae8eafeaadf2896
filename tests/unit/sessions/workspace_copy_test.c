/* SPDX-License-Identifier: Apache-2.0 */
#include "support.h"

#include "sessions/workspace_copy.h"

/* "+copied !conflict ?skipped ", or the problem's name. */
static const char *copy(struct world *world, struct workspace *from, struct workspace *to,
                        struct workspace_copying copying) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct workspace_changes changes;

        if (workspace_copy(from, to, &copying, world->place->arena, &changes, &world->problem) < 0)
                return problem_name(world->problem.code);
        for (size_t i = 0; i < changes.changed_count; i++)
                strbuf_printf(&text, "+%s ", changes.changed[i].path);
        for (size_t i = 0; i < changes.conflict_count; i++)
                strbuf_printf(&text, "!%s ", changes.conflict[i]);
        for (size_t i = 0; i < changes.skipped_count; i++)
                strbuf_printf(&text, "?%s ", changes.skipped[i].path);
        return arena_strdup(world->place->arena, strbuf_text(&text));
}

#define PATHS(...)                                     \
        .paths = (const char *const[]){ __VA_ARGS__ }, \
        .count = sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(char *)

static void test_copy(void **state) {
        struct world world = world_of(state);
        struct workspace from WORKSPACE_CLEANUP = world_open(&world, "s-one"),
                              to WORKSPACE_CLEANUP = world_open(&world, "s-two");
        struct workspace_file file;
        int descriptor DESCRIPTOR_CLEANUP = -1;

        world_put(&world, &from, "out/deep/a", "one");
        world_put(&world, &from, "out/b", "two");
        world_put(&world, &from, "outer", "not asked for");
        assert_int_equal(chmod(world_path(&world, "s-one", "out/b"), 0700), 0);
        assert_string_equal(copy(&world, &from, &to,
                                 (struct workspace_copying){ PATHS("out", "out/deep/a"), .to = "in/here" }),
                            "+in/here/out/b +in/here/out/deep/a +in/here/a ");
        assert_string_equal(world_get(&world, &to, "in/here/out/deep/a"), "one");
        assert_int_equal(workspace_file_open(&to, "in/here/out/b", &descriptor, &file, &world.problem), 0);
        assert_true(file.executable);
        /*
         * A file that is there already stays, and is said; or is replaced where that was asked for.
         */
        world_put(&world, &from, "out/b", "newer");
        world_put(&world, &from, "out/c", "new");
        assert_string_equal(
                copy(&world, &from, &to, (struct workspace_copying){ PATHS("out"), .to = "in/here" }),
                "+in/here/out/c !in/here/out/b !in/here/out/deep/a ");
        assert_string_equal(world_get(&world, &to, "in/here/out/b"), "two");
        assert_string_equal(
                copy(&world, &from, &to,
                     (struct workspace_copying){ PATHS("out/b"), .to = "in/here/out", .replace = true }),
                "+in/here/out/b ");
        assert_string_equal(world_get(&world, &to, "in/here/out/b"), "newer");
        /* Within one. */
        assert_string_equal(
                copy(&world, &from, &from, (struct workspace_copying){ PATHS("out"), .to = "again" }),
                "+again/out/b +again/out/c +again/out/deep/a ");
        assert_string_equal(
                copy(&world, &from, &from, (struct workspace_copying){ PATHS("out"), .to = "out/deep" }),
                "invalid");
        assert_string_equal(copy(&world, &from, &from, (struct workspace_copying){ PATHS("out"), .to = "" }),
                            "invalid");
}

static void test_refused(void **state) {
        struct world world = world_of(state);
        struct workspace from WORKSPACE_CLEANUP = world_open(&world, "s-one"),
                              to WORKSPACE_CLEANUP = world_open(&world, "s-two");
        static const struct {
                const char *path, *to, *code;
        } rows[] = {
                { "../s-two/workspace/x", "", "invalid" },
                { "/etc/passwd", "", "invalid" },
                { "a", "../../s-three", "invalid" },
                { "a", "/tmp", "invalid" },
                { "nothing", "", "not-found" },
                { "link", "", "not-found" },
                { "folder/secret", "", "not-found" },
                { "", "", "invalid" },
                { "large", "", "workspace-full" },
                { "a", "blocked", "!blocked/a " },
        };
        char deep[WORKSPACE_PATH_MAX + 1];

        place_write(world.place, "outside/secret", "secret");
        assert_int_equal(symlink("../../../../outside/secret", world_path(&world, "s-one", "link")), 0);
        assert_int_equal(symlink("../../../../outside", world_path(&world, "s-one", "folder")), 0);
        world_put(&world, &from, "a", "x");
        world_put(&world, &from, "large", "0123456789");
        world_put(&world, &to, "blocked", "a file");
        for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
                const struct workspace_copying copying = { PATHS(rows[i].path), .to = rows[i].to,
                                                           .limits = { .bytes_max = 15 } };

                assert_string_equal(copy(&world, &from, &to, copying), rows[i].code);
        }
        assert_string_equal(world_list(&world, &to, NULL, NULL, 10, NULL), "blocked,");
        /* A path that would be too long there. */
        memset(deep, 'a', sizeof(deep));
        for (size_t i = 200; i < sizeof(deep); i += 200)
                deep[i] = '/';
        deep[900] = '\0';
        world_put(&world, &from, deep, "x");
        deep[200] = '\0';
        {
                const char *said = copy(
                        &world, &from, &to,
                        (struct workspace_copying){
                                PATHS(deep),
                                .to = "a/folder/whose/path/takes/more/than/sixty/bytes/of/it/or/so/in/all" });

                assert_int_equal(said[0], '?');
        }
        assert_string_equal(world_list(&world, &to, NULL, NULL, 10, NULL), "blocked,");
}

int main(void) {
        const struct CMUnitTest tests[] = { TEST(test_copy), TEST(test_refused) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
