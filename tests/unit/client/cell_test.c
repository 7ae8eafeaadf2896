/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "client/cell.h"

#include <stdio.h>
#include <string.h>

static void what_is_whole(void **state) {
        static const struct {
                const char *typed;
                bool whole;
        } cases[] = {
                { "x = 1\n", true },
                { "x = (1,\n", false },
                { "x = (1,\n2)\n", true },
                { "x = [\n\n", false }, /* an empty line ends no bracket */
                { "x = ')'\n", true },
                { "x = '('\n", true },
                { "x = 1 + \\\n", false },
                { "x = 1 + \\\n2\n", true },
                { "x = 1 # \\\n", true },
                { "x = 1 # (\n", true },
                { "if x:\n", false },
                { "if x: # why\n", false },
                { "if x:\n    y\n", false },
                { "if x:\n    y\n\n", true },
                { "if x:\n    y\n  \t\n", true },
                { "if x:\n    y\nelse:\n", false },
                { "if x:\n    y(\n\n", false },
                { "if x: y\n", true },
                { "@decorated\n", false },
                { "@decorated\ndef f():\n    pass\n\n", true },
                { "a @ b\n", true },
                { "x = {1: 2,\n", false },
                { "x[1:]\n", true },
                { "x = 'a:'\n", true },
                { "lambda: 0\n", true },
                { "s = '''\n", false },
                { "s = '''\n\nx:\n", false },
                { "s = '''\n\nx:\n'''\n", true },
                { "s = \"\"\"a'''\n", false },
                { "s = \"\"\"a\\\"\"\"\n", false },
                { "s = ''\n", true },
                { "s = 'a\\'b('\n", true },
                { "s = r'a\\'\n", true }, /* a mistake, which the kernel says */
                { "s = 'not closed\n", true },
                { "s = 'goes on \\\n", false },
                { "s = 'goes on \\\nhere'\n", true },
                { ")\n", true },
                { "]]]\nif x:\n", false },
                { "# x:\n", true },
                { "!echo (\n", true },
                { "!echo a \\\n", false },
                { "!echo a \\\nb\n", true },
                { "%sh ls\n", true },
                { "%sh\n", false },
                { "%sh\nls\n", false },
                { "%sh\nls\n\n", true },
                { "%shell\n", true },
                { "%timeit f(1)\n", true },
                { "%cd it's (here\n", true },
                { "%time f(1, \\\n", false },
                { "%%time\n", false },
                { "%%bash\nfor i in 1; do\n", false },
                { "%%bash\nfor i in 1; do\necho $i; done\n\n", true },
                { "\xc3\xa4 = '\xf0\x9f\x98\x80'\n", true },
                { "", true },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                if (cell_is_whole(cases[i].typed) != cases[i].whole)
                        fail_msg("%s%s", cases[i].typed, cases[i].whole ? "is whole" : "is not whole");
        }
}

static void what_is_run(void **state) {
        static const struct {
                const char *typed, *code;
                bool shell;
        } cases[] = {
                { "x\n", "x\n", false },
                { "!ls -l\n", "ls -l\n", true },
                { "%sh ls\n", "ls\n", true },
                { "%sh\nls\n\n", "ls\n\n", true },
                { "%time x\n", "%time x\n", false },
                { " !ls\n", " !ls\n", false },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                bool shell;

                assert_string_equal(cell_code(cases[i].typed, &shell), cases[i].code);
                assert_int_equal(shell, cases[i].shell);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_is_whole),
                cmocka_unit_test(what_is_run),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
