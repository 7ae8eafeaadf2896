/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every body of sessions/workspace_body.h must do, as tests. Included by a test of a body, which says where workspaces are: an empty
 * place for each of them.
 */
#ifndef BERTH_TESTS_UNIT_SESSIONS_WORKSPACE_CONTRACT_H
#define BERTH_TESTS_UNIT_SESSIONS_WORKSPACE_CONTRACT_H

#include "sessions/support.h"

#include "sessions/workspace_archive.h"
#include "sessions/workspace_copy.h"
#include "sessions/workspace_folders.h"
#include "sessions/workspace_owner.h"
#include "sessions/workspace_stage.h"

#include <pthread.h>

struct world contract_world(void **state);

static void assert_problem(int result, const struct world *world, enum problem_code code) {
        assert_int_equal(result, -1);
        assert_int_equal(world->problem.code, code);
}

static void contract_ownership(void **state) {
        struct world world = contract_world(state);
        struct workspace workspace WORKSPACE_CLEANUP = world_open(&world, "s-one");
        struct workspace other = WORKSPACE_INIT;
        const struct workspace_row again = { .id = "s-one", .owner = "realm/bob", .environment = "data" };
        struct workspaces elsewhere = world.workspaces;
        struct workspace_row row;
        char never[sizeof(world.problem.detail)];

        assert_string_equal(workspace.id, "s-one");
        assert_problem(workspace_create(&world.workspaces, &again, &world.problem), &world, PROBLEM_CONFLICT);
        assert_problem(workspace_open(&world.workspaces, OWNER, "s-never", &other, &world.problem), &world,
                       PROBLEM_NOT_FOUND);
        memcpy(never, world.problem.detail, sizeof(never));
        assert_problem(workspace_open(&world.workspaces, "realm/bob", "s-one", &other, &world.problem),
                       &world, PROBLEM_NOT_FOUND);
        assert_string_equal(world.problem.detail, never);
        assert_problem(workspace_open(&world.workspaces, OWNER, "../s-one", &other, &world.problem), &world,
                       PROBLEM_NOT_FOUND);
        assert_string_equal(world.problem.detail, never);
        assert_problem(workspace_open(&world.workspaces, NULL, "s-one", &other, &world.problem), &world,
                       PROBLEM_NOT_FOUND);
        assert_problem(workspace_remove(&world.workspaces, "realm/bob", "s-one", &world.problem), &world,
                       PROBLEM_NOT_FOUND);
        assert_string_equal(world.problem.detail, never);
        if (!elsewhere.body) {
                elsewhere.stack = "other";
                assert_problem(workspace_open(&elsewhere, OWNER, "s-one", &other, &world.problem), &world,
                               PROBLEM_NOT_FOUND);
        }
        assert_int_equal(workspace_open_any(&world.workspaces, "s-one", &other, &world.problem), 0);
        assert_int_equal(workspace_describe(&other, world.place->arena, &row, &world.problem), 0);
        workspace_close(&other);
        assert_string_equal(row.owner, OWNER);
        assert_string_equal(row.environment, "data");
        assert_int_equal(row.created_ms, 7);
        assert_int_equal(row.lives_until_ms, 9);
        assert_null(row.agent);
}

static const char *listed_ids(struct world *world, const char *owner, const char *after, size_t limit,
                              bool *ret_more) {
        struct workspace_row *rows;
        const char *text = "";
        size_t count;

        assert_int_equal(workspace_list(&world->workspaces, owner, after, limit, world->place->arena, &rows,
                                        &count, ret_more, &world->problem),
                         0);
        for (size_t i = 0; i < count; i++)
                text = arena_printf(world->place->arena, "%s%s:%lld,", text, rows[i].id,
                                    (long long)rows[i].lives_until_ms);
        return text;
}

static void contract_lists(void **state) {
        static const char *const ids[] = { "s-aa", "s-bb", "s-cc" };
        struct world world = contract_world(state);
        const struct workspace_row bobs = { .id = "s-ab", .owner = "realm/bob", .environment = "data" };
        struct workspace workspace WORKSPACE_CLEANUP = WORKSPACE_INIT;
        bool more;

        assert_string_equal(listed_ids(&world, OWNER, "", 10, &more), "");
        for (size_t i = 0; i < 3; i++) {
                workspace_close(&workspace);
                workspace = world_open(&world, ids[i]);
        }
        assert_int_equal(workspace_create(&world.workspaces, &bobs, &world.problem), 0);
        assert_string_equal(listed_ids(&world, OWNER, "", 10, &more), "s-aa:9,s-bb:9,s-cc:9,");
        assert_false(more);
        assert_string_equal(listed_ids(&world, OWNER, "", 2, &more), "s-aa:9,s-bb:9,");
        assert_true(more);
        assert_string_equal(listed_ids(&world, OWNER, "s-aa", 1, &more), "s-bb:9,");
        assert_true(more);
        assert_int_equal(workspace_set_life(&workspace, 12, &world.problem), 0);
        world_put(&world, &workspace, "a", "x");
        assert_string_equal(listed_ids(&world, OWNER, "s-bb", 2, &more), "s-cc:12,");
        assert_false(more);
        assert_string_equal(listed_ids(&world, NULL, "", 3, &more), "s-aa:9,s-ab:0,s-bb:9,");
        assert_true(more);
        assert_string_equal(listed_ids(&world, NULL, "s-bb", 3, &more), "s-cc:12,");
        assert_int_equal(workspace_remove(&world.workspaces, OWNER, "s-bb", &world.problem), 0);
        assert_string_equal(listed_ids(&world, OWNER, "", 10, &more), "s-aa:9,s-cc:12,");
        assert_problem(workspace_remove(&world.workspaces, OWNER, "s-bb", &world.problem), &world,
                       PROBLEM_NOT_FOUND);
        assert_int_equal(workspace_recover(&world.workspaces, &world.problem), 0);
        assert_string_equal(world_get(&world, &workspace, "a"), "x");
}

/* Checks what the file has of "0123456789" from `from` on. */
static void check_part(struct world *world, struct workspace *workspace, uint64_t from, uint64_t length,
                       const char *expected) {
        int descriptor DESCRIPTOR_CLEANUP = -1;
        struct workspace_file file;
        char bytes[16] = "";
        uint64_t at;

        assert_int_equal(workspace_file_look(workspace, "a", &descriptor, &file, &world->problem), 0);
        assert_int_equal(file.bytes, 10);
        assert_int_equal(
                workspace_file_fetch(workspace, "a", &file, from, length, &descriptor, &at, &world->problem),
                0);
        assert_int_equal(pread(descriptor, bytes, length, (off_t)at), length);
        assert_string_equal(bytes, expected);
}

static void contract_files(void **state) {
        struct world world = contract_world(state);
        struct workspace workspace WORKSPACE_CLEANUP = world_open(&world, "s-one");
        struct workspace second WORKSPACE_CLEANUP = world_open(&world, "s-one");
        struct workspace_file one, two, seen;
        struct conditions conditions = { 0 };
        struct workspace_usage usage;
        int descriptor DESCRIPTOR_CLEANUP = -1;

        one = world_put(&world, &workspace, "a", "0123456789");
        assert_string_equal(world_get(&world, &second, "a"), "0123456789");
        check_part(&world, &second, 0, 10, "0123456789");
        check_part(&world, &second, 3, 4, "3456");
        assert_int_equal(workspace_file_open(&second, "a", &descriptor, &seen, &world.problem), 0);
        assert_string_equal(seen.etag, one.etag);
        assert_true(seen.written_ms > 1000);
        two = world_put(&world, &workspace, "a", "other");
        assert_string_not_equal(two.etag, one.etag);
        conditions.if_match = one.etag;
        assert_problem(world_try_put(&world, &second, "a", "x", &conditions, NULL, &seen), &world,
                       PROBLEM_CHANGED);
        assert_problem(workspace_file_delete(&second, "a", &conditions, NULL, &world.problem), &world,
                       PROBLEM_CHANGED);
        conditions.if_match = two.etag;
        assert_int_equal(world_try_put(&world, &second, "a", "third", &conditions, NULL, &seen), 0);
        conditions = (struct conditions){ .if_none_match = "*" };
        assert_problem(world_try_put(&world, &workspace, "a", "x", &conditions, NULL, &seen), &world,
                       PROBLEM_CHANGED);
        assert_int_equal(world_try_put(&world, &workspace, "d/e \xc3\xa9+&/f", "", &conditions, NULL, &seen),
                         0);
        assert_string_equal(world_get(&world, &second, "d/e \xc3\xa9+&/f"), "");
        conditions = (struct conditions){ .if_match = "no tag" };
        assert_problem(world_try_put(&world, &workspace, "a", "x", &conditions, NULL, &seen), &world,
                       PROBLEM_INVALID);
        conditions = (struct conditions){ .if_match = "*" };
        assert_problem(world_try_put(&world, &workspace, "new", "x", &conditions, NULL, &seen), &world,
                       PROBLEM_CHANGED);
        assert_problem(world_try_put(&world, &workspace, "a/b", "x", NULL, NULL, &seen), &world,
                       PROBLEM_CONFLICT);
        assert_problem(world_try_put(&world, &workspace, "d", "x", NULL, NULL, &seen), &world,
                       PROBLEM_CONFLICT);
        workspace_close(&second);
        second = world_open(&world, "s-one");
        assert_int_equal(workspace_measure(&second, NULL, &usage, &world.problem), 0);
        assert_int_equal(usage.bytes, 5);
        conditions = (struct conditions){ 0 };
        assert_int_equal(workspace_file_delete(&second, "a", &conditions, NULL, &world.problem), 0);
        assert_null(world_get(&world, &workspace, "a"));
        assert_int_equal(world.problem.code, PROBLEM_NOT_FOUND);
        assert_problem(workspace_file_delete(&second, "a", &conditions, NULL, &world.problem), &world,
                       PROBLEM_NOT_FOUND);
        assert_problem(workspace_file_look(&second, "d", &descriptor, &seen, &world.problem), &world,
                       PROBLEM_NOT_FOUND);
}

static void contract_pages(void **state) {
        static const char *const paths[] = { "a", "b-c", "b/a", "b/b/c", "b0", "data/x", "data2" };
        struct world world = contract_world(state);
        struct workspace workspace WORKSPACE_CLEANUP = world_open(&world, "s-one");
        struct workspace_page page = { .limit = 3 };
        const char *seen = "";
        struct workspace_file *files;
        bool more = true;
        size_t count;

        for (size_t i = sizeof(paths) / sizeof(paths[0]); i > 0; i--)
                world_put(&world, &workspace, paths[i - 1], "x");
        while (more) {
                assert_int_equal(workspace_files_list(&workspace, &page, NULL, world.place->arena, &files,
                                                      &count, &more, &world.problem),
                                 0);
                for (size_t i = 0; i < count; i++)
                        seen = arena_printf(world.place->arena, "%s%s,", seen, files[i].path);
                page.after = files[count - 1].path;
        }
        assert_string_equal(seen, "a,b-c,b/a,b/b/c,b0,data/x,data2,");
        page = (struct workspace_page){ .prefix = "da", .limit = 9 };
        assert_int_equal(workspace_files_list(&workspace, &page, NULL, world.place->arena, &files, &count,
                                              &more, &world.problem),
                         0);
        assert_int_equal(count, 2);
        assert_int_equal(files[0].bytes, 1);
        page.prefix = "../x";
        assert_problem(workspace_files_list(&workspace, &page, NULL, world.place->arena, &files, &count,
                                            &more, &world.problem),
                       &world, PROBLEM_INVALID);
}

static void contract_limits(void **state) {
        struct world world = contract_world(state);
        struct workspace workspace WORKSPACE_CLEANUP = world_open(&world, "s-one");
        const struct workspace_bounds bounds = { .owner_max = 2 << 20 };
        struct workspace other WORKSPACE_CLEANUP = WORKSPACE_INIT;
        struct workspace_limits limits = { .bytes_max = 10 };
        struct workspace_file file;
        char *large = arena_alloc(world.place->arena, (2 << 20) + 1);

        assert_int_equal(world_try_put(&world, &workspace, "a", "12345", NULL, &limits, &file), 0);
        assert_problem(world_try_put(&world, &workspace, "b", "123456", NULL, &limits, &file), &world,
                       PROBLEM_WORKSPACE_FULL);
        assert_int_equal(world_try_put(&world, &workspace, "a", "1234567890", NULL, &limits, &file), 0);
        assert_problem(world_try_put(&world, &workspace, "a", "12345678901", NULL, &limits, &file), &world,
                       PROBLEM_WORKSPACE_FULL);
        assert_string_equal(world_get(&world, &workspace, "a"), "1234567890");
        limits = (struct workspace_limits){ .files_max = 1 };
        assert_problem(world_try_put(&world, &workspace, "b", "1", NULL, &limits, &file), &world,
                       PROBLEM_WORKSPACE_FULL);
        /* Another of the owner's takes what this one may not have any more. */
        memset(large, 'x', 2 << 20);
        large[2 << 20] = '\0';
        other = world_open(&world, "s-two");
        world_put(&world, &other, "large", large);
        limits = (struct workspace_limits){ 0 };
        assert_int_equal(
                workspace_bound(&world.workspaces, OWNER, "s-one", &bounds, NULL, &limits, &world.problem),
                0);
        assert_problem(world_try_put(&world, &workspace, "b", "12", NULL, &limits, &file), &world,
                       PROBLEM_WORKSPACE_FULL);
        assert_problem(workspace_check_room(&world.workspaces, OWNER, &bounds, &world.problem), &world,
                       PROBLEM_WORKSPACE_FULL);
        assert_int_equal(workspace_check_room(&world.workspaces, "realm/bob", &bounds, &world.problem), 0);
}

static const char *places(struct world *world, struct workspace *workspace, const char *path,
                          unsigned depth) {
        struct workspace_place *list;
        const char *text = "";
        size_t count;

        if (workspace_places_list(workspace, path, depth, NULL, world->place->arena, &list, &count,
                                  &world->problem) < 0)
                return NULL;
        for (size_t i = 0; i < count; i++)
                text = arena_printf(world->place->arena, "%s%s%s,", text, list[i].path,
                                    list[i].folder ? "/" : "");
        return text;
}

static void contract_folders(void **state) {
        struct world world = contract_world(state);
        struct workspace workspace WORKSPACE_CLEANUP = world_open(&world, "s-one");
        const struct workspace_limits none = { 0 };
        const struct conditions always = { 0 };
        struct workspace_place place = { 0 };

        assert_string_equal(places(&world, &workspace, "", 5), "");
        assert_int_equal(workspace_folder_create(&workspace, "a/b", &none, NULL, &world.problem), 0);
        assert_problem(workspace_folder_create(&workspace, "a", &none, NULL, &world.problem), &world,
                       PROBLEM_CONFLICT);
        world_put(&world, &workspace, "a/c/f", "12");
        world_put(&world, &workspace, "a/c/g", "34");
        world_put(&world, &workspace, "z", "5");
        assert_string_equal(places(&world, &workspace, "", 1), "a/,z,");
        assert_string_equal(places(&world, &workspace, "a", 1), "a/b/,a/c/,");
        assert_string_equal(places(&world, &workspace, "", 9), "a/,a/b/,a/c/,a/c/f,a/c/g,z,");
        assert_null(places(&world, &workspace, "z", 1));
        assert_int_equal(world.problem.code, PROBLEM_INVALID);
        assert_null(places(&world, &workspace, "y", 1));
        assert_int_equal(world.problem.code, PROBLEM_NOT_FOUND);
        assert_int_equal(workspace_place_look(&workspace, "a/c/f", &place, &world.problem), 0);
        assert_true(!place.folder && place.bytes == 2);
        assert_int_equal(workspace_place_look(&workspace, "", &place, &world.problem), 0);
        assert_true(place.folder);
        assert_problem(workspace_folder_create(&workspace, "z/y", &none, NULL, &world.problem), &world,
                       PROBLEM_CONFLICT);
        /* Moved: a folder with all that is in it, and a file over another. */
        assert_problem(workspace_place_move(&workspace, "a", "a/b/x", &none, NULL, &world.problem), &world,
                       PROBLEM_CONFLICT);
        assert_problem(workspace_place_move(&workspace, "a", "z", &none, NULL, &world.problem), &world,
                       PROBLEM_CONFLICT);
        assert_problem(workspace_place_move(&workspace, "y", "x", &none, NULL, &world.problem), &world,
                       PROBLEM_NOT_FOUND);
        assert_int_equal(workspace_place_move(&workspace, "a", "m/n", &none, NULL, &world.problem), 0);
        assert_string_equal(places(&world, &workspace, "m", 9), "m/n/,m/n/b/,m/n/c/,m/n/c/f,m/n/c/g,");
        assert_int_equal(workspace_place_move(&workspace, "z", "m/n/c/f", &none, NULL, &world.problem), 0);
        assert_string_equal(world_get(&world, &workspace, "m/n/c/f"), "5");
        assert_null(world_get(&world, &workspace, "z"));
        assert_null(world_get(&world, &workspace, "a/c/g"));
        assert_int_equal(workspace_place_remove(&workspace, "m/n/c", NULL, &world.problem), 0);
        assert_null(world_get(&world, &workspace, "m/n/c/g"));
        assert_problem(workspace_place_remove(&workspace, "m/n/c", NULL, &world.problem), &world,
                       PROBLEM_NOT_FOUND);
        world_put(&world, &workspace, "m/n/b/last", "x");
        assert_int_equal(workspace_file_delete(&workspace, "m/n/b/last", &always, NULL, &world.problem), 0);
        assert_null(places(&world, &workspace, "m/n/b", 1));
}

static int count_bytes(void *context, const void *bytes, size_t length) {
        (void)bytes;
        *(size_t *)context += length;
        return 0;
}

static void contract_copies(void **state) {
        static const char *const paths[] = { "d", "f" };
        struct world world = contract_world(state);
        struct workspace from WORKSPACE_CLEANUP = world_open(&world, "s-one");
        struct workspace to WORKSPACE_CLEANUP = world_open(&world, "s-two");
        struct workspace_copying copying = { .paths = paths, .count = 2, .to = "in" };
        struct workspace_changes changes;
        size_t bytes = 0;
        const struct workspace_archive archive = { .write = count_bytes, .context = &bytes };

        world_put(&world, &from, "d/e/one", "1");
        world_put(&world, &from, "d/two", "22");
        world_put(&world, &from, "f", "333");
        world_put(&world, &to, "in/f", "there");
        assert_int_equal(workspace_copy(&from, &to, &copying, world.place->arena, &changes, &world.problem),
                         0);
        assert_int_equal(changes.changed_count, 2);
        assert_int_equal(changes.conflict_count, 1);
        assert_string_equal(world_get(&world, &to, "in/d/e/one"), "1");
        assert_string_equal(world_get(&world, &to, "in/f"), "there");
        copying.replace = true;
        assert_int_equal(workspace_copy(&from, &to, &copying, world.place->arena, &changes, &world.problem),
                         0);
        assert_int_equal(changes.changed_count, 3);
        assert_string_equal(world_get(&world, &to, "in/f"), "333");
        assert_int_equal(workspace_archive_write(&to, &archive, &world.problem), 0);
        assert_true(bytes > 300);
}

static void stage(struct world *world, struct workspace_stage *staging, const char *path, const char *text) {
        assert_int_equal(workspace_stage_file(staging, path, &world->problem), 0);
        assert_int_equal(workspace_stage_write(staging, text, strlen(text), &world->problem), 0);
}

static void contract_stages(void **state) {
        struct world world = contract_world(state);
        struct workspace workspace WORKSPACE_CLEANUP = world_open(&world, "s-one");
        struct workspace_stage staging WORKSPACE_STAGE_CLEANUP = WORKSPACE_STAGE_INIT;
        const struct workspace_limits none = { 0 };
        char sha256[SHA256_HEX_SIZE], name[WORKSPACE_STAGE_NAME], alone[WORKSPACE_STAGE_NAME] = "";
        struct strbuf request STRBUF_CLEANUP = STRBUF_INIT;
        struct workspace_skipped *skipped;
        const char *kept = name;
        size_t count;

        world_put(&world, &workspace, "is/there", "old");
        assert_int_equal(workspace_stage_begin(&workspace, &none, &staging, &world.problem), 0);
        stage(&world, &staging, "is/there", "new");
        stage(&world, &staging, "empty", "");
        stage(&world, &staging, "is", "cannot be");
        stage(&world, &staging, "more/in", "content");
        assert_problem(workspace_stage_file(&staging, "empty", &world.problem), &world, PROBLEM_INVALID);
        assert_int_equal(workspace_stage_finish(&staging, sha256, &world.problem), 0);
        memcpy(name, staging.name, sizeof(name));
        assert_int_equal(workspace_stage_request(&workspace, "asked", 5, name, &world.problem), 0);
        staging.kept = true;
        assert_int_equal(workspace_stage_request(&workspace, "alone", 5, alone, &world.problem), 0);
        workspace_stage_keep(&workspace, &kept, 1);
        assert_int_equal(workspace_stage_read_request(&workspace, alone, 100, &request), -1);
        assert_int_equal(workspace_stage_read_request(&workspace, name, 100, &request), 0);
        assert_string_equal(strbuf_text(&request), "asked");
        assert_string_equal(world_get(&world, &workspace, "is/there"), "old");
        assert_int_equal(workspace_stage_place(&workspace, name, &none, NULL, world.place->arena, &skipped,
                                               &count, &world.problem),
                         0);
        assert_int_equal(count, 1);
        assert_string_equal(skipped[0].path, "is");
        assert_string_equal(world_get(&world, &workspace, "is/there"), "new");
        assert_string_equal(world_get(&world, &workspace, "more/in"), "content");
        assert_string_equal(world_get(&world, &workspace, "empty"), "");
        /* A file that was placed is not placed again over what has come since. */
        world_put(&world, &workspace, "more/in", "since");
        assert_int_equal(workspace_stage_place(&workspace, name, &none, NULL, world.place->arena, &skipped,
                                               &count, &world.problem),
                         0);
        assert_string_equal(world_get(&world, &workspace, "more/in"), "since");
}

#define WRITERS 4

struct writer {
        struct world world;
        unsigned number;
        int made;
};

static void *write_files(void *context) {
        struct writer *writer = context;
        const struct conditions absent = { .if_none_match = "*" };
        struct workspace workspace WORKSPACE_CLEANUP = WORKSPACE_INIT;
        struct workspace_file file;
        char path[32];

        if (workspace_open(&writer->world.workspaces, OWNER, "s-one", &workspace, &writer->world.problem) < 0)
                return NULL;
        for (int i = 0; i < 4; i++) {
                snprintf(path, sizeof(path), "%u/%d", writer->number, i);
                if (world_try_put(&writer->world, &workspace, path, "own", NULL, NULL, &file) < 0)
                        return NULL;
                snprintf(path, sizeof(path), "shared/%d", i);
                writer->made += world_try_put(&writer->world, &workspace, path, "one of us", &absent, NULL,
                                              &file) == 0;
        }
        return NULL;
}

/* Each file that was said to be put is there, and of those that only one may make one was made by one. */
static void contract_many(void **state) {
        struct world world = contract_world(state);
        struct workspace workspace WORKSPACE_CLEANUP = world_open(&world, "s-one");
        struct writer writers[WRITERS];
        pthread_t threads[WRITERS];
        struct workspace_usage usage;
        int made = 0;

        for (unsigned i = 0; i < WRITERS; i++) {
                writers[i] = (struct writer){ .world = world, .number = i };
                assert_int_equal(pthread_create(&threads[i], NULL, write_files, &writers[i]), 0);
        }
        for (unsigned i = 0; i < WRITERS; i++) {
                pthread_join(threads[i], NULL);
                made += writers[i].made;
        }
        assert_int_equal(made, 4);
        workspace_close(&workspace);
        workspace = world_open(&world, "s-one");
        assert_int_equal(workspace_measure(&workspace, NULL, &usage, &world.problem), 0);
        assert_int_equal(usage.bytes, WRITERS * 4 * 3 + 4 * 9);
}

#define WORKSPACE_CONTRACT(setup, teardown)                                             \
        cmocka_unit_test_setup_teardown(contract_ownership, (setup), (teardown)),       \
                cmocka_unit_test_setup_teardown(contract_lists, (setup), (teardown)),   \
                cmocka_unit_test_setup_teardown(contract_files, (setup), (teardown)),   \
                cmocka_unit_test_setup_teardown(contract_pages, (setup), (teardown)),   \
                cmocka_unit_test_setup_teardown(contract_limits, (setup), (teardown)),  \
                cmocka_unit_test_setup_teardown(contract_folders, (setup), (teardown)), \
                cmocka_unit_test_setup_teardown(contract_copies, (setup), (teardown)),  \
                cmocka_unit_test_setup_teardown(contract_stages, (setup), (teardown)),  \
                cmocka_unit_test_setup_teardown(contract_many, (setup), (teardown))

#endif
