/* SPDX-License-Identifier: Apache-2.0 */
#include "support.h"

#include "sessions/workspace_folders.h"
#include "sessions/workspace_tree.h"

#include <sys/stat.h>
#include <unistd.h>

static const struct workspace_limits none = { 0 };

/*
 * What the workspace is counted to have, as "FILES/BYTES"; the same is found when all of it is
 * counted again.
 */
static const char *usage(struct world *world, struct workspace *workspace) {
        struct workspace_usage kept, counted;

        assert_int_equal(workspace_measure(workspace, NULL, &kept, &world->problem), 0);
        (void)unlink(world_path(world, workspace->id, "../usage"));
        assert_int_equal(workspace_measure(workspace, NULL, &counted, &world->problem), 0);
        assert_int_equal(kept.files, counted.files);
        assert_int_equal(kept.folders, counted.folders);
        assert_int_equal(kept.bytes, counted.bytes);
        return arena_printf(world->place->arena, "%d/%d", (int)kept.files, (int)kept.bytes);
}

/* "a/,a/b:3,": folders with a slash, files with their size; or the problem's name. */
static const char *list(struct world *world, struct workspace *workspace, const char *path, unsigned depth) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct workspace_place *places;
        size_t count;

        if (workspace_places_list(workspace, path, depth, NULL, world->place->arena, &places, &count,
                                  &world->problem) < 0)
                return problem_name(world->problem.code);
        for (size_t i = 0; i < count; i++) {
                strbuf_append(&text, places[i].path);
                if (places[i].folder)
                        strbuf_append(&text, "/,");
                else
                        strbuf_printf(&text, ":%d,", (int)places[i].bytes);
        }
        return arena_strdup(world->place->arena, strbuf_text(&text));
}

static const char *said(struct world *world, int result) {
        return result == 0 ? "done" : problem_name(world->problem.code);
}

static const char *make(struct world *world, struct workspace *workspace, const char *path) {
        return said(world, workspace_folder_create(workspace, path, &none, NULL, &world->problem));
}

static const char *move(struct world *world, struct workspace *workspace, const char *from, const char *to) {
        return said(world, workspace_place_move(workspace, from, to, &none, NULL, &world->problem));
}

static const char *drop(struct world *world, struct workspace *workspace, const char *path) {
        return said(world, workspace_place_remove(workspace, path, NULL, &world->problem));
}

static void test_changes(void **state) {
        struct world world = world_of(state);
        struct workspace one WORKSPACE_CLEANUP = world_open(&world, "s-one");

        assert_string_equal(make(&world, &one, "a/b"), "done");
        assert_string_equal(make(&world, &one, "a/b"), "conflict");
        world_put(&world, &one, "a/f", "123");
        world_put(&world, &one, "a/b/g", "4567");
        assert_string_equal(make(&world, &one, "a/f"), "conflict");
        assert_string_equal(make(&world, &one, "a/f/x"), "conflict");
        assert_string_equal(list(&world, &one, "", 1), "a/,");
        assert_string_equal(list(&world, &one, "a", 1), "a/b/,a/f:3,");
        assert_string_equal(list(&world, &one, "", 9), "a/,a/b/,a/b/g:4,a/f:3,");
        assert_string_equal(list(&world, &one, "a/f", 1), "invalid");
        assert_string_equal(list(&world, &one, "never", 1), "not-found");
        assert_string_equal(usage(&world, &one), "4/7");

        assert_string_equal(move(&world, &one, "a/b/g", "a/f"), "done");
        assert_string_equal(world_get(&world, &one, "a/f"), "4567");
        assert_string_equal(usage(&world, &one), "3/4");
        assert_string_equal(move(&world, &one, "a", "c/d/e"), "done");
        assert_string_equal(list(&world, &one, "", 9), "c/,c/d/,c/d/e/,c/d/e/b/,c/d/e/f:4,");
        assert_string_equal(usage(&world, &one), "5/4");
        assert_string_equal(move(&world, &one, "c/d", "c/d/e/x"), "conflict");
        assert_string_equal(move(&world, &one, "c/d/e/f", "c/d/e/b"), "conflict");
        assert_string_equal(move(&world, &one, "c/d", "c/d"), "done");
        assert_string_equal(move(&world, &one, "never", "x"), "not-found");
        assert_string_equal(usage(&world, &one), "5/4");

        assert_string_equal(drop(&world, &one, "c/d/e/f"), "done");
        assert_string_equal(usage(&world, &one), "4/0");
        assert_string_equal(drop(&world, &one, "c/d"), "done");
        assert_string_equal(drop(&world, &one, "c/d"), "not-found");
        assert_string_equal(usage(&world, &one), "1/0");
}

/* The files there were written by strangers, and a host's folder is beside it. */
static void test_hostile(void **state) {
        struct world world = world_of(state);
        struct workspace one WORKSPACE_CLEANUP = world_open(&world, "s-one"),
                             two WORKSPACE_CLEANUP = world_open(&world, "s-two");
        static const char *const outside[] = { "link/kept", "link",     "file", "pipe",
                                               "a/../x",    "../s-two", "/etc", "" };
        struct workspace_limits tight = { .files_max = 3 };

        world_put(&world, &two, "kept", "theirs");
        world_put(&world, &one, "a/f", "1");
        assert_int_equal(symlink(world_path(&world, "s-two", ""), world_path(&world, "s-one", "link")), 0);
        assert_int_equal(symlink(world_path(&world, "s-two", "kept"), world_path(&world, "s-one", "file")),
                         0);
        assert_int_equal(mkfifo(world_path(&world, "s-one", "pipe"), 0600), 0);
        assert_string_equal(list(&world, &one, "", 9), "a/,a/f:1,");
        for (size_t i = 0; i < sizeof(outside) / sizeof(outside[0]); i++) {
                assert_string_not_equal(drop(&world, &one, outside[i]), "done");
                assert_string_not_equal(move(&world, &one, outside[i], "mine"), "done");
                if (*outside[i] && i != 1 && i != 2)
                        assert_string_not_equal(list(&world, &one, outside[i], 1), "kept:6,");
        }
        assert_string_not_equal(move(&world, &one, "a", "link/a"), "done");
        assert_string_not_equal(make(&world, &one, "link/b"), "done");
        assert_string_equal(list(&world, &one, "link", 1), "not-found");
        assert_string_equal(list(&world, &two, "", 9), "kept:6,");
        assert_string_equal(world_get(&world, &two, "kept"), "theirs");

        assert_int_equal(workspace_folder_create(&one, "b", &tight, NULL, &world.problem), 0);
        assert_int_equal(workspace_folder_create(&one, "c", &tight, NULL, &world.problem), -1);
        assert_string_equal(problem_name(world.problem.code), "workspace-full");
        assert_int_equal(workspace_place_move(&one, "b", "c/d", &tight, NULL, &world.problem), -1);
        assert_string_equal(problem_name(world.problem.code), "workspace-full");
}

/* A folder is not moved so deep that what is in it could not be reached any more. */
static void test_deep(void **state) {
        struct world world = world_of(state);
        struct workspace one WORKSPACE_CLEANUP = world_open(&world, "s-one");
        char deep[700];

        memset(deep, 'd', sizeof(deep));
        for (size_t i = 100; i < sizeof(deep); i += 100)
                deep[i] = '/';
        deep[sizeof(deep) - 1] = '\0';
        world_put(&world, &one, deep, "x");
        deep[100] = '\0';
        assert_string_equal(make(&world, &one, deep), "conflict");
        assert_string_equal(move(&world, &one, deep, "short"), "done");
        deep[100] = '/';
        deep[400] = '\0';
        assert_string_equal(move(&world, &one, "short", deep), "invalid");
        assert_string_equal(list(&world, &one, "", 1), "short/,");
}

#define FOLDERS 50

/* Folders have a bound of their own at each door, whatever made those that are there; what is in them is changed as ever. */
static void test_folders_have_a_bound(void **state) {
        const struct workspace_limits limits = { .folders_max = FOLDERS };
        struct world world = world_of(state);
        struct workspace workspace WORKSPACE_CLEANUP = world_open(&world, "s-one");
        struct workspace_file file;
        char name[16];

#define MAKE(path) said(&world, workspace_folder_create(&workspace, path, &limits, NULL, &world.problem))
#define MOVE(from, to) said(&world, workspace_place_move(&workspace, from, to, &limits, NULL, &world.problem))
#define PUT(path) said(&world, world_try_put(&world, &workspace, path, "x", NULL, &limits, &file))
        for (int i = 0; i < FOLDERS - 1; i++) {
                snprintf(name, sizeof(name), "%d", i);
                assert_int_equal(mkdirat(workspace.files, name, 0700), 0);
        }
        assert_string_equal(PUT("new/a"), "done");
        assert_string_equal(MAKE("more"), "workspace-full");
        assert_string_equal(PUT("more/a"), "workspace-full");
        assert_string_equal(MOVE("new/a", "more/a"), "workspace-full");
        assert_string_equal(PUT("7/a"), "done");
        assert_string_equal(MOVE("new/a", "8/a"), "done");
        assert_string_equal(MOVE("9", "10/9"), "done");
        assert_string_equal(drop(&world, &workspace, "11"), "done");
        assert_string_equal(MAKE("more/deep"), "workspace-full");
        assert_string_equal(drop(&world, &workspace, "more"), "done");
        assert_string_equal(PUT("more/a"), "done");
        assert_string_equal(MAKE("most"), "workspace-full");
        usage(&world, &workspace);
}

int main(void) {
        const struct CMUnitTest tests[] = { TEST(test_changes), TEST(test_hostile), TEST(test_deep),
                                            TEST(test_folders_have_a_bound) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
