/* SPDX-License-Identifier: Apache-2.0 */
#include "approvals/words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct {
        const char *pattern, *command;
        bool fits;
} cases[] = {
        { "[\"df\", \"-h\"]", "[\"df\", \"-h\"]", true },
        { "[\"df\", \"-h\"]", "[\"df\"]", false },
        { "[\"df\", \"-h\"]", "[\"df\", \"-h\", \"/\"]", false },
        { "[\"df\", \"-h\"]", "[\"df\", \"-h \"]", false },
        { "[\"df\"]", "[\"/usr/bin/df\"]", false },
        { "[\"df -h\"]", "[\"df\", \"-h\"]", false },
        /* One word is one word: none, two and its inside are something else. */
        { "[\"git\", \"*\"]", "[\"git\", \"status\"]", true },
        { "[\"git\", \"*\"]", "[\"git\"]", false },
        { "[\"git\", \"*\"]", "[\"git\", \"-c\", \"core.sshCommand=touch x\", \"fetch\"]", false },
        { "[\"git\", \"status\", \"**\"]", "[\"git\", \"-c\", \"core.sshCommand=touch x\", \"status\"]",
          false },
        { "[\"git\", \"status\", \"**\"]", "[\"git\", \"status\"]", true },
        { "[\"git\", \"status\", \"**\"]", "[\"git\", \"status\", \"-s\", \"a b\"]", true },
        { "[\"git\", \"stat*\"]", "[\"git\", \"status\"]", false },
        { "[\"git\", \"stat*\"]", "[\"git\", \"stat*\"]", true },
        { "[\"git\", \"**\", \"x\"]", "[\"git\", \"a\", \"x\"]", false },
        { "[\"ls\", \"?\"]", "[\"ls\", \"a\"]", false },
        { "[\"ls\", \"*\"]", "[\"ls\", \"\"]", true },
        { "[\"ls\", \"*\"]", "[\"ls\", \"a\\nb\"]", true },
        /* A program is named, and no wildcard is read by a shell. */
        { "[\"*\"]", "[\"ls\"]", false },
        { "[\"**\"]", "[\"ls\"]", false },
        { "[\"sh\", \"-c\", \"*\"]", "[\"sh\", \"-c\", \"id\"]", false },
        { "[\"/bin/bash\", \"**\"]", "[\"/bin/bash\", \"-c\", \"id\"]", false },
        { "[\"env\", \"sh\", \"-c\", \"*\"]", "[\"env\", \"sh\", \"-c\", \"id\"]", false },
        { "[\"timeout\", \"5\", \"/bin/bash\", \"**\"]",
          "[\"timeout\", \"5\", \"/bin/bash\", \"-c\", \"id\"]", false },
        { "[\"timeout\", \"*\", \"sh\", \"-c\", \"df\"]", "[\"timeout\", \"5\", \"sh\", \"-c\", \"df\"]",
          true },
        { "[\"sh\", \"-c\", \"df *\"]", "[\"sh\", \"-c\", \"df ; id\"]", false },
        { "[\"sh\", \"-c\", \"df *\"]", "[\"sh\", \"-c\", \"df *\"]", true },
        { "[]", "[]", false },
};

static void test_words(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                json_t *pattern = json_loads(cases[i].pattern, 0, NULL),
                       *command = json_loads(cases[i].command, 0, NULL);

                assert_non_null(pattern);
                assert_non_null(command);
                if (words_fit(pattern, command) != cases[i].fits)
                        fail_msg("%s against %s", cases[i].pattern, cases[i].command);
                json_decref(pattern);
                json_decref(command);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_words) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
