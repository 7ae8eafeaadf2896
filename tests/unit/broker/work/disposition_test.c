/* SPDX-License-Identifier: Apache-2.0 */
/* Names of downloads, whatever they hold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "broker/work/disposition.h"

static void names(void **state) {
        static const char *const cases[][2] = {
                { "a.txt", "attachment; filename=\"a.txt\"; filename*=UTF-8''a.txt" },
                { "a b", "attachment; filename=\"a b\"; filename*=UTF-8''a%20b" },
                { "a\"b\\c", "attachment; filename=\"a_b_c\"; filename*=UTF-8''a%22b%5Cc" },
                { "a\r\nSet-Cookie: x",
                  "attachment; filename=\"a__Set-Cookie_ x\"; filename*=UTF-8''a%0D%0ASet-Cookie%3A%20x" },
                { "\xc3\x9f", "attachment; filename=\"__\"; filename*=UTF-8''%C3%9F" },
                { "100%';", "attachment; filename=\"100___\"; filename*=UTF-8''100%25%27%3B" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

                disposition_write(cases[i][0], &text);
                assert_string_equal(strbuf_text(&text), cases[i][1]);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(names) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
