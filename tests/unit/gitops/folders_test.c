/* SPDX-License-Identifier: Apache-2.0 */
/* Which folders of a commit are stacks, and which names they may have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gitops/folders.h"

#include <stdio.h>
#include <string.h>

#define STACK "apiVersion: berth/v1\nkind: Stack\nmetadata: {name: x}\nspec: {provider: local}\n"
#define OTHER "apiVersion: v1\nkind: Pod\n"

static void names(void **state) {
        static const char *const good[] = { "a", "stacks/eu-west-1/Prod_2", "a.b/..c", "a/b/c/d/e" };
        static const char *const bad[] = {
                "",    "/",      "/a",     "a/",  "a//b", "..",        "a/..", ".",
                "a/.", "../a/b", "a/../b", "a b", "a\nb", "a\xc2\x85", "a\\b", "a:b",
        };
        char longest[FOLDER_PATH_MAX + 2];

        (void)state;
        for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
                assert_true(folders_is_name(good[i]));
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                assert_false(folders_is_name(bad[i]));
        memset(longest, 'a', sizeof(longest));
        longest[FOLDER_PATH_MAX] = '\0';
        assert_true(folders_is_name(longest));
        longest[FOLDER_PATH_MAX] = 'a';
        longest[FOLDER_PATH_MAX + 1] = '\0';
        assert_false(folders_is_name(longest));
}

static struct git_file file(const char *path, const char *text) {
        return (struct git_file){ .name = path, .path = path, .bytes = text, .length = strlen(text) };
}

/* "a b c", or the error's kind. */
static void expect(const char *pattern, struct git_file *files, size_t count, const char *found) {
        const struct git_answer answer = { .files = files, .file_count = count };
        struct arena *arena = arena_new();
        enum git_failure failure = GIT_LOCAL;
        const char *const *folders = NULL;
        char text[512] = "";
        struct error err = { 0 };
        size_t folder_count = 0;

        if (folders_with_stacks(&answer, pattern, arena, &folders, &folder_count, &failure, &err) < 0)
                snprintf(text, sizeof(text), "%s", git_failure_reason(failure));
        for (size_t i = 0; i < folder_count; i++)
                snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", i ? " " : "", folders[i]);
        assert_string_equal(text, found);
        arena_free(arena);
}

static void folders(void **state) {
        struct git_file sorted[] = {
                file("s/a-b/stack.yaml", STACK),
                file("s/a/deeper/m.yaml", OTHER),
                file("s/a/deeper/stack.yaml", STACK),
                file("s/a/m.yaml", OTHER),
                file("s/c/m.yaml", OTHER),
                file("s/d/broken.yaml", "apiVersion: berth/v1\nkind: Stack\nx: ["),
                file("s/e/list.yaml", OTHER "---\n" STACK),
        };
        struct git_file harmless[] = { file("s/a b/m.yaml", OTHER) };
        struct git_file unsafe[] = { file("s/a b/m.yaml", STACK) };
        struct git_file outside[] = { file("stack.yaml", STACK) };

        (void)state;
        expect("s/*", sorted, sizeof(sorted) / sizeof(sorted[0]), "s/a-b s/a s/d s/e");
        expect("./s//*/", sorted, sizeof(sorted) / sizeof(sorted[0]), "s/a-b s/a s/d s/e");
        expect("s/*", NULL, 0, "");
        expect("s/*", harmless, 1, "");
        expect("s/*", unsafe, 1, "UnsafeTree");
        expect("s/*", outside, 1, "SourceFailed");
}

static void bound(void **state) {
        static char paths[FOLDERS_MAX + 1][32];
        static struct git_file many[FOLDERS_MAX + 1];
        struct arena *arena = arena_new();
        struct git_answer answer = { .files = many, .file_count = FOLDERS_MAX };
        enum git_failure failure = GIT_LOCAL;
        const char *const *found;
        struct error err = { 0 };
        size_t count;

        (void)state;
        for (int i = 0; i <= FOLDERS_MAX; i++) {
                snprintf(paths[i], sizeof(paths[i]), "s/a%04d/stack.yaml", i);
                many[i] = file(paths[i], STACK);
        }
        assert_int_equal(folders_with_stacks(&answer, "s/*", arena, &found, &count, &failure, &err), 0);
        assert_int_equal(count, FOLDERS_MAX);
        answer.file_count++;
        assert_int_equal(folders_with_stacks(&answer, "s/*", arena, &found, &count, &failure, &err), -1);
        assert_int_equal(failure, GIT_OVER_LIMIT);
        arena_free(arena);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(names),
                cmocka_unit_test(folders),
                cmocka_unit_test(bound),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
