/* SPDX-License-Identifier: Apache-2.0 */
/* What a server makes of the index of agents' workspaces when it starts. */
#include "base/arena.h"
#include "providers/local/agent_workspaces.h"
#include "providers/local/sandbox/sandbox_kept.h"
#include "providers/local/session/session_parts.h"
#include "sessions/workspace_local.h"

#include "folder.h"

#include <fcntl.h>

struct index {
        struct session_place place;
        struct arena *arena;
        char folder[sizeof(FOLDER_TEMPLATE)];
};

static const struct local_agent_workspace first = { .agent = "a", .owner = "alice", .environment = "data" };
static const struct local_agent_workspace second = { .agent = "b", .owner = "alice", .environment = "data" };

static int setup(void **state) {
        struct index *index = calloc(1, sizeof(*index));

        folder_make_temporary(index->folder);
        index->arena = arena_new();
        index->place.workspaces = index->folder;
        index->place.stack = "lab";
        *state = index;
        return 0;
}

static int teardown(void **state) {
        struct index *index = *state;

        folder_remove(index->folder);
        arena_free(index->arena);
        free(index);
        return 0;
}

static const char *folder_of(struct index *index, const struct local_agent_workspace *row) {
        return local_agent_folder(index->folder, "lab", row->agent, local_hash(&row->owner, 1, index->arena),
                                  index->arena);
}

static int recover(struct index *index, struct error *err) {
        return session_kept_recover(&index->place.place, err);
}

static void put(struct index *index, const struct local_agent_workspace *row) {
        struct error err;

        assert_int_equal(local_agent_write(index->folder, "lab", row, &err), 0);
}

static int get(struct index *index, const struct local_agent_workspace *row,
               struct local_agent_workspace *ret) {
        struct error err;

        return local_agent_read(index->folder, "lab", row->agent, row->owner, index->arena, ret, &err);
}

static void one_that_is_damaged_hides_no_other(void **state) {
        struct index *index = *state;
        struct local_agent_workspace row;
        struct error err = { 0 };

        assert_int_equal(folder_make(folder_of(index, &first), &err), 0);
        folder_write(folder_of(index, &first), "disk", "no file system");
        put(index, &second);
        assert_int_equal(recover(index, &err), -1);
        assert_non_null(strstr(err.message, folder_of(index, &first)));
        assert_int_equal(get(index, &second, &row), -1); /* it is gone */
}

/* As a server with a launcher leaves it, to whom it is nothing. */
static void an_image_is_no_plain_folder(void **state) {
        struct index *index = *state;
        const struct sandbox_kept kept = {
                .folder = folder_of(index, &first), .bytes = 1 << 20, .files = 64, .remedy = "No"
        };
        const struct workspace_row named = { .owner = first.owner,
                                             .environment = first.environment,
                                             .agent = first.agent };
        struct local_agent_workspace row;
        struct error err = { 0 };
        int given = -1, root;

        if (geteuid() != 0 || sandbox_kept_open(&kept, true, 0, 0, &given, &err) < 0) {
                print_message("no image can be had here: %s\n", geteuid() == 0 ? err.message : "not root");
                skip();
        }
        root = openat(given, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(given);
        assert_true(root >= 0);
        assert_int_equal(workspace_local_name_shared(root, "lab", &named), 0);
        close(root);
        put(index, &first);
        assert_int_equal(recover(index, &err), 0);
        assert_int_equal(get(index, &first, &row), 0);
        assert_true(row.bytes >= kept.bytes);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(one_that_is_damaged_hides_no_other),
                TEST(an_image_is_no_plain_folder),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
