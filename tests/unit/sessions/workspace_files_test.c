/* SPDX-License-Identifier: Apache-2.0 */
#include "support.h"

#include "sessions/workspace_local.h"
#include "sessions/workspace_tree.h"

#include <pthread.h>
#include <sys/sysmacros.h>

static const char *const bad_paths[] = { "",     "/",      "/etc/passwd",  "a/",      "a//b", ".",
                                         "..",   "../a",   "a/../b",       "a/./b",   "a/..", "./a",
                                         "\xff", "a/\xc3", "\xed\xa0\x80", "a/b/\x80" };

static void test_paths(void **state) {
        struct world world = world_of(state);
        struct workspace workspace WORKSPACE_CLEANUP = world_open(&world, "s-one");
        char path[WORKSPACE_PATH_MAX + 2], deep[2 * WORKSPACE_DEPTH_MAX + 8] = "f";
        const struct conditions none = { 0 };
        struct workspace_file file;
        int descriptor;

        for (size_t i = 0; i < sizeof(bad_paths) / sizeof(*bad_paths); i++) {
                assert_int_equal(world_try_put(&world, &workspace, bad_paths[i], "x", NULL, NULL, &file), -1);
                assert_int_equal(world.problem.code, PROBLEM_INVALID);
                assert_int_equal(
                        workspace_file_open(&workspace, bad_paths[i], &descriptor, &file, &world.problem),
                        -1);
                assert_int_equal(world.problem.code, PROBLEM_INVALID);
                assert_int_equal(workspace_file_delete(&workspace, bad_paths[i], &none, NULL, &world.problem),
                                 -1);
                assert_int_equal(world.problem.code, PROBLEM_INVALID);
        }
        memset(path, 'a', sizeof(path));
        for (size_t i = 100; i < sizeof(path); i += 100)
                path[i] = '/';
        path[WORKSPACE_PATH_MAX + 1] = '\0';
        assert_int_equal(world_try_put(&world, &workspace, path, "x", NULL, NULL, &file), -1);
        path[WORKSPACE_PATH_MAX] = '\0';
        world_put(&world, &workspace, path, "long");
        assert_string_equal(world_get(&world, &workspace, path), "long");
        for (int i = 0; i < WORKSPACE_DEPTH_MAX; i++)
                strcpy(deep + 2 * (size_t)i, "d/");
        strcat(deep, "f");
        world_put(&world, &workspace, deep, "deep");
        assert_string_equal(world_get(&world, &workspace, deep), "deep");
        strcat(deep, "/g");
        assert_int_equal(world_try_put(&world, &workspace, deep, "x", NULL, NULL, &file), -1);
        world_put(&world, &workspace, "a file\n\x1b[2J \xc3\xa9 \"", "odd");
        assert_string_equal(world_get(&world, &workspace, "a file\n\x1b[2J \xc3\xa9 \""), "odd");
}

/*
 * Whatever stands there, put by a user who has the disk: no link is followed, no device opened, no
 * FIFO waited for.
 */
static void test_hostile(void **state) {
        struct world world = world_of(state);
        struct workspace workspace WORKSPACE_CLEANUP = world_open(&world, "s-one");
        static const char *const not_files[] = { "link",  "folder-link/secret",
                                                 "fifo",  "socket-less/../x",
                                                 "empty", "device",
                                                 "up/x",  "absolute" };
        struct workspace_file file;
        int descriptor;

        place_write(world.place, "outside/secret", "secret");
        assert_int_equal(symlink("../../../../outside/secret", world_path(&world, "s-one", "link")), 0);
        assert_int_equal(symlink("/etc/passwd", world_path(&world, "s-one", "absolute")), 0);
        assert_int_equal(symlink("../../../../outside", world_path(&world, "s-one", "folder-link")), 0);
        assert_int_equal(symlink("..", world_path(&world, "s-one", "up")), 0);
        assert_int_equal(mkfifo(world_path(&world, "s-one", "fifo"), 0600), 0);
        assert_int_equal(mkdir(world_path(&world, "s-one", "empty"), 0700), 0);
        if (geteuid() == 0)
                assert_int_equal(mknod(world_path(&world, "s-one", "device"), S_IFCHR | 0600, makedev(1, 3)),
                                 0);
        for (size_t i = 0; i < sizeof(not_files) / sizeof(*not_files); i++) {
                assert_int_equal(
                        workspace_file_open(&workspace, not_files[i], &descriptor, &file, &world.problem),
                        -1);
                assert_true(world.problem.code == PROBLEM_NOT_FOUND || world.problem.code == PROBLEM_INVALID);
        }
        world_put(&world, &workspace, "real", "x");
        place_write(world.place, "w/sessions/s-one/workspace/no-utf8-\xff", "x");
        assert_string_equal(world_list(&world, &workspace, NULL, NULL, 100, NULL), "real,");
        assert_string_equal(world_list(&world, &workspace, "folder-link/", NULL, 100, NULL), "");
        /* Put through a link: refused in a folder's place, replaced in a file's. */
        assert_int_equal(world_try_put(&world, &workspace, "folder-link/new", "x", NULL, NULL, &file), -1);
        assert_int_equal(world.problem.code, PROBLEM_CONFLICT);
        world_put(&world, &workspace, "link", "mine");
        assert_string_equal(world_get(&world, &workspace, "link"), "mine");
        world_put(&world, &workspace, "fifo", "file");
        {
                struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
                struct error err;

                assert_int_equal(file_read(place_path(world.place, "outside/secret"), 100, &text, &err), 0);
                assert_string_equal(strbuf_text(&text), "secret");
        }
        /* Names of the host's own beside the files are no paths of theirs. */
        assert_int_equal(workspace_file_open(&workspace, "session.json", &descriptor, &file, &world.problem),
                         -1);
}

static void test_conflicts(void **state) {
        struct world world = world_of(state);
        struct workspace workspace WORKSPACE_CLEANUP = world_open(&world, "s-one");
        struct workspace_file file;
        const struct conditions none = { 0 };

        world_put(&world, &workspace, "a/b", "x");
        assert_int_equal(world_try_put(&world, &workspace, "a", "x", NULL, NULL, &file), -1);
        assert_int_equal(world.problem.code, PROBLEM_CONFLICT);
        assert_int_equal(world_try_put(&world, &workspace, "a/b/c", "x", NULL, NULL, &file), -1);
        assert_int_equal(world.problem.code, PROBLEM_CONFLICT);
        assert_int_equal(workspace_file_delete(&workspace, "a", &none, NULL, &world.problem), -1);
        assert_int_equal(world.problem.code, PROBLEM_NOT_FOUND);
        assert_int_equal(workspace_file_delete(&workspace, "a/b", &none, NULL, &world.problem), 0);
        /* The folder went with its last file: its name is free. */
        world_put(&world, &workspace, "a", "x");
}

static void test_conditions(void **state) {
        struct world world = world_of(state);
        struct workspace workspace WORKSPACE_CLEANUP = world_open(&world, "s-one");
        const struct conditions absent = { .if_none_match = "*" }, present = { .if_match = "*" };
        struct conditions exactly = { 0 };
        struct workspace_file first, second, file;

        assert_int_equal(world_try_put(&world, &workspace, "a", "1", &present, NULL, &first), -1);
        assert_int_equal(world.problem.code, PROBLEM_CHANGED);
        assert_int_equal(world_try_put(&world, &workspace, "a", "1", &absent, NULL, &first), 0);
        assert_int_equal(world_try_put(&world, &workspace, "a", "1", &absent, NULL, &file), -1);
        assert_int_equal(world.problem.code, PROBLEM_CHANGED);
        exactly.if_match = first.etag;
        assert_int_equal(world_try_put(&world, &workspace, "a", "2", &exactly, NULL, &second), 0);
        assert_string_not_equal(first.etag, second.etag);
        assert_int_equal(world_try_put(&world, &workspace, "a", "3", &exactly, NULL, &file), -1);
        assert_int_equal(workspace_file_delete(&workspace, "a", &exactly, NULL, &world.problem), -1);
        assert_int_equal(world.problem.code, PROBLEM_CHANGED);
        assert_string_equal(world_get(&world, &workspace, "a"), "2");
        exactly.if_match = second.etag;
        assert_int_equal(workspace_file_delete(&workspace, "a", &exactly, NULL, &world.problem), 0);
        assert_null(world_get(&world, &workspace, "a"));
        exactly.if_match = "no tag";
        assert_int_equal(world_try_put(&world, &workspace, "a", "3", &exactly, NULL, &file), -1);
        assert_int_equal(world.problem.code, PROBLEM_INVALID);
}

/* Versions of one size, as fast as they come: no two have one tag, though inodes are used again. */
static void test_tags_are_strong(void **state) {
        struct world world = world_of(state);
        struct workspace workspace WORKSPACE_CLEANUP = world_open(&world, "s-one");
        enum { VERSIONS = 200 };
        static char tags[VERSIONS][ETAG_SIZE];

        for (int i = 0; i < VERSIONS; i++) {
                memcpy(tags[i], world_put(&world, &workspace, "a", i % 2 ? "x" : "y").etag, ETAG_SIZE);
                for (int j = 0; j < i; j++)
                        assert_string_not_equal(tags[i], tags[j]);
        }
}

struct race {
        struct world *world;
        const char *etag;
        int won;
};

static void *race_put(void *argument) {
        struct race *race = argument;
        struct world world = *race->world;
        struct workspace workspace WORKSPACE_CLEANUP = WORKSPACE_INIT;
        const struct conditions exactly = { .if_match = race->etag };
        struct workspace_file file;

        if (workspace_open(&world.workspaces, OWNER, "s-one", &workspace, &world.problem) == 0)
                race->won = world_try_put(&world, &workspace, "a", "mine", &exactly, NULL, &file) == 0;
        return NULL;
}

/* Of many who replace the same version one does. */
static void test_race(void **state) {
        struct world world = world_of(state);
        struct workspace workspace WORKSPACE_CLEANUP = world_open(&world, "s-one");
        enum { RACERS = 8 };

        for (int round = 0; round < 5; round++) {
                struct workspace_file file = world_put(&world, &workspace, "a", "first");
                struct race races[RACERS];
                pthread_t threads[RACERS];
                int won = 0;

                for (int i = 0; i < RACERS; i++) {
                        races[i] = (struct race){ &world, file.etag, 0 };
                        assert_int_equal(pthread_create(&threads[i], NULL, race_put, &races[i]), 0);
                }
                for (int i = 0; i < RACERS; i++) {
                        pthread_join(threads[i], NULL);
                        won += races[i].won;
                }
                assert_int_equal(won, 1);
        }
}

static void test_limits(void **state) {
        struct world world = world_of(state);
        struct workspace workspace WORKSPACE_CLEANUP = world_open(&world, "s-one");
        const struct workspace_limits bytes = { .bytes_max = 10 }, files = { .files_max = 3 },
                                      disk = { .free_min = UINT64_MAX / 2 };
        struct workspace_file file;

        assert_int_equal(world_try_put(&world, &workspace, "a", "12345678901", NULL, &bytes, &file), -1);
        assert_int_equal(world.problem.code, PROBLEM_WORKSPACE_FULL);
        assert_int_equal(world_try_put(&world, &workspace, "a", "123456", NULL, &bytes, &file), 0);
        assert_int_equal(world_try_put(&world, &workspace, "b", "12345", NULL, &bytes, &file), -1);
        assert_int_equal(world.problem.code, PROBLEM_WORKSPACE_FULL);
        /* A file that is replaced is not counted. */
        assert_int_equal(world_try_put(&world, &workspace, "a", "1234567890", NULL, &bytes, &file), 0);
        assert_int_equal(world_try_put(&world, &workspace, "c/d", "", NULL, &files, &file), 0);
        assert_int_equal(world_try_put(&world, &workspace, "e", "", NULL, &files, &file), -1);
        assert_int_equal(world.problem.code, PROBLEM_WORKSPACE_FULL);
        assert_int_equal(world_try_put(&world, &workspace, "a", "", NULL, &disk, &file), -1);
        assert_int_equal(world.problem.code, PROBLEM_WORKSPACE_FULL);
        assert_string_equal(world_list(&world, &workspace, NULL, NULL, 100, NULL), "a,c/d,");
}

/* What a place gives for an agent's workspace: a folder, wherever that is. */
static int open_agents(void *context, const char *owner, const char *agent, int *ret_folder,
                       struct problem *problem) {
        (void)owner;
        (void)agent;
        *ret_folder = open(context, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return *ret_folder < 0 ? workspace_not_found(problem) : 0;
}

/* A plain folder (--accept-degraded) is on the disk of all workspaces, a disk image is not. */
static void test_agents_room(void **state) {
        struct world world = world_of(state);
        const struct workspace_row row = { .owner = OWNER, .environment = "data", .agent = "a" };
        const struct workspace_limits disk = { .free_min = UINT64_MAX / 2 };
        char other[] = "/dev/shm/berth-test-XXXXXX";
        const struct {
                char *folder;
                int result;
        } cases[] = { { (char *)place_path(world.place, "w/plain"), -1 }, { other, 0 } };
        struct stat here, there;

        assert_int_equal(mkdir(cases[0].folder, 0700), 0);
        assert_non_null(mkdtemp(other));
        assert_int_equal(stat(other, &there) | stat(cases[0].folder, &here), 0);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                const struct workspace_shared shared = { .open = open_agents, .context = cases[i].folder };
                struct workspace workspace WORKSPACE_CLEANUP = WORKSPACE_INIT;
                int folder DESCRIPTOR_CLEANUP = open(cases[i].folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                struct workspace_file file;

                assert_int_equal(mkdirat(folder, "workspace", 0700) | mkdirat(folder, "incoming", 0700), 0);
                assert_int_equal(workspace_local_name_shared(folder, "lab", &row), 0);
                world.workspaces.shared = &shared;
                assert_int_equal(
                        workspace_open(&world.workspaces, OWNER, "agent:a", &workspace, &world.problem), 0);
                assert_int_equal(world_try_put(&world, &workspace, "a", "x", NULL, &disk, &file),
                                 here.st_dev == there.st_dev ? -1 : cases[i].result);
                assert_int_equal(workspace_tree_remove(folder), 0);
        }
        rmdir(other);
}

static void test_list(void **state) {
        struct world world = world_of(state);
        struct workspace workspace WORKSPACE_CLEANUP = world_open(&world, "s-one");
        static const char *const paths[] = { "a",   "a.txt", "a/1",       "a/2", "a/b/c",    "a-b",
                                             "b/x", "b0",    "d/e/f/g/h", "z",   "\xc3\xa9", "a/b.c" };
        struct strbuf pages STRBUF_CLEANUP = STRBUF_INIT;
        const char *whole, *after = NULL;
        bool more = true;

        for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
                if (strcmp(paths[i], "a") != 0)
                        world_put(&world, &workspace, paths[i], "x");
        }
        /* Folders without a file, more of them than a page has room for, come before what is looked for. */
        for (int i = 0; i < 50; i++)
                assert_int_equal(
                        mkdir(world_path(&world, "s-one", arena_printf(world.place->arena, "c%02d", i)),
                              0700),
                        0);
        whole = world_list(&world, &workspace, NULL, NULL, 100, &more);
        assert_false(more);
        assert_string_equal(whole, "a-b,a.txt,a/1,a/2,a/b.c,a/b/c,b/x,b0,d/e/f/g/h,z,\xc3\xa9,");
        /* Page by page, whatever their size, it is the same. */
        for (size_t limit = 1; limit < 13; limit++) {
                strbuf_clear(&pages);
                for (after = NULL, more = true; more;) {
                        const struct workspace_page page = { .after = after, .limit = limit };
                        struct workspace_file *files;
                        size_t count;

                        assert_int_equal(workspace_files_list(&workspace, &page, NULL, world.place->arena,
                                                              &files, &count, &more, &world.problem),
                                         0);
                        assert_true(count == limit || !more);
                        for (size_t i = 0; i < count; i++)
                                strbuf_printf(&pages, "%s,", files[i].path);
                        after = count ? files[count - 1].path : NULL;
                }
                assert_string_equal(strbuf_text(&pages), whole);
        }
        assert_string_equal(world_list(&world, &workspace, "a/", NULL, 100, NULL), "a/1,a/2,a/b.c,a/b/c,");
        assert_string_equal(world_list(&world, &workspace, "a/b", NULL, 100, NULL), "a/b.c,a/b/c,");
        assert_string_equal(world_list(&world, &workspace, "a", NULL, 2, &more), "a-b,a.txt,");
        assert_true(more);
        assert_string_equal(world_list(&world, &workspace, "a", "a.txt", 100, NULL), "a/1,a/2,a/b.c,a/b/c,");
        assert_string_equal(world_list(&world, &workspace, "a/", "a/b/", 100, NULL), "a/b/c,");
        assert_string_equal(world_list(&world, &workspace, "nothing/", NULL, 100, NULL), "");
        assert_string_equal(world_list(&world, &workspace, "a/1/", NULL, 100, NULL), "");
        assert_string_equal(world_list(&world, &workspace, NULL, "zz", 100, NULL), "\xc3\xa9,");
}

/* A prefix that leads out, or an invalid cursor, reads nothing else. */
static void test_list_refuses(void **state) {
        struct world world = world_of(state);
        struct workspace workspace WORKSPACE_CLEANUP = world_open(&world, "s-one");
        static const char *const prefixes[] = { "../", "../../", "/", "/etc/", "a/../../", "\xff/" };
        struct workspace_file *files;
        size_t count;
        bool more;

        for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++) {
                const struct workspace_page page = { .prefix = prefixes[i], .limit = 10 };

                assert_int_equal(workspace_files_list(&workspace, &page, NULL, world.place->arena, &files,
                                                      &count, &more, &world.problem),
                                 -1);
                assert_int_equal(world.problem.code, PROBLEM_INVALID);
        }
        world_put(&world, &workspace, "a", "x");
        assert_string_equal(world_list(&world, &workspace, "..", NULL, 10, NULL), "");
        assert_string_equal(world_list(&world, &workspace, NULL, "../../\xff", 10, NULL), "a,");
}

/* A page of a folder of many takes memory for the page. */
static void test_many(void **state) {
        struct world world = world_of(state);
        struct workspace workspace WORKSPACE_CLEANUP = world_open(&world, "s-one");
        struct arena *arena ARENA_CLEANUP = arena_new();
        const struct workspace_page page = { .after = "f004999", .limit = 10 };
        struct workspace_file *files;
        struct interrupt interrupt;
        struct error err;
        size_t count;
        bool more;

        for (int i = 0; i < 20000; i++) {
                int file = open(world_path(&world, "s-one", arena_printf(world.place->arena, "f%06d", i)),
                                O_WRONLY | O_CREAT, 0600);

                assert_true(file >= 0);
                close(file);
        }
        assert_int_equal(
                workspace_files_list(&workspace, &page, NULL, arena, &files, &count, &more, &world.problem),
                0);
        assert_int_equal(count, 10);
        assert_true(more);
        assert_string_equal(files[9].path, "f005009");
        assert_in_range(arena_size(arena), 0, 256 << 10);
        assert_int_equal(interrupt_init(&interrupt, &err), 0);
        interrupt_raise(&interrupt);
        assert_int_equal(workspace_files_list(&workspace, &page, &interrupt, arena, &files, &count, &more,
                                              &world.problem),
                         -1);
        assert_int_equal(world.problem.code, PROBLEM_STOPPING);
        interrupt_dispose(&interrupt);
}

/*
 * A file that is read stays what it was, whatever is put meanwhile; a put that is given up leaves
 * nothing.
 */
static void test_versions(void **state) {
        struct world world = world_of(state);
        struct workspace workspace WORKSPACE_CLEANUP = world_open(&world, "s-one");
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        int descriptor DESCRIPTOR_CLEANUP = -1;
        struct workspace_file file;
        char sha256[SHA256_HEX_SIZE];
        bool made;

        world_put(&world, &workspace, "a", "first");
        assert_int_equal(workspace_file_open(&workspace, "a", &descriptor, &file, &world.problem), 0);
        world_put(&world, &workspace, "a", "second and longer");
        assert_int_equal(descriptor_read(descriptor, 100, &text), 0);
        assert_string_equal(strbuf_text(&text), "first");
        {
                struct workspace_put put WORKSPACE_PUT_CLEANUP = WORKSPACE_PUT_INIT;

                assert_int_equal(workspace_put_begin(&workspace, "b/c", &(struct conditions){ 0 },
                                                     &(struct workspace_limits){ 0 }, NULL, &put,
                                                     &world.problem),
                                 0);
                assert_int_equal(workspace_put_write(&put, "abc", 3, &world.problem), 0);
        }
        assert_string_equal(world_list(&world, &workspace, NULL, NULL, 10, NULL), "a,");
        {
                struct workspace_put put WORKSPACE_PUT_CLEANUP = WORKSPACE_PUT_INIT;

                assert_int_equal(workspace_put_begin(&workspace, "b/c", &(struct conditions){ 0 },
                                                     &(struct workspace_limits){ 0 }, NULL, &put,
                                                     &world.problem),
                                 0);
                assert_int_equal(workspace_put_write(&put, "a", 1, &world.problem), 0);
                assert_int_equal(workspace_put_write(&put, "bc", 2, &world.problem), 0);
                assert_int_equal(workspace_put_finish(&put, &file, sha256, &made, &world.problem), 0);
                assert_true(made);
                assert_string_equal(sha256,
                                    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(test_paths),
                TEST(test_hostile),
                TEST(test_conflicts),
                TEST(test_conditions),
                TEST(test_tags_are_strong),
                TEST(test_race),
                TEST(test_limits),
                TEST(test_agents_room),
                TEST(test_list),
                TEST(test_list_refuses),
                TEST(test_many),
                TEST(test_versions),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
