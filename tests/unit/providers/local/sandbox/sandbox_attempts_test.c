/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/sandbox/sandbox_attempts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* What a sandbox that holds would print, but for one line. */
static void print(struct strbuf *ret, const char *control, const char *except, const char *answer) {
        strbuf_printf(ret, "%s\tcontrol\n", control);
        for (const struct sandbox_attempt *attempt = sandbox_attempts; attempt->name; attempt++) {
                const char *word = except && strcmp(attempt->name, except) == 0 ? answer : "denied";

                if (word)
                        strbuf_printf(ret, "%s\t%s\n", word, attempt->name);
        }
}

static void test_fails_closed(void **state) {
        static const struct {
                const char *control, *except, *answer;
                bool holds;
        } cases[] = {
                { "through", NULL, NULL, true },        { "denied", NULL, NULL, false },
                { "through", "bpf", "through", false }, { "through", "bpf", "broken", false },
                { "through", "bpf", NULL, false },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct strbuf printed STRBUF_CLEANUP = STRBUF_INIT, through STRBUF_CLEANUP = STRBUF_INIT;

                print(&printed, cases[i].control, cases[i].except, cases[i].answer);
                assert_int_equal(sandbox_attempts_judge(strbuf_text(&printed), &through) > 0, cases[i].holds);
                assert_int_equal(through.length == 0, cases[i].holds);
                if (cases[i].except)
                        assert_string_equal(strbuf_text(&through), cases[i].except);
        }
}

static void test_silence_is_failure(void **state) {
        struct strbuf through STRBUF_CLEANUP = STRBUF_INIT;

        (void)state;
        assert_int_equal(sandbox_attempts_judge("", &through), 0);
        assert_non_null(strstr(strbuf_text(&through), "nothing could be tried"));
}

/* A quotation mark in a row would end the text that the program is made of. */
static void test_program_is_quoted(void **state) {
        struct strbuf program STRBUF_CLEANUP = STRBUF_INIT;

        (void)state;
        for (const struct sandbox_attempt *attempt = sandbox_attempts; attempt->name; attempt++) {
                assert_null(strpbrk(attempt->code, "\"\\\n"));
                assert_null(strpbrk(attempt->name, "\"\\\n\t"));
        }
        sandbox_attempts_program(&program);
        assert_non_null(strstr(strbuf_text(&program), "attempt('control'"));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_fails_closed),
                cmocka_unit_test(test_silence_is_failure),
                cmocka_unit_test(test_program_is_quoted),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
