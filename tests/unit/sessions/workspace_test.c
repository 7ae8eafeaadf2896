/* SPDX-License-Identifier: Apache-2.0 */
#include "support.h"

#include "sessions/workspace_stage.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

static bool exists(struct world *world, const char *name) {
        struct stat status;

        return lstat(arena_printf(world->place->arena, "%s/%s", world->place->folder, name), &status) == 0;
}

static size_t count_names(struct world *world, const char *name) {
        const char *path = arena_printf(world->place->arena, "%s/%s", world->place->folder, name);
        char *command = arena_printf(world->place->arena, "ls -A %s | wc -l", path);
        FILE *pipe = popen(command, "r");
        unsigned long count = 0;

        assert_true(pipe && fscanf(pipe, "%lu", &count) == 1);
        pclose(pipe);
        return count;
}

/* Another's, one that never was, a name that can be none, a damaged one: one answer. */
static void test_not_yours_is_not_there(void **state) {
        struct world world = world_of(state);
        struct workspace mine WORKSPACE_CLEANUP = world_open(&world, "s-mine");
        struct workspace other WORKSPACE_CLEANUP = WORKSPACE_INIT;
        static const struct {
                const char *owner, *id;
        } rows[] = { { "realm/bob", "s-mine" },
                     { "realm/an", "s-mine" },
                     { "", "s-mine" },
                     { OWNER, "s-never" },
                     { OWNER, "" },
                     { OWNER, ".." },
                     { OWNER, "." },
                     { OWNER, "s-mine/" },
                     { OWNER, "../sessions/s-mine" },
                     { OWNER, "s-mine/workspace" },
                     { OWNER, "s-damaged" },
                     { OWNER, "s-stack" },
                     { OWNER, "s-nobody" },
                     { OWNER, "s-link" },
                     { OWNER, "s-file" },
                     { OWNER, "s-linked-description" } };

        (void)mine; /* held, and there */
        place_write(world.place, "w/sessions/s-damaged/session.json", "{\"owner\": \"" OWNER "\"");
        place_write(
                world.place, "w/sessions/s-stack/session.json",
                "{\"formatVersion\": \"1\", \"stack\": \"other\", \"environment\": \"e\", \"owner\": \"" OWNER
                "\"}");
        place_write(world.place, "w/sessions/s-nobody/session.json",
                    "{\"formatVersion\": \"1\", \"stack\": \"lab\", \"environment\": \"e\"}");
        place_write(world.place, "w/sessions/s-file", "x");
        assert_int_equal(symlink("s-mine", place_path(world.place, "w/sessions/s-link")), 0);
        assert_int_equal(symlink("../s-mine/session.json",
                                 place_path(world.place, "w/sessions/s-linked-description/session.json")),
                         0);
        for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
                struct problem problem = { 0 };

                assert_int_equal(
                        workspace_open(&world.workspaces, rows[i].owner, rows[i].id, &other, &problem), -1);
                assert_int_equal(problem.code, PROBLEM_NOT_FOUND);
                assert_string_equal(problem.detail, "there is no such workspace");
                assert_int_equal(workspace_remove(&world.workspaces, rows[i].owner, rows[i].id, &problem),
                                 -1);
                assert_int_equal(problem.code, PROBLEM_NOT_FOUND);
        }
        assert_true(exists(&world, "w/sessions/s-mine/session.json"));
}

/* Lets it open `more` further files; what the limit was before. */
static struct rlimit allow_descriptors(unsigned more) {
        int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
        struct rlimit before, limit;

        assert_true(next >= 0);
        close(next);
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
        limit = before;
        limit.rlim_cur = (rlim_t)next + more;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        return before;
}

/* Without a descriptor it is not known whether there is one, or which there are: neither "not there" nor a shorter list. */
static void test_no_descriptor_is_not_not_there(void **state) {
        struct world world = world_of(state);
        struct workspace workspace WORKSPACE_CLEANUP = world_open(&world, "s-one");
        bool done = false;

        workspace_close(&workspace);
        for (unsigned more = 0; !done && more < 16; more++) {
                struct problem problem = { 0 }, of_list = { 0 };
                struct workspace_row *rows;
                size_t count = 0;
                bool further;
                struct rlimit before;
                int opened, listed;

                before = allow_descriptors(more);
                opened = workspace_open(&world.workspaces, OWNER, "s-one", &workspace, &problem);
                workspace_close(&workspace);
                listed = workspace_list(&world.workspaces, OWNER, "", 10, world.place->arena, &rows, &count,
                                        &further, &of_list);
                assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
                if (opened < 0)
                        assert_non_null(strstr(problem.detail, "Too many open files"));
                if (listed < 0)
                        assert_non_null(strstr(of_list.detail, "Too many open files"));
                else
                        assert_int_equal(count, 1);
                done = opened == 0 && listed == 0;
        }
        assert_true(done);
}

static void test_create(void **state) {
        struct world world = world_of(state);
        struct workspace workspace WORKSPACE_CLEANUP = world_open(&world, "s-one");
        struct workspace_row row = { .id = "s-one", .owner = "realm/bob", .environment = "e" };
        struct strbuf wide STRBUF_CLEANUP = STRBUF_INIT;

        assert_int_equal(workspace_create(&world.workspaces, &row, &world.problem), -1);
        assert_int_equal(world.problem.code, PROBLEM_CONFLICT);
        assert_int_equal(count_names(&world, "w/sessions"), 1);
        assert_int_equal(workspace_describe(&workspace, world.place->arena, &row, &world.problem), 0);
        assert_string_equal(row.owner, OWNER);
        assert_string_equal(row.environment, "data");
        assert_int_equal(row.created_ms, 7);
        assert_int_equal(row.lives_until_ms, 9);
        assert_int_equal(workspace_set_life(&workspace, 0, &world.problem), 0);
        assert_int_equal(workspace_describe(&workspace, world.place->arena, &row, &world.problem), 0);
        assert_int_equal(row.lives_until_ms, 0);
        assert_string_equal(row.owner, OWNER);
        strbuf_append(&wide, "realm/");
        /* As long as an owner's name may be: 256 characters of four bytes, and a realm. */
        for (int i = 0; i < 256; i++)
                strbuf_append(&wide, "\xf0\x9f\x98\x80");
        row = (struct workspace_row){ .id = "s-wide", .owner = strbuf_text(&wide), .environment = "e" };
        assert_int_equal(workspace_create(&world.workspaces, &row, &world.problem), 0);
        workspace_close(&workspace);
        assert_int_equal(
                workspace_open(&world.workspaces, strbuf_text(&wide), "s-wide", &workspace, &world.problem),
                0);
        row = (struct workspace_row){ .id = "../x", .owner = OWNER, .environment = "e" };
        assert_int_equal(workspace_create(&world.workspaces, &row, &world.problem), -1);
        assert_int_equal(world.problem.code, PROBLEM_INVALID);
}

static void test_list(void **state) {
        struct world world = world_of(state);
        struct workspace_row *rows;
        size_t count;
        bool more;

        assert_int_equal(workspace_list(&world.workspaces, OWNER, "", 10, world.place->arena, &rows, &count,
                                        &more, &world.problem),
                         0);
        assert_int_equal(count, 0);
        for (int i = 0; i < 5; i++) {
                const struct workspace_row row = { .id = arena_printf(world.place->arena, "s-%d", i),
                                                   .owner = i == 2 ? "realm/bob" : OWNER,
                                                   .environment = "e" };

                assert_int_equal(workspace_create(&world.workspaces, &row, &world.problem), 0);
        }
        place_path(world.place, "w/sessions/.removed-s-9-1/x");
        assert_int_equal(workspace_list(&world.workspaces, OWNER, "", 2, world.place->arena, &rows, &count,
                                        &more, &world.problem),
                         0);
        assert_int_equal(count, 2);
        assert_true(more);
        assert_string_equal(rows[1].id, "s-1");
        assert_int_equal(workspace_list(&world.workspaces, OWNER, "s-1", 2, world.place->arena, &rows, &count,
                                        &more, &world.problem),
                         0);
        assert_int_equal(count, 2);
        assert_false(more);
        assert_string_equal(rows[0].id, "s-3");
        assert_int_equal(workspace_list(&world.workspaces, NULL, "", 10, world.place->arena, &rows, &count,
                                        &more, &world.problem),
                         0);
        assert_int_equal(count, 5);
        assert_string_equal(rows[2].owner, "realm/bob");
}

/*
 * Deep, full, unreadable, and with links: all of it goes, and nothing else. A caller that has it
 * open finds nothing.
 */
static void test_remove(void **state) {
        struct world world = world_of(state);
        struct workspace workspace WORKSPACE_CLEANUP = world_open(&world, "s-one");
        struct workspace_file file;
        int folder DESCRIPTOR_CLEANUP = -1;

        place_write(world.place, "outside/kept", "x");
        assert_int_equal(symlink("../../../../outside", world_path(&world, "s-one", "link")), 0);
        assert_int_equal(mkfifo(world_path(&world, "s-one", "fifo"), 0600), 0);
        /* Far deeper than a path can be. */
        assert_int_equal(mkdir(world_path(&world, "s-one", "deep"), 0700), 0);
        folder = open(world_path(&world, "s-one", "deep"), O_RDONLY | O_DIRECTORY);
        for (int i = 0; i < 300; i++) {
                int inner;

                assert_int_equal(mkdirat(folder, "a-rather-long-name-of-a-folder", 0700), 0);
                inner = openat(folder, "a-rather-long-name-of-a-folder", O_RDONLY | O_DIRECTORY);
                assert_true(inner >= 0);
                close(folder);
                folder = inner;
        }
        world_put(&world, &workspace, "a/b/c", "text");
        if (workspace_remove(&world.workspaces, OWNER, "s-one", &world.problem) < 0)
                fail_msg("%s", world.problem.detail);
        assert_int_equal(count_names(&world, "w/sessions"), 0);
        assert_true(exists(&world, "outside/kept"));
        assert_int_equal(world_try_put(&world, &workspace, "new", "text", NULL, NULL, &file), -1);
        assert_int_equal(world.problem.code, PROBLEM_NOT_FOUND);
        assert_int_equal(
                workspace_file_delete(&workspace, "a/b/c", &(struct conditions){ 0 }, NULL, &world.problem),
                -1);
        assert_int_equal(world.problem.code, PROBLEM_NOT_FOUND);
}

/* What dead processes left goes; what a living one is about stays. */
static void test_recover(void **state) {
        struct world world = world_of(state);
        struct workspace workspace WORKSPACE_CLEANUP = world_open(&world, "s-one");
        struct workspace_put put WORKSPACE_PUT_CLEANUP = WORKSPACE_PUT_INIT;
        struct workspace_file file;
        const struct conditions conditions = { 0 };
        const struct workspace_limits limits = { 0 };

        place_write(world.place, "w/sessions/.made-s-two-0123/workspace/x", "x");
        place_write(world.place, "w/sessions/.removed-s-two-0123/workspace/deep/x", "x");
        place_write(world.place, "w/sessions/s-one/incoming/0123456789abcdef", "half");
        assert_int_equal(
                workspace_put_begin(&workspace, "a", &conditions, &limits, NULL, &put, &world.problem), 0);
        assert_int_equal(workspace_recover(&world.workspaces, &world.problem), 0);
        assert_int_equal(count_names(&world, "w/sessions"), 1);
        assert_int_equal(count_names(&world, "w/sessions/s-one/incoming"), 1);
        assert_int_equal(workspace_put_write(&put, "text", 4, &world.problem), 0);
        assert_int_equal(workspace_put_finish(&put, &file, NULL, NULL, &world.problem), 0);
        assert_string_equal(world_get(&world, &workspace, "a"), "text");
        assert_int_equal(count_names(&world, "w/sessions/s-one/incoming"), 0);
}

/* A process is killed at some point of its work, again and again: whatever is there is whole. */
static void test_killed(void **state) {
        struct world world = world_of(state);
        struct workspace workspace WORKSPACE_CLEANUP = world_open(&world, "s-one");

        for (int i = 0; i < 20; i++) {
                pid_t child = fork();
                int status;

                if (child == 0) {
                        struct workspace own = world_open(&world, "s-one");
                        struct workspace_row row = { .id = "s-two", .owner = OWNER, .environment = "e" };
                        struct workspace_file file;

                        for (;;) {
                                (void)!workspace_create(&world.workspaces, &row, &world.problem);
                                (void)!world_try_put(&world, &own, "d/file", "0123456789", NULL, NULL, &file);
                                (void)!workspace_remove(&world.workspaces, OWNER, "s-two", &world.problem);
                        }
                }
                assert_true(child > 0);
                usleep((useconds_t)(1000 * (i % 7) + 500));
                kill(child, SIGKILL);
                assert_int_equal(waitpid(child, &status, 0), child);
                {
                        struct workspace two WORKSPACE_CLEANUP = WORKSPACE_INIT;
                        const char *text = world_get(&world, &workspace, "d/file");

                        if (workspace_open(&world.workspaces, OWNER, "s-two", &two, &world.problem) < 0)
                                assert_int_equal(world.problem.code, PROBLEM_NOT_FOUND);
                        if (text)
                                assert_string_equal(text, "0123456789");
                }
        }
        assert_int_equal(workspace_recover(&world.workspaces, &world.problem), 0);
        assert_int_equal(count_names(&world, "w/sessions/s-one/incoming"), 0);
        assert_in_range(count_names(&world, "w/sessions"), 1, 2);
}

static void test_usage(void **state) {
        struct world world = world_of(state);
        struct workspace workspace WORKSPACE_CLEANUP = world_open(&world, "s-one");
        struct workspace_usage usage;
        const struct conditions none = { 0 };

        for (int counted_anew = 0; counted_anew < 2; counted_anew++) {
                world_put(&world, &workspace, "a/b/c", "12345");
                world_put(&world, &workspace, "a/b/d", "123");
                world_put(&world, &workspace, "a/b/d", "1234567");
                if (counted_anew)
                        unlink(place_path(world.place, "w/sessions/s-one/usage"));
                assert_int_equal(workspace_measure(&workspace, NULL, &usage, &world.problem), 0);
                assert_int_equal(usage.files, 4);
                assert_int_equal(usage.bytes, 12);
                assert_int_equal(workspace_file_delete(&workspace, "a/b/c", &none, NULL, &world.problem), 0);
                assert_int_equal(workspace_file_delete(&workspace, "a/b/d", &none, NULL, &world.problem), 0);
                assert_int_equal(workspace_measure(&workspace, NULL, &usage, &world.problem), 0);
                assert_int_equal(usage.files, 0);
                assert_int_equal(usage.bytes, 0);
        }
        /* A number of another boot, or none at all, is not believed. */
        world_put(&world, &workspace, "a", "12345");
        place_write(world.place, "w/sessions/s-one/usage", "0123 7 7\n");
        assert_int_equal(workspace_measure(&workspace, NULL, &usage, &world.problem), 0);
        assert_int_equal(usage.bytes, 5);
}

/*
 * Requests, with files and alone; after a restart those that no session waits for go, and all of it
 * where no session lives.
 */
static void test_requests_that_wait(void **state) {
        struct world world = world_of(state);
        struct workspace workspace WORKSPACE_CLEANUP = world_open(&world, "s-one");
        char alone[WORKSPACE_STAGE_NAME] = "", other[WORKSPACE_STAGE_NAME] = "",
             wrong[WORKSPACE_STAGE_NAME] = "..";
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        const char *kept[] = { alone };

        assert_int_equal(workspace_stage_request(&workspace, "a\0b", 3, alone, &world.problem), 0);
        assert_int_equal(workspace_stage_request(&workspace, "other", 5, other, &world.problem), 0);
        assert_int_equal(workspace_stage_request(&workspace, "again", 5, alone, &world.problem), -1);
        assert_int_equal(workspace_stage_request(&workspace, "x", 1, wrong, &world.problem), -1);
        workspace_stage_keep(&workspace, kept, 1);
        assert_int_equal(workspace_stage_read_request(&workspace, other, 100, &text), -1);
        assert_int_equal(workspace_stage_read_request(&workspace, alone, 2, &text), -1);
        strbuf_clear(&text);
        assert_int_equal(workspace_stage_read_request(&workspace, alone, 100, &text), 0);
        assert_int_equal(text.length, 3);
        assert_memory_equal(text.data, "a\0b", 3);
        assert_int_equal(workspace_set_life(&workspace, INT64_C(4102444800000), &world.problem), 0);
        assert_int_equal(workspace_recover(&world.workspaces, &world.problem), 0);
        strbuf_clear(&text);
        assert_int_equal(workspace_stage_read_request(&workspace, alone, 100, &text), 0);
        assert_int_equal(workspace_set_life(&workspace, 0, &world.problem), 0);
        assert_int_equal(workspace_recover(&world.workspaces, &world.problem), 0);
        assert_int_equal(workspace_stage_read_request(&workspace, alone, 100, &text), -1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(test_not_yours_is_not_there),
                TEST(test_no_descriptor_is_not_not_there),
                TEST(test_create),
                TEST(test_list),
                TEST(test_remove),
                TEST(test_recover),
                TEST(test_requests_that_wait),
                TEST(test_killed),
                TEST(test_usage),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
