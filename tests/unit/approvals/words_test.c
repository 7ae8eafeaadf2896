/* SPDX-License-Identifier: Apache-2.0 */
#include "approvals/words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

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
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_shown) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
