/* SPDX-License-Identifier: Apache-2.0 */
/* Which tags are versions, which is the higher, and what patterns choose. */
#include "support.h"

#include "gitops/git/git.h"
#include "gitops/git/version.h"

/* In ascending order; the ones that semver.org gives among them. */
static const char *const ascending[] = {
        "0.0.0",
        "0.0.1-0",
        "0.0.1",
        "v0.1",
        "1.0.0-alpha",
        "1.0.0-alpha.1",
        "1.0.0-alpha.beta",
        "1.0.0-beta",
        "1.0.0-beta.2",
        "1.0.0-beta.11",
        "1.0.0-rc.1",
        "v1",
        "1.0.1",
        "1.2.9",
        "1.2.10",
        "1.10",
        "2.0.0-0",
        "v2.0.0",
        "10.0.0",
        "2025.1.15",
        "2025.2",
};

static void order(void **state) {
        (void)state;
        for (size_t i = 0; i < COUNT(ascending); i++) {
                for (size_t j = 0; j < COUNT(ascending); j++) {
                        struct version a, b;
                        int found;

                        assert_true(version_parse(ascending[i], &a));
                        assert_true(version_parse(ascending[j], &b));
                        found = version_compare(&a, &b);
                        if (i == j ? found != 0 : (i < j) != (found < 0))
                                fail_msg("%s and %s: %d", ascending[i], ascending[j], found);
                }
        }
}

static void builds_do_not_order(void **state) {
        struct version a, b;

        (void)state;
        assert_true(version_parse("1.2.3+5", &a));
        assert_true(version_parse("v1.2.3+zz.4", &b));
        assert_int_equal(version_compare(&a, &b), 0);
}

static void no_versions(void **state) {
        static const char *const texts[] = { "",          "v",          "vv1",     "1.",
                                             "1..2",      "1.2.3.4",    "release", "1.2.x",
                                             "1.2.3-",    "1.2.3-a..b", "1.2.3+",  "1.2.3 ",
                                             " 1.2.3",    "-1.2.3",     "1.2.-3",  "99999999999999999999.0.0",
                                             "1.2.3-a_b", "1,2",        "V1.2.3",  "1.2.3+a+b",
                                             "v01.11.0",  "1.02.3",     "1.2.03",  "2025.01.15",
                                             "20250101",  "1",          "00.1.2" };
        struct version version;

        (void)state;
        for (size_t i = 0; i < COUNT(texts); i++) {
                if (version_parse(texts[i], &version))
                        fail_msg("\"%s\" is taken for a version", texts[i]);
        }
}

static const struct {
        const char *pattern, *yes, *no; /* separated by spaces */
} patterns[] = {
        { "*", "0.0.0 1.2.3 v1.2.3 99.0.0", "1.2.3-rc.1" },
        { "x", "0.0.0 v1.2.3", "1.0.0-0" },
        { "1.x", "1.0.0 1.9.9 v1.2", "0.9.9 2.0.0 2.0.0-rc.1 1.5.0-rc.1" },
        { "1", "1.0.0 1.9.9", "0.9.9 2.0.0" },
        { "1.2.*", "1.2.0 1.2.99", "1.3.0 1.1.9" },
        { "1.x.x", "1.0.0 1.9.9", "2.0.0" },
        { "v1.2.*", "v1.2.0 v1.2.99", "1.2.0 v1.3.0" },
        { "v*", "v0.1.0 v3", "0.1.0 v1.0.0-rc.1" },
        { "1.2.3", "1.2.3 v1.2.3 1.2.3+build", "1.2.4 1.2.3-rc.1" },
        { "=1.2.3", "1.2.3", "1.2.4" },
        { "v1.4.0", "v1.4.0", "1.4.0" },
        { "1.2.3-rc.1", "1.2.3-rc.1", "1.2.3 1.2.3-rc.2" },
        { ">=1.2 <2", "1.2.0 1.99.0", "1.1.9 2.0.0 2.0.0-rc.1" },
        { ">= 1.2, < 2", "1.2.0 1.99.0", "1.1.9 2.0.0" },
        { ">=1.2,<2", "1.2.0 1.99.0", "1.1.9 2.0.0" },
        { ">1.2", "1.3.0 2.0.0", "1.2.0 1.2.9" },
        { ">1.2.3", "1.2.4", "1.2.3" },
        { "<=1.2", "1.2.0 1.2.9 0.1.0", "1.3.0" },
        { "<=1.2.3", "1.2.3", "1.2.4" },
        { "~1.2", "1.2.0 1.2.9", "1.3.0 1.1.0" },
        { "~1.2.3", "1.2.3 1.2.9", "1.2.2 1.3.0" },
        { "~1", "1.0.0 1.9.0", "2.0.0" },
        { "~>1.2.3", "1.2.3", "1.3.0" },
        { "^1.2.3", "1.2.3 1.9.0", "1.2.2 2.0.0" },
        { "^0.2.3", "0.2.3 0.2.9", "0.3.0 0.2.2" },
        { "^0.0.3", "0.0.3", "0.0.4" },
        { "^0.0", "0.0.0 0.0.9", "0.1.0" },
        { "^0", "0.0.0 0.9.0", "1.0.0" },
        { "!=1.4.1 1.4.x", "1.4.0 1.4.2", "1.4.1" },
        { "1.2 - 1.4", "1.2.0 1.4.9", "1.1.9 1.5.0" },
        { "1.2.3 - 1.4.5", "1.2.3 1.4.5", "1.2.2 1.4.6" },
        { "1.x || >=3.1", "1.5.0 3.1.0 9.0.0", "2.0.0 3.0.0" },
        { "1.x||3.x", "1.5.0 3.1.0", "2.0.0" },
        { ">=1.2-0", "1.2.0-rc.1 1.2.0 1.3.0-alpha", "1.1.9" },
        { ">=1.2.0-0 <2", "1.2.0-rc.1 1.9.0-rc.1", "2.0.0-rc.1 2.0.0" },
        { ">=1.2.0-rc.2", "1.2.0-rc.2 1.2.0-rc.10 1.2.0", "1.2.0-rc.1" },
};

static void check(const struct version_pattern *pattern, const char *text, const char *versions,
                  bool expected) {
        char copy[256], *rest = copy, *one;

        snprintf(copy, sizeof(copy), "%s", versions);
        while ((one = strsep(&rest, " "))) {
                struct version version;

                assert_true(version_parse(one, &version));
                if (version_pattern_matches(pattern, &version) != expected)
                        fail_msg("\"%s\" and %s", text, one);
        }
}

static void chosen(void **state) {
        (void)state;
        for (size_t i = 0; i < COUNT(patterns); i++) {
                struct arena *arena = arena_new();
                const struct version_pattern *pattern;
                struct error err = { 0 };

                if (version_pattern_parse(patterns[i].pattern, arena, &pattern, &err) < 0)
                        fail_msg("%s", err.message);
                check(pattern, patterns[i].pattern, patterns[i].yes, true);
                check(pattern, patterns[i].pattern, patterns[i].no, false);
                arena_free(arena);
        }
}

static void no_patterns(void **state) {
        static const char *const texts[] = { "",        " ",    "latest", "release-*", "1.2.3.4", "1.x.2",
                                             ">",       ">=",   "1..2",   ">=x.1",     "1 |",     "1 | 2",
                                             "|| 1",    "1 ||", "~",      "a",         "1.2.3-",  ">*",
                                             "!=1.x",   ",1",   "1,,2",   "1 - ",      "<=1.2 &", "**",
                                             "1.2.3\n", "\t1" };
        char long_one[600];

        (void)state;
        for (size_t i = 0; i < COUNT(texts); i++) {
                struct error err = { 0 };

                if (git_tag_check(texts[i], &err) == 0)
                        fail_msg("\"%s\" is taken for a pattern", texts[i]);
                assert_int_equal(err.kind, ERROR_FAILED);
        }
        memset(long_one, '1', sizeof(long_one) - 1);
        long_one[sizeof(long_one) - 1] = '\0';
        assert_int_equal(git_tag_check(long_one, &(struct error){ 0 }), -1);
        for (size_t i = 0; i + 4 < 240; i += 3)
                memcpy(long_one + i, ">1 ", 4);
        assert_int_equal(git_tag_check(long_one, &(struct error){ 0 }), -1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(order),       cmocka_unit_test(builds_do_not_order),
                cmocka_unit_test(no_versions), cmocka_unit_test(chosen),
                cmocka_unit_test(no_patterns),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
