/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "providers/aws/client/command.h"

#include <stdlib.h>
#include <string.h>

/* --- taking apart; each as Python's shlex.split() does --- */

#define WORDS 6
static const struct {
        const char *line;
        const char *words[WORDS];
} lines[] = {
        { "a", { "a" } },
        { "  a\t b\n c\r", { "a", "b", "c" } },
        { "'a b' \"c d\"", { "a b", "c d" } },
        { "a'b c'd\"e f\"g", { "ab cde fg" } },
        { "a '' \"\"", { "a", "", "" } },
        { "\"a \\\" \\\\ \\x '\"", { "a \" \\ \\x '" } },
        { "'a \\ \"'", { "a \\ \"" } },
        { "a\\ b \\' \\\"", { "a b", "'", "\"" } },
        { "a\\\nb", { "a\nb" } },
        { "a # b", { "a", "#", "b" } },
        { "$HOME `x` $(y) *", { "$HOME", "`x`", "$(y)", "*" } },
        { "a;b|c>d &", { "a;b|c>d", "&" } },
        { "a\vb \xC3\xA9", { "a\vb", "\xC3\xA9" } },
};

static void lines_become_words(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                struct error err = { 0 };
                char **words;
                size_t count = 0;

                assert_int_equal(command_split(lines[i].line, arena, &words, &err), 0);
                while (count < WORDS && lines[i].words[count]) {
                        assert_non_null(words[count]);
                        assert_string_equal(words[count], lines[i].words[count]);
                        count++;
                }
                assert_null(words[count]);
        }
}

static const struct {
        const char *line;
        const char *message;
} bad_lines[] = {
        { "", "it is empty" },
        { " \t\n", "it is empty" },
        { "a 'b", "a ' is not closed" },
        { "a \"b'", "a \" is not closed" },
        { "a \"b\\\"", "a \" is not closed" },
        { "a\\", "ends with a backslash" },
        { "\"a\\", "ends with a backslash" },
};

static void bad_lines_are_refused(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(bad_lines) / sizeof(bad_lines[0]); i++) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                struct error err = { 0 };
                char **words = NULL;

                assert_int_equal(command_split(bad_lines[i].line, arena, &words, &err), -1);
                assert_non_null(strstr(err.message, bad_lines[i].message));
                assert_null(words);
        }
}

/* --- running --- */

#define SHELL(script)                                                                                      \
        (char *[]) {                                                                                       \
                (char *)(uintptr_t) "/bin/sh", (char *)(uintptr_t) "-c", (char *)(uintptr_t)(script), NULL \
        }

static const struct command_limits usual = { .timeout_ms = 20000, .output = 1024 };

static void assert_fails(char *const *argv, const struct command_limits *limits, const char *message) {
        struct strbuf output STRBUF_CLEANUP = STRBUF_INIT;
        struct error err = { 0 };

        assert_int_equal(command_run(argv, limits, &output, &err), -1);
        if (!strstr(err.message, message))
                fail_msg("\"%s\" lacks \"%s\"", err.message, message);
}

static void output_is_taken(void **state) {
        static const struct {
                const char *script;
                const char *output;
        } scripts[] = {
                { "echo out; echo err >&2", "out\n" },
                { "exit 0", "" },
                { "head -c 1024 /dev/zero | tr '\\0' x; exit 0", NULL },
                { "cat; echo end", "end\n" },        /* nothing to read */
                { "exec 1>&- 2>&-; sleep 0.2", "" }, /* closed, but not ended yet */
                { "echo early; (sleep 20; echo late) &",
                  "early\n" }, /* what it leaves behind is not waited for */
                { "head -c 300000 /dev/zero >&2; echo done", "done\n" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
                struct strbuf output STRBUF_CLEANUP = STRBUF_INIT;
                struct error err = { 0 };
                int64_t begin_ms = clock_system.monotonic_ms(&clock_system);

                if (command_run(SHELL(scripts[i].script), &usual, &output, &err) < 0)
                        fail_msg("%s: %s", scripts[i].script, err.message);
                if (scripts[i].output)
                        assert_string_equal(strbuf_text(&output), scripts[i].output);
                else
                        assert_int_equal(output.length, 1024);
                assert_true(clock_system.monotonic_ms(&clock_system) - begin_ms < 15000);
        }
}

static void failures_are_said(void **state) {
        static const struct command_limits short_time = { .timeout_ms = 1000, .output = 1024 };

        (void)state;
        assert_fails(SHELL("exit 7"), &usual, "/bin/sh ended with 7");
        assert_fails(SHELL("printf 'no\\033[31m\\nway\\n' >&2; exit 1"), &usual, "ended with 1: no [31m way");
        assert_fails(SHELL("kill -KILL $$"), &usual, "was ended by signal 9");
        assert_fails(SHELL("head -c 1025 /dev/zero"), &usual, "writes more than 1024 bytes");
        assert_fails(SHELL("exec yes"), &usual, "writes more than 1024 bytes");
        assert_fails(SHELL("exec sleep 30"), &short_time, "does not end within 1 s");
        assert_fails(SHELL("exec 1>&- 2>&-; exec sleep 30"), &short_time, "does not end within 1 s");
        assert_fails((char *[]){ (char *)(uintptr_t) "/nonexistent/program", NULL }, &usual,
                     "cannot start /nonexistent/program");
        assert_fails((char *[]){ (char *)(uintptr_t) "", NULL }, &usual, "cannot start");
}

/* Of much complaint the end is told: that is where programs say what is wrong. */
static void complaints_are_bounded(void **state) {
        struct strbuf output STRBUF_CLEANUP = STRBUF_INIT;
        struct error err = { 0 };

        (void)state;
        assert_int_equal(
                command_run(SHELL("head -c 100000 /dev/zero | tr '\\0' x >&2; echo THE END >&2; exit 1"),
                            &usual, &output, &err),
                -1);
        assert_non_null(strstr(err.message, "xTHE END"));
        assert_true(strlen(err.message) < 500);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(lines_become_words),     cmocka_unit_test(bad_lines_are_refused),
                cmocka_unit_test(output_is_taken),        cmocka_unit_test(failures_are_said),
                cmocka_unit_test(complaints_are_bounded),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
