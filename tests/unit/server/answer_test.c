/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/answer.h"

#define DATE "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
#define ALWAYS "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
#define THEN_MS (INT64_C(784111777) * 1000 + 999)

static void heads(void **state) {
        static const struct {
                unsigned status;
                int64_t length;
                bool last;
                const char *text;
        } cases[] = {
                { 200, 5, false,
                  "HTTP/1.1 200 OK\r\n" DATE "Content-Length: 5\r\nContent-Type: text/plain\r\n" ALWAYS
                  "\r\n" },
                { 404, 0, true,
                  "HTTP/1.1 404 Not Found\r\n" DATE
                  "Connection: close\r\nContent-Length: 0\r\nContent-Type: text/plain\r\n" ALWAYS "\r\n" },
                { 200, ANSWER_CHUNKED, false,
                  "HTTP/1.1 200 OK\r\n" DATE
                  "Transfer-Encoding: chunked\r\nContent-Type: text/plain\r\n" ALWAYS "\r\n" },
                { 200, ANSWER_UNKNOWN, true,
                  "HTTP/1.1 200 OK\r\n" DATE "Connection: close\r\nContent-Type: text/plain\r\n" ALWAYS
                  "\r\n" },
                { 204, ANSWER_BODILESS, false, "HTTP/1.1 204 No Content\r\n" DATE ALWAYS "\r\n" },
                { 299, INT64_C(5000000000), false,
                  "HTTP/1.1 299 \r\n" DATE "Content-Length: 5000000000\r\nContent-Type: text/plain\r\n" ALWAYS
                  "\r\n" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                const struct answer_head head = { .status = cases[i].status,
                                                  .type = "text/plain",
                                                  .length = cases[i].length,
                                                  .wall_ms = THEN_MS,
                                                  .last = cases[i].last };
                struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

                answer_head_write(&head, &text);
                assert_string_equal(strbuf_text(&text), cases[i].text);
        }
}

/* What may be kept says so itself; all else is not to be kept. */
static void who_may_keep_it(void **state) {
        static const struct answer_header headers[] = { { "Cache-Control", "no-cache" } };
        static const struct answer_head head = {
                .status = 200, .type = "text/plain", .headers = headers, .header_count = 1, .wall_ms = THEN_MS
        };
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        (void)state;
        answer_head_write(&head, &text);
        assert_non_null(strstr(strbuf_text(&text), "\r\nCache-Control: no-cache\r\n"));
        assert_null(strstr(strbuf_text(&text), "no-store"));
}

/* The name of a user's file may not become a line of its own. */
static void values_stay_in_their_line(void **state) {
        static const struct answer_header headers[] = {
                { "Content-Disposition", "attachment; filename=\"a\r\nSet-Cookie: b\x7f\tc\xc3\xa4\"" },
        };
        static const struct answer_head head = { .status = 200,
                                                 .type = "text/html\r\n\r\n<script>",
                                                 .headers = headers,
                                                 .header_count = 1,
                                                 .wall_ms = THEN_MS };
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        (void)state;
        answer_head_write(&head, &text);
        assert_string_equal(
                strbuf_text(&text),
                "HTTP/1.1 200 OK\r\n" DATE
                "Content-Length: 0\r\nContent-Type: text/html    <script>\r\n" ALWAYS
                "Content-Disposition: attachment; filename=\"a  Set-Cookie: b \tc\xc3\xa4\"\r\n\r\n");
}

static void bodies(void **state) {
        (void)state;
        assert_true(answer_has_body(200));
        assert_true(answer_has_body(404));
        assert_false(answer_has_body(100));
        assert_false(answer_has_body(204));
        assert_false(answer_has_body(304));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(heads),
                cmocka_unit_test(who_may_keep_it),
                cmocka_unit_test(values_stay_in_their_line),
                cmocka_unit_test(bodies),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
