/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of Lambda's Runtime API, in pieces of every size; and invalid answers. */
#include "runtime/lambda/lambda_http.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define BODY_MAX 16

static int read_in(const char *text, size_t piece, struct lambda_http *ret) {
        size_t length = strlen(text);
        struct error err = { 0 };
        int result = 0;

        for (size_t at = 0; at < length && result == 0; at += piece)
                result = lambda_http_read(ret, text + at, length - at < piece ? length - at : piece, &err);
        if (result == 0)
                result = lambda_http_read(ret, NULL, 0, &err);
        assert_int_equal(result < 0, err.message[0] != '\0');
        return result;
}

static void test_answers(void **state) {
        static const struct {
                const char *text;
                int status;
                const char *body;
        } cases[] = {
                { "HTTP/1.1 200 OK\r\nX-Id:  a b \t\r\nContent-Length: 5\r\n\r\nhello", 200, "hello" },
                { "HTTP/1.1 200 OK\r\nx-id: a b\r\ncontent-length: 0\r\n\r\n", 200, "" },
                { "HTTP/1.1 202\r\nX-ID:a b\r\nTransfer-Encoding: Chunked\r\n\r\n3\r\nhel\r\n2;e\r\nlo\r\n0\r\nA: b\r\n\r\n",
                  202, "hello" },
                { "HTTP/1.1 403 Forbidden\r\nX-Id: a b\r\n\r\nto the end", 403, "to the end" },
                { "HTTP/1.1 200 OK\r\nX-Id: a b\r\nContent-Length: 2\r\n\r\nhithere", 200, "hi" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                for (size_t piece = 1; piece <= strlen(cases[i].text); piece++) {
                        struct lambda_http answer LAMBDA_HTTP_CLEANUP = LAMBDA_HTTP_INIT(BODY_MAX);
                        char value[8];

                        assert_int_equal(read_in(cases[i].text, piece, &answer), 1);
                        assert_int_equal(answer.status, cases[i].status);
                        assert_string_equal(strbuf_text(&answer.body), cases[i].body);
                        assert_int_equal(lambda_http_header(&answer, "X-Id", value, sizeof(value)), 1);
                        assert_string_equal(value, "a b");
                        assert_int_equal(lambda_http_header(&answer, "X-I", value, sizeof(value)), 0);
                        assert_int_equal(lambda_http_header(&answer, "X-Id", value, 3), -1);
                }
        }
}

static void test_answers_that_are_none(void **state) {
        static const char *const cases[] = {
                "",
                "HTTP/1.1 200 OK\r\n",
                "HTTP/1.0 200 OK\r\n\r\n",
                "HTTP/1.1 2x0 OK\r\n\r\n",
                "HTTP/1.1 100 OK\r\n\r\n",
                "HTTP/1.1 600 OK\r\n\r\n",
                "HTTP/1.1 2000 OK\r\n\r\n",
                "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi",
                "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nhi!",
                "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nhi!",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
                "HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\n12345678901234567",
                "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n1",
                "HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n1",
                "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n1",
                "HTTP/1.1 200 OK\r\n\r\n12345678901234567",
                "HTTP/1.1 200 OK\r\nA: b\r\n c: d\r\n\r\n",
                "HTTP/1.1 200 OK\r\nA: b\nC: d\r\n\r\n",
                "HTTP/1.1 200 OK\r\nA\r\n\r\n",
                "HTTP/1.1 200 OK\r\n: b\r\n\r\n",
                "HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n11\r\n12345678901234567\r\n0\r\n\r\n",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\nab\r\n0\r\n\r\n",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nab\r\n0\r\n\r\n",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n\r\n",
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                for (size_t piece = 1; piece <= strlen(cases[i]) + 1; piece += 5) {
                        struct lambda_http answer LAMBDA_HTTP_CLEANUP = LAMBDA_HTTP_INIT(BODY_MAX);

                        if (read_in(cases[i], piece, &answer) != -1)
                                fail_msg("was read: %s", cases[i]);
                }
        }
}

static void test_headers_are_bounded(void **state) {
        struct lambda_http answer LAMBDA_HTTP_CLEANUP = LAMBDA_HTTP_INIT(BODY_MAX);
        struct error err;
        int result = lambda_http_read(&answer, "HTTP/1.1 200 OK\r\n", 17, &err);

        (void)state;
        for (size_t i = 0; i <= LAMBDA_HTTP_HEAD_MAX / 10 && result == 0; i++)
                result = lambda_http_read(&answer, "A: bcdef\r\n", 10, &err);
        assert_int_equal(result, -1);
        assert_true(answer.head.length <= LAMBDA_HTTP_HEAD_MAX);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_answers),
                cmocka_unit_test(test_answers_that_are_none),
                cmocka_unit_test(test_headers_are_bounded),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
