/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies in chunks, whole and cut into pieces of every length; and invalid ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/strbuf.h"
#include "server/chunks.h"

#include <string.h>

/* The data; *ret_used is what was used up, or -1. It comes in pieces of that length. */
static void decode(const char *text, size_t length, size_t step, struct strbuf *ret, ssize_t *ret_used) {
        struct chunks chunks = { 0 };
        size_t at = 0, come = 0;

        while (!chunks_ended(&chunks)) {
                const char *data;
                size_t data_length;
                ssize_t used = chunks_take(&chunks, text + at, come - at, &data, &data_length);

                if (used < 0) {
                        *ret_used = -1;
                        return;
                }
                strbuf_append_bytes(ret, data, data_length);
                at += (size_t)used;
                if (used > 0)
                        continue;
                if (come == length)
                        break;
                come = come + step < length ? come + step : length;
        }
        *ret_used = chunks_ended(&chunks) ? (ssize_t)at : 0;
}

static void bodies(void **state) {
        static const struct {
                const char *text, *data; /* NULL: invalid */
                size_t left;             /* behind its end */
        } cases[] = {
                { "0\r\n\r\n", "", 0 },
                { "000\r\n\r\n", "", 0 },
                { "3\r\nabc\r\n0\r\n\r\n", "abc", 0 },
                { "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\nGET /", "abcde", 5 },
                { "a\r\n0123456789\r\n0\r\n\r\n", "0123456789", 0 },
                { "A\r\n0123456789\r\n0\r\n\r\n", "0123456789", 0 },
                { "00000000000000A\r\n0123456789\r\n0\r\n\r\n", "0123456789", 0 },
                { "2\r\n\r\n\r\n0\r\n\r\n", "\r\n", 0 },
                { "3;a=b;c=\"d\"\r\nabc\r\n0;e\r\n\r\n", "abc", 0 },
                { "0\r\nX: y\r\nZ:\r\n\r\n", "", 0 },
                { "\r\n", NULL, 0 },
                { "\n", NULL, 0 },
                { "3\nabc\r\n", NULL, 0 },
                { "3\r\nabc\n", NULL, 0 },
                { "3\r\nabcd\r\n", NULL, 0 },
                { "3\r\nabc0\r\n\r\n", NULL, 0 },
                { "3\r\rabc\r\n", NULL, 0 },
                { "3;\nabc\r\n", NULL, 0 },
                { "3;a\rb\r\n", NULL, 0 },
                { "3;a\x01\r\n", NULL, 0 },
                { " 3\r\nabc", NULL, 0 },
                { "3 \r\nabc", NULL, 0 },
                { "3 ;a\r\nabc", NULL, 0 },
                { "+3\r\nabc", NULL, 0 },
                { "-3\r\nabc", NULL, 0 },
                { "0x3\r\nabc", NULL, 0 },
                { "3_0\r\nabc", NULL, 0 },
                { ";a\r\n", NULL, 0 },
                { "1000000000000000\r\n", NULL, 0 },
                { "0\n\n", NULL, 0 },
                { "0\r\n\n", NULL, 0 },
                { "0\r\n\r\r", NULL, 0 },
                { "0\r\n:\r\n", NULL, 0 },
                { "0\r\n X: y\r\n", NULL, 0 },
                { "0\r\nX : y\r\n", NULL, 0 },
                { "0\r\nX\r\n", NULL, 0 },
                { "0\r\nX: y\n", NULL, 0 },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                size_t length = strlen(cases[i].text);

                for (size_t step = 1; step <= length; step++) {
                        struct strbuf data STRBUF_CLEANUP = STRBUF_INIT;
                        ssize_t used;

                        decode(cases[i].text, length, step, &data, &used);
                        if (used != (cases[i].data ? (ssize_t)(length - cases[i].left) : -1))
                                fail_msg("case %zu by %zu: %zd", i, step, used);
                        if (cases[i].data)
                                assert_string_equal(strbuf_text(&data), cases[i].data);
                }
        }
}

static void what_has_not_ended(void **state) {
        static const char whole[] = "3;a\r\nabc\r\n0\r\nX: y\r\n\r\n";

        (void)state;
        for (size_t length = 0; length < sizeof(whole) - 1; length++) {
                struct strbuf data STRBUF_CLEANUP = STRBUF_INIT;
                ssize_t used;

                decode(whole, length, 1, &data, &used);
                assert_int_equal(used, 0);
        }
}

/* NULs are data in a chunk, and nothing anywhere else. */
static void nuls(void **state) {
        static const char data[] = "3\r\na\0b\r\n0\r\n\r\n", size[] = "3\0\r\nabc",
                          extension[] = "3;\0\r\nabc", trailer[] = "0\r\nX: \0\r\n\r\n";
        struct strbuf found STRBUF_CLEANUP = STRBUF_INIT;
        ssize_t used;

        (void)state;
        decode(data, sizeof(data) - 1, 100, &found, &used);
        assert_int_equal(used, sizeof(data) - 1);
        assert_int_equal(found.length, 3);
        assert_memory_equal(found.data, "a\0b", 3);
        decode(size, sizeof(size) - 1, 100, &found, &used);
        assert_int_equal(used, -1);
        decode(extension, sizeof(extension) - 1, 100, &found, &used);
        assert_int_equal(used, -1);
        decode(trailer, sizeof(trailer) - 1, 100, &found, &used);
        assert_int_equal(used, -1);
}

/* The dropped text is bounded: it would be read forever. */
static void long_lines(void **state) {
        static const struct {
                const char *before, *repeated;
                size_t fits;
        } cases[] = {
                { "3;", "a", 255 },
                { "0\r\n", "a", 4096 },
                { "0\r\nX:", "a", 4094 },
                { "0\r\n", "X:\r\n", 2048 },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct strbuf text STRBUF_CLEANUP = STRBUF_INIT, data STRBUF_CLEANUP = STRBUF_INIT;
                ssize_t used;

                strbuf_append(&text, cases[i].before);
                for (size_t k = 0; k < cases[i].fits; k++)
                        strbuf_append(&text, cases[i].repeated);
                decode(text.data, text.length, text.length, &data, &used);
                assert_int_equal(used, 0);
                for (size_t k = 0; k < 2; k++)
                        strbuf_append(&text, cases[i].repeated);
                decode(text.data, text.length, text.length, &data, &used);
                assert_int_equal(used, -1);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(bodies),
                cmocka_unit_test(what_has_not_ended),
                cmocka_unit_test(nuls),
                cmocka_unit_test(long_lines),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
