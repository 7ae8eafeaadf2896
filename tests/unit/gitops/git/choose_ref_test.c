/* SPDX-License-Identifier: Apache-2.0 */
/* Which ref is followed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gitops/git/choose_ref.h"

#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct remote_ref refs[] = {
        { .name = "refs/heads/main", .commit = "a" },
        { .name = "refs/heads/ma\x1B[2Jin2", .commit = "b" },
        { .name = "refs/tags/1.2.0", .commit = "c" },
        { .name = "refs/tags/release", .commit = "d" },
        { .name = "refs/tags/v1.10.0", .commit = "e" },
        { .name = "refs/tags/v1.2.0", .commit = "f" },
        { .name = "refs/tags/v2.0.0-rc.1", .commit = "g" },
};

static void names_of_branches(void **state) {
        static const struct {
                const char *name;
                bool good;
        } cases[] = { { "main", true },  { "a/b", true },   { "", false },     { "-x", false },
                      { "/a", false },   { "a/", false },   { "a..b", false }, { "a@{1}", false },
                      { "a//b", false }, { "a b", false },  { "a~1", false },  { "a:b", false },
                      { "a*", false },   { "a\\b", false }, { "a\nb", false } };
        char longest[257];

        (void)state;
        for (size_t i = 0; i < COUNT(cases); i++) {
                if (choose_is_branch_name(cases[i].name) != cases[i].good)
                        fail_msg("\"%s\"", cases[i].name);
        }
        memset(longest, 'a', 256);
        longest[256] = '\0';
        assert_false(choose_is_branch_name(longest));
        assert_true(choose_is_branch_name(longest + 1));
}

static void a_branch(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        enum git_failure failure = GIT_LOCAL;
        struct remote_ref found = { 0 };
        struct error err;

        (void)state;
        assert_int_equal(choose_branch("main", refs, COUNT(refs), arena, &found, &failure, &err), 0);
        assert_string_equal(found.commit, "a");
        assert_int_equal(choose_branch("mian", refs, COUNT(refs), arena, &found, &failure, &err), -1);
        assert_int_equal(failure, GIT_NOT_FOUND);
        assert_string_equal(err.message, "there is no branch mian; did you mean main?");
        /* What a server calls its branches is no business of a terminal's. */
        assert_int_equal(choose_branch("ma [2Jin2", refs, COUNT(refs), arena, &found, &failure, &err), -1);
        assert_null(strchr(err.message, '\x1B'));
        assert_int_equal(choose_branch("main", refs, 0, arena, &found, &failure, &err), -1);
        assert_non_null(strstr(err.message, "the repository is empty"));
        assert_string_equal(found.commit, "a");
}

static void a_tag(void **state) {
        static const struct {
                const char *pattern, *commit;
        } cases[] = { { "*", "e" },     { "1.x", "e" },   { "~1.2", "f" },
                      { ">=2-0", "g" }, { "<1.10", "f" }, { "3.x", NULL } };
        struct arena *arena ARENA_CLEANUP = arena_new();

        (void)state;
        for (size_t i = 0; i < COUNT(cases); i++) {
                const struct version_pattern *pattern;
                enum git_failure failure = GIT_LOCAL;
                struct remote_ref found = { 0 };
                struct error err;
                int result;

                assert_int_equal(version_pattern_parse(cases[i].pattern, arena, &pattern, &err), 0);
                result = choose_tag(pattern, cases[i].pattern, refs, COUNT(refs), &found, &failure, &err);
                assert_int_equal(result, cases[i].commit ? 0 : -1);
                if (cases[i].commit)
                        assert_string_equal(found.commit, cases[i].commit);
                else
                        assert_string_equal(err.message, "none of 5 tags matches \"3.x\"");
        }
}

static void what_is_higher(void **state) {
        static const struct {
                const char *ref, *than;
                bool higher;
        } cases[] = {
                { "refs/tags/v1.1.0", "refs/tags/v1.0.0", true },
                { "refs/tags/1.1.0", "refs/tags/v1.0.0", true },
                { "refs/tags/v1.0.0", "refs/tags/v1.1.0", false },
                { "refs/tags/v1.0.0", "refs/tags/v1.0.0", false },
                { "refs/tags/v1.0.0+2", "refs/tags/v1.0.0", false },
                { "refs/tags/v1.0.0", "refs/tags/v1.0.0-rc.1", true },
                { "refs/tags/v1.0.0", NULL, false },
                { "refs/tags/v1.0.0", "refs/heads/main", false },
                { "refs/tags/release", "refs/tags/v1.0.0", false },
                { "refs/heads/v2.0.0", "refs/tags/v1.0.0", false },
        };

        (void)state;
        for (size_t i = 0; i < COUNT(cases); i++) {
                if (choose_is_higher_tag(cases[i].ref, cases[i].than) != cases[i].higher)
                        fail_msg("%s, %s", cases[i].ref, cases[i].than ? cases[i].than : "none");
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(names_of_branches),
                cmocka_unit_test(a_branch),
                cmocka_unit_test(a_tag),
                cmocka_unit_test(what_is_higher),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
