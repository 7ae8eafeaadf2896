/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "client/shown.h"

#include <string.h>

/* Pieces end at '|'. */
static void on_a_terminal(void **state) {
        static const struct {
                const char *said, *shown;
        } cases[] = {
                { "plain\n", "plain\n" },
                { "no end", "no end\n" },
                { "a\tb\n", "a\tb\n" },
                { "a\r\nb\n", "a\nb\n" },
                { "a\r|\nb\n", "a\nb\n" },
                { "10%\r20%\r|30%\n", "10%\n20%\n30%\n" },
                { "held\r", "held\n" },
                { "\x1b[31mred\x1b]0;title\x07\n", "\\x1B[31mred\\x1B]0;title\\x07\n" },
                { "\xc2\x9b"
                  "31m\n",
                  "\\x9B31m\n" },
                { "bad \xff\n", "bad \\xFF\n" },
                { "right to left \xe2\x80\xae"
                  "x\n",
                  "right to left \\u202Ex\n" },
                { "\xc3\xa4\xf0\x9f\x98\x80\n", "\xc3\xa4\xf0\x9f\x98\x80\n" },
                { "\x7f\b\n", "\\x7F\\x08\n" },
                { "", "" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct strbuf to STRBUF_CLEANUP = STRBUF_INIT;
                struct shown shown = { .is_terminal = true };

                for (const char *at = cases[i].said; *at;) {
                        size_t length = strcspn(at, "|");

                        shown_append(&shown, at, length, &to);
                        at += length + (at[length] == '|');
                }
                shown_end_line(&shown, &to);
                assert_string_equal(strbuf_text(&to), cases[i].shown);
                assert_false(shown.inside_line);
        }
}

static void elsewhere_byte_by_byte(void **state) {
        static const char said[] = "\x1b[31m\r\xff\0x";
        struct strbuf to STRBUF_CLEANUP = STRBUF_INIT;
        struct shown shown = { .is_terminal = false };

        (void)state;
        shown_append(&shown, said, sizeof(said), &to);
        assert_int_equal(to.length, sizeof(said));
        assert_memory_equal(to.data, said, sizeof(said));
        assert_true(shown.inside_line);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(on_a_terminal),
                cmocka_unit_test(elsewhere_byte_by_byte),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
