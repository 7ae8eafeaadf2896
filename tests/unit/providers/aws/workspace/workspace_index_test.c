/* SPDX-License-Identifier: Apache-2.0 */
/* The index of a workspace as text. How it is changed in a bucket: tests/e2e/test_workspace_index.py. */
#include "providers/aws/workspace/workspace_index.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define SHA "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define HEAD                                                                                           \
        "{\"berth\":1,\"stack\":\"lab\",\"id\":\"s-1\",\"owner\":\"team/ann\",\"environment\":\"py\"," \
        "\"createdMs\":5,\"livesUntilMs\":6,\"checkedMs\":7,\"bytes\":%d,\"files\":%d}\n"

static struct workspace_index_file files[] = {
        { "a", 0, SHA, "\"e1\"", 1, false },
        { "b/c \"\n.txt", 41, NULL, NULL, 2, true },
};
static const char *folders[] = { "b/empty", "z" };

static void text_and_back(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const struct workspace_index index = {
                .owner = "team/ann\nä",
                .environment = "py",
                .agent = "helper",
                .created_ms = 5,
                .lives_until_ms = 6,
                .bytes = 41,
                .files = files,
                .count = 2,
                .folders = folders,
                .folder_count = 2,
        };
        struct workspace_index back;
        struct error err;
        size_t length;
        const char *text = workspace_index_write(&index, "lab", "s-1", arena, &length);

        (void)state;
        assert_int_equal(workspace_index_parse(text, length, "lab", "s-1", arena, &back, &err), 1);
        assert_string_equal(back.owner, index.owner);
        assert_string_equal(back.agent, "helper");
        assert_int_equal(back.count, 2);
        assert_int_equal(back.bytes, 41);
        assert_string_equal(back.files[1].path, files[1].path);
        assert_true(back.files[1].executable && !back.files[1].sha256 && !back.files[1].etag);
        assert_string_equal(back.files[0].sha256, SHA);
        assert_int_equal(back.folder_count, 2);
        assert_ptr_equal(workspace_index_find(&back, "a"), &back.files[0]);
        assert_null(workspace_index_find(&back, "b"));
        assert_true(workspace_index_has_folder(&back, "b"));
        assert_true(workspace_index_has_folder(&back, "z"));
        assert_false(workspace_index_has_folder(&back, "a"));
        /* Stacks that share a bucket: it is not there, and no damage. */
        assert_int_equal(workspace_index_parse(text, length, "lab2", "s-1", arena, &back, &err), 0);
        assert_int_equal(workspace_index_parse(text, length, "lab", "s-2", arena, &back, &err), -1);
}

static void damage(void **state) {
        static const struct {
                int bytes, files;
                const char *rest;
        } cases[] = {
                { 0, 1, "" },
                { 1, 0, "" },
                { 0, 0, "{" },
                { 0, 0, "[]\n" },
                { 0, 1, "{\"path\":\"a\",\"bytes\":0}" }, /* cut off */
                { 0, 1, "{\"path\":\"../a\",\"bytes\":0}\n" },
                { 0, 1, "{\"path\":\"/a\",\"bytes\":0}\n" },
                { 0, 1, "{\"path\":\"a\",\"bytes\":-1}\n" },
                { 0, 1, "{\"path\":\"a\",\"bytes\":0,\"sha256\":\"12\"}\n" },
                { 0, 2, "{\"path\":\"b\",\"bytes\":0}\n{\"path\":\"a\",\"bytes\":0}\n" },
                { 0, 2, "{\"path\":\"a\",\"bytes\":0}\n{\"path\":\"a\",\"bytes\":0}\n" },
                { 0, 0, "{\"folder\":\"a/../b\"}\n" },
                { 0, 0, "{\"folder\":\"a\"}\n{\"folder\":\"a\"}\n" },
        };
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct workspace_index index;
        struct error err;

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                const char *text =
                        arena_printf(arena, HEAD "%s", cases[i].bytes, cases[i].files, cases[i].rest);

                assert_int_equal(workspace_index_parse(text, strlen(text), "lab", "s-1", arena, &index, &err),
                                 -1);
                assert_non_null(strstr(err.message, "workspaces/index/s-1"));
        }
        assert_int_equal(workspace_index_parse("", 0, "lab", "s-1", arena, &index, &err), -1);
        assert_int_equal(workspace_index_parse("{}\n", 3, "lab", "s-1", arena, &index, &err), -1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(text_and_back),
                cmocka_unit_test(damage),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
