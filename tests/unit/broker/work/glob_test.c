/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns of paths. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "broker/work/glob.h"

#include <string.h>

static void fits(void **state) {
        static const struct {
                const char *pattern, *path;
                bool fits;
        } cases[] = {
                { "a.txt", "a.txt", true },
                { "a.txt", "b/a.txt", false },
                { "*", "a", true },
                { "*", ".hidden", true },
                { "*", "a/b", false },
                { "*.png", "plot.png", true },
                { "*.png", "out/plot.png", false },
                { "out/*", "out/plot.png", true },
                { "out/*", "out/deep/plot.png", false },
                { "out", "out/plot.png", false },
                { "**", "a", true },
                { "**", "a/b/c", true },
                { "**/*.png", "plot.png", true },
                { "**/*.png", "a/b/plot.png", true },
                { "**/*.png", "a/b/plot.jpg", false },
                { "out/**", "out/a/b", true },
                { "out/**", "out/a", true },
                { "out/**", "out", false },
                { "a/**/z", "a/z", true },
                { "a/**/z", "a/b/c/z", true },
                { "a/**/z", "a/b/c/zz", false },
                { "**/b/**/d", "a/b/c/b/d", true },
                { "**/b/**/d", "a/b/c/d/e", false },
                { "**/b/c", "b/b/c", true },
                { "[ab]?", "bx", true },
                { "[!ab]?", "bx", false },
                { "\\*", "*", true },
                { "\\*", "x", false },
                { "a**", "ab", true },
                { "", "a", false },
                { "a/", "a", false },
                { "/a", "a", false },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                if (glob_fits(cases[i].pattern, cases[i].path) != cases[i].fits)
                        fail_msg("%s, %s", cases[i].pattern, cases[i].path);
                if (cases[i].fits)
                        assert_int_equal(
                                strncmp(cases[i].pattern, cases[i].path, glob_prefix(cases[i].pattern)), 0);
        }
}

/* Patterns that take some programs forever. */
static void hostile(void **state) {
        char pattern[GLOB_MAX + 1] = "", path[961] = "";

        (void)state;
        for (size_t i = 0; i + 5 <= GLOB_MAX; i += 5)
                strcat(pattern, "**/*/");
        for (size_t i = 0; i + 2 <= 120; i += 2)
                strcat(path, "a/");
        strcat(path, "b");
        assert_false(glob_fits(pattern, path));
        memset(pattern, 0, sizeof(pattern));
        for (size_t i = 0; i + 2 <= GLOB_MAX; i += 2) {
                pattern[i] = '*';
                pattern[i + 1] = 'a';
        }
        memset(path, 'a', 255);
        path[255] = '\0';
        assert_false(glob_fits(pattern, path));
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(fits), cmocka_unit_test(hostile) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
