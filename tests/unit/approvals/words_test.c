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
        /* Nor by a program that starts another: `env -S "sh -c id"` is one word. */
        { "[\"timeout\", \"*\", \"sh\", \"-c\", \"df\"]", "[\"timeout\", \"5\", \"sh\", \"-c\", \"df\"]",
          false },
        { "[\"timeout\", \"5\", \"df\"]", "[\"timeout\", \"5\", \"df\"]", true },
        { "[\"env\", \"**\"]", "[\"env\", \"sh\", \"-c\", \"id\"]", false },
        { "[\"env\", \"**\"]", "[\"env\", \"ls\"]", false },
        { "[\"/usr/bin/env\", \"**\"]", "[\"/usr/bin/env\", \"id\"]", false },
        { "[\"timeout\", \"5\", \"**\"]", "[\"timeout\", \"5\", \"sh\", \"-c\", \"id\"]", false },
        { "[\"env\", \"*\", \"sh\", \"-c\", \"df\"]", "[\"env\", \"-Ssh -c id\", \"sh\", \"-c\", \"df\"]",
          false },
        { "[\"python3.11\", \"*\"]", "[\"python3.11\", \"-cimport os\"]", false },
        { "[\"perl5.36-x86_64-linux-gnu\", \"*\"]", "[\"perl5.36-x86_64-linux-gnu\", \"-eexec\"]", false },
        { "[\"/lib64/ld-linux-x86-64.so.2\", \"*\"]", "[\"/lib64/ld-linux-x86-64.so.2\", \"/bin/id\"]",
          false },
        { "[\"find\", \"/srv\", \"**\"]", "[\"find\", \"/srv\", \"-exec\", \"id\", \";\"]", false },
        { "[\"start\", \"--as=/usr/bin/setsid\", \"*\"]", "[\"start\", \"--as=/usr/bin/setsid\", \"id\"]",
          false },
        /* A program that nobody knows to start others is given a shell. */
        { "[\"under\", \"**\"]", "[\"under\", \"sh\", \"-c\", \"id\"]", false },
        { "[\"under\", \"**\"]", "[\"under\", \"-q\", \"/bin/bash\"]", false },
        { "[\"under\", \"*\", \"-c\", \"*\"]", "[\"under\", \"dash\", \"-c\", \"id\"]", false },
        { "[\"under\", \"*\"]", "[\"under\", \"--shell=/bin/zsh\"]", false },
        { "[\"under\", \"*\"]", "[\"under\", \"--shell=busybox\"]", false },
        { "[\"under\", \"*\"]", "[\"under\", \"/bin/sh -c /usr/bin/id\"]", false },
        { "[\"under\", \"*\"]", "[\"under\", \"$(sh)\"]", false },
        { "[\"under\", \"*\"]", "[\"under\", \"python3.11\"]", false },
        { "[\"under\", \"*\"]", "[\"under\", \"/lib/ld-musl-x86_64.so.1\"]", false },
        { "[\"under\", \"*\"]", "[\"under\", \"xargs\"]", false },
        { "[\"under\", \"**\"]", "[\"under\", \"shell\", \"fresh.txt\", \"bashful\", \"nodes\"]", true },
        { "[]", "[]", false },
};

static void check(const char *pattern_text, const char *command_text, const char *program, bool fits) {
        json_t *pattern = json_loads(pattern_text, 0, NULL), *command = json_loads(command_text, 0, NULL);

        assert_non_null(pattern);
        assert_non_null(command);
        if (words_fit(pattern, command, program) != fits)
                fail_msg("%s against %s, which is %s", pattern_text, command_text, program);
        json_decref(pattern);
        json_decref(command);
}

static void test_words(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                check(cases[i].pattern, cases[i].command, "/usr/bin/true", cases[i].fits);
}

/* By whatever name it is called. */
static void test_program(void **state) {
        (void)state;
        check("[\"report\", \"*\"]", "[\"report\", \"-c\"]", "/usr/bin/dash", false);
        check("[\"report\", \"**\"]", "[\"report\", \"a\"]", "/usr/bin/python3.11", false);
        check("[\"report\", \"*\"]", "[\"report\", \"-c\"]", "/opt/python/report", true);
        check("[\"report\", \"-c\"]", "[\"report\", \"-c\"]", "/usr/bin/dash", true);
}

/* Two commands that differ do not look the same. */
static void test_shown(void **state) {
        static const struct {
                const char *word, *shown;
        } words[] = {
                { "plain-1.txt", "plain-1.txt" },
                { "", "''" },
                { "a b", "'a b'" },
                { "it's \\n", "'it\\'s \\\\n'" },
                { "\xd0\xb4\xd0\xb0", "'\xd0\xb4\xd0\xb0'" },                    /* letters are letters */
                { "\xc3\xbc", "'\xc3\xbc'" },                                    /* of one character */
                { "u\xcc\x88", "'u\\u0308'" },                                   /* of two */
                { "\xd0\xb4\xe2\x80\x8d\xd0\xb0", "'\xd0\xb4\\u200D\xd0\xb0'" }, /* a joiner */
                { "a\xc2\xa0"
                  "b",
                  "'a\\u00A0b'" }, /* blanks */
                { "a\xe3\x80\x80", "'a\\u3000'" },
                { "a\xe2\xa0\x80", "'a\\u2800'" },
                { "a\xe3\x85\xa4", "'a\\u3164'" }, /* fillers */
                { "a\xcd\x8f", "'a\\u034F'" },
                { "a\xef\xb8\x8f", "'a\\uFE0F'" }, /* a variation selector */
                { "a\xf3\xa0\x84\x80", "'a\\U000E0100'" },
                { "a\xee\x80\x80", "'a\\uE000'" },                  /* no picture */
                { "/a/\xd7\x90/\xd7\x91", "'/a/\\u05D0/\\u05D1'" }, /* from right to left */
                { "a\x1b[2J\n\x7f\xc2\x9b", "'a\\x1B[2J\\x0A\\x7F\\x9B'" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
                struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
                json_t *command = json_pack("[s]", words[i].word);

                words_show(command, &text);
                assert_string_equal(strbuf_text(&text), words[i].shown);
                json_decref(command);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_words), cmocka_unit_test(test_program),
                                            cmocka_unit_test(test_shown) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
