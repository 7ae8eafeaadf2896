/* SPDX-License-Identifier: Apache-2.0 */
/* A folder of workspaces for one test. */
#ifndef BERTH_TESTS_UNIT_SESSIONS_SUPPORT_H
#define BERTH_TESTS_UNIT_SESSIONS_SUPPORT_H

#include "place.h"

#include "sessions/workspace_files.h"

#include <fcntl.h>
#include <sys/stat.h>

#define OWNER "realm/ann"

struct world {
        struct place *place;
        struct workspaces workspaces;
        struct problem problem;
};

static inline struct world world_of(void **state) {
        struct place *place = *state;

        return (struct world){ .place = place,
                               .workspaces = { .folder = arena_printf(place->arena, "%s/w", place->folder),
                                               .stack = "lab" } };
}

/* It is closed by its cleanup. */
static inline struct workspace world_open(struct world *world, const char *id) {
        const struct workspace_row row = {
                .id = id, .owner = OWNER, .environment = "data", .created_ms = 7, .lives_until_ms = 9
        };
        struct workspace workspace = WORKSPACE_INIT;

        if (workspace_open(&world->workspaces, OWNER, id, &workspace, &world->problem) == 0)
                return workspace;
        if (workspace_create(&world->workspaces, &row, &world->problem) < 0 ||
            workspace_open(&world->workspaces, OWNER, id, &workspace, &world->problem) < 0)
                fail_msg("%s", world->problem.detail);
        return workspace;
}

static inline int world_try_put(struct world *world, struct workspace *workspace, const char *path,
                                const char *text, const struct conditions *conditions,
                                const struct workspace_limits *limits, struct workspace_file *ret) {
        struct workspace_put put WORKSPACE_PUT_CLEANUP = WORKSPACE_PUT_INIT;
        const struct conditions none = { 0 };
        const struct workspace_limits no_limits = { 0 };

        if (workspace_put_begin(workspace, path, conditions ? conditions : &none,
                                limits ? limits : &no_limits, NULL, &put, &world->problem) < 0 ||
            workspace_put_write(&put, text, strlen(text), &world->problem) < 0)
                return -1;
        return workspace_put_finish(&put, ret, NULL, NULL, &world->problem);
}

static inline struct workspace_file world_put(struct world *world, struct workspace *workspace,
                                              const char *path, const char *text) {
        struct workspace_file file;

        if (world_try_put(world, workspace, path, text, NULL, NULL, &file) < 0)
                fail_msg("%s: %s", path, world->problem.detail);
        return file;
}

/* What the file has; NULL where it does not exist. */
static inline const char *world_get(struct world *world, struct workspace *workspace, const char *path) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        int descriptor DESCRIPTOR_CLEANUP = -1;
        struct workspace_file file;

        if (workspace_file_open(workspace, path, &descriptor, &file, &world->problem) < 0)
                return NULL;
        assert_int_equal(descriptor_read(descriptor, 1 << 20, &text), 0);
        assert_int_equal(text.length, file.bytes);
        return arena_strdup(world->place->arena, strbuf_text(&text));
}

/* All paths of a list, each followed by a comma. */
static inline const char *world_list(struct world *world, struct workspace *workspace, const char *prefix,
                                     const char *after, size_t limit, bool *ret_more) {
        const struct workspace_page page = { .prefix = prefix, .after = after, .limit = limit };
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct workspace_file *files;
        size_t count;
        bool more;

        if (workspace_files_list(workspace, &page, NULL, world->place->arena, &files, &count, &more,
                                 &world->problem) < 0)
                fail_msg("%s", world->problem.detail);
        for (size_t i = 0; i < count; i++)
                strbuf_printf(&text, "%s,", files[i].path);
        if (ret_more)
                *ret_more = more;
        return arena_strdup(world->place->arena, strbuf_text(&text));
}

/* A path of the host within the workspace: what its owner cannot make by the functions that are tested. */
static inline const char *world_path(struct world *world, const char *id, const char *name) {
        return place_path(world->place,
                          arena_printf(world->place->arena, "w/sessions/%s/workspace/%s", id, name));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, place_setup, place_teardown)

#endif
