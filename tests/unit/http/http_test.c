/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "http/http.h"

#include "scripted_server.h"

#include <sys/un.h>

static int get(struct http_pool *pool, const char *url, size_t limit, int64_t timeout_ms,
               struct http_response *ret, enum http_failure *ret_failure, struct error *err) {
        struct http_request request = {
                .method = "GET", .url = url, .answer_limit = limit, .timeout_ms = timeout_ms
        };

        return http_send(pool, &request, ret, ret_failure, err);
}

static const struct {
        const char *name;
        struct scripted_answer answer;
        size_t limit;
        enum http_failure failure;
        int status;
        const char *body;
} answers[] = {
        { "plain", { "200 OK\r\n", "hello" }, 100, HTTP_ANSWERED, 200, "hello" },
        { "an error is an answer", { "500 Oops\r\n", "no" }, 100, HTTP_ANSWERED, 500, "no" },
        { "a redirect is not followed",
          { "302 Found\r\nLocation: http://127.0.0.1:1/\r\n", "" },
          100,
          HTTP_ANSWERED,
          302,
          "" },
        { "chunks",
          { "200 OK\r\nTransfer-Encoding: chunked\r\n", "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n" },
          100,
          HTTP_ANSWERED,
          200,
          "abcde" },
        { "as long as the limit", { "200 OK\r\n", "hello" }, 5, HTTP_ANSWERED, 200, "hello" },
        { "longer than the limit", { "200 OK\r\n", "hello" }, 4, HTTP_TOO_LARGE, 0, NULL },
        { "cut short",
          { "200 OK\r\nContent-Length: 10\r\nConnection: close\r\n", "hello" },
          100,
          HTTP_BROKEN,
          0,
          NULL },
        { "a cut chunk",
          { "200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n", "9\r\nabc" },
          100,
          HTTP_BROKEN,
          0,
          NULL },
        { "waiting for the rest",
          { "200 OK\r\nContent-Length: 10\r\n", "hello" },
          100,
          HTTP_TIMED_OUT,
          0,
          NULL },
        { "hung up", { "", "" }, 100, HTTP_BROKEN, 0, NULL },
        { "no HTTP", { "200 OK\r\nContent-Length: x\r\n", "hello" }, 100, HTTP_BROKEN, 0, NULL },
};

static void answers_and_failures(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
                struct http_response response HTTP_RESPONSE_CLEANUP = HTTP_RESPONSE_INIT;
                struct http_pool *pool = http_pool_new(NULL);
                struct scripted_server server;
                enum http_failure failure;
                struct error err = { 0 };
                int result;

                print_message("  %s\n", answers[i].name);
                scripted_start(&server, &answers[i].answer, 1);
                result = get(pool, server.url, answers[i].limit, 700, &response, &failure, &err);
                assert_int_equal(failure, answers[i].failure);
                assert_int_equal(result, failure == HTTP_ANSWERED ? 0 : -1);
                if (failure == HTTP_ANSWERED) {
                        assert_int_equal(response.status, answers[i].status);
                        assert_string_equal(strbuf_text(&response.body), answers[i].body);
                } else {
                        assert_non_null(strstr(err.message, "127.0.0.1:"));
                }
                http_pool_free(pool);
                scripted_stop(&server);
                scripted_release(&server);
        }
}

static void nobody_listens(void **state) {
        struct http_response response HTTP_RESPONSE_CLEANUP = HTTP_RESPONSE_INIT;
        struct http_pool *pool = http_pool_new(NULL);
        enum http_failure failure;
        struct error err = { 0 };

        (void)state;
        assert_int_equal(get(pool, "http://127.0.0.1:1/", 10, 0, &response, &failure, &err), -1);
        assert_int_equal(failure, HTTP_UNREACHABLE);
        assert_non_null(strstr(err.message, "cannot reach 127.0.0.1:1"));
        http_pool_free(pool);
}

struct waiting {
        struct http_pool *pool;
        const char *url;
        struct interrupt interrupt;
        enum http_failure failure;
};

static void *wait_for_ever(void *opaque) {
        struct http_response response HTTP_RESPONSE_CLEANUP = HTTP_RESPONSE_INIT;
        struct waiting *waiting = opaque;
        struct http_request request = { .method = "GET",
                                        .url = waiting->url,
                                        .answer_limit = 10,
                                        .timeout_ms = 4000,
                                        .interrupt = &waiting->interrupt };
        struct error err = { 0 };

        assert_int_equal(http_send(waiting->pool, &request, &response, &waiting->failure, &err), -1);
        return NULL;
}

/* Two wait for one that never answers: one of them is told to stop, once for what is in flight, and then at once. */
static void one_of_many_is_interrupted(void **state) {
        struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        socklen_t length = sizeof(address);
        int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        struct waiting waiting[2] = { { .pool = http_pool_new(NULL) } };
        pthread_t threads[2];
        struct error err = { 0 };
        char url[64];

        (void)state;
        assert_int_equal(bind(listener, (const struct sockaddr *)&address, sizeof(address)), 0);
        assert_int_equal(listen(listener, 8), 0);
        assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &length), 0);
        snprintf(url, sizeof(url), "http://127.0.0.1:%u/", ntohs(address.sin_port));
        waiting[1].pool = waiting[0].pool;
        for (size_t i = 0; i < 2; i++) {
                waiting[i].url = url;
                assert_int_equal(interrupt_init(&waiting[i].interrupt, &err), 0);
                interrupt_raise(&waiting[i].interrupt);
                assert_int_equal(pthread_create(&threads[i], NULL, wait_for_ever, &waiting[i]), 0);
        }
        interrupt_raise(&waiting[0].interrupt);
        for (size_t i = 0; i < 2; i++) {
                pthread_join(threads[i], NULL);
                interrupt_dispose(&waiting[i].interrupt);
        }
        assert_int_equal(waiting[0].failure, HTTP_INTERRUPTED);
        assert_int_equal(waiting[1].failure, HTTP_TIMED_OUT);
        close(listener);
        http_pool_free(waiting[0].pool);
}

static void what_is_not_sent(void **state) {
        static const char *const urls[] = { "http://example.com/",
                                            "ftp://127.0.0.1/",
                                            "file:///etc/passwd",
                                            "nonsense",
                                            "http://127.0.0.1.example.com/",
                                            "http://localhost.example.com/",
                                            "" };
        struct http_response response HTTP_RESPONSE_CLEANUP = HTTP_RESPONSE_INIT;
        struct http_pool *pool = http_pool_new(NULL);

        (void)state;
        for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
                enum http_failure failure = HTTP_ANSWERED;
                struct error err = { 0 };

                print_message("  %s\n", urls[i]);
                assert_int_equal(get(pool, urls[i], 10, 0, &response, &failure, &err), -1);
                assert_int_equal(failure, HTTP_REFUSED);
        }
        http_pool_free(pool);
}

/* A line break would begin another header, or another request. */
static void headers_that_are_not_sent(void **state) {
        static const struct http_header headers[] = {
                { "x-amz-security-token", "t\r\nX-Other: 1" },
                { "x-a", "\n" },
                { "x-a", "b\r" },
                { "x-a", "\x7f" },
                { "x-a", "a\001" },
                { "x-a\r\nX-Other", "1" },
                { "x-a: 1\r\nx-b", "" },
                { "x a", "1" },
                { "x-a:", "1" },
                { "x-a;", "1" },
                { "", "1" },
        };
        static const struct scripted_answer ok = { "200 OK\r\n", "" };
        struct http_response response HTTP_RESPONSE_CLEANUP = HTTP_RESPONSE_INIT;
        struct http_pool *pool = http_pool_new(NULL);
        struct scripted_server server;

        (void)state;
        scripted_start(&server, &ok, 1);
        for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
                const struct http_header both[] = { { "x-first", "with\ta tab" }, headers[i] };
                struct http_request request = { .method = "GET",
                                                .url = server.url,
                                                .headers = both,
                                                .header_count = 2,
                                                .answer_limit = 10 };
                enum http_failure failure = HTTP_ANSWERED;
                struct error err = { 0 };

                print_message("  %zu\n", i);
                assert_int_equal(http_send(pool, &request, &response, &failure, &err), -1);
                assert_int_equal(failure, HTTP_REFUSED);
                assert_non_null(strstr(err.message, "nothing was sent"));
                assert_null(strpbrk(err.message, "\r\n"));
                request.header_count = 1;
                assert_int_equal(http_send(pool, &request, &response, &failure, &err), 0);
        }
        http_pool_free(pool);
        scripted_stop(&server);
        assert_int_equal(server.requests, sizeof(headers) / sizeof(headers[0]));
        scripted_release(&server);
}

static void requests_look_as_they_should(void **state) {
        static const struct scripted_answer ok = { "200 OK\r\n", "" };
        const struct http_header headers[] = { { "Host", "named.example" },
                                               { "x-empty", "" },
                                               { "X-A", "b" } };
        struct http_request request = { .headers = headers, .header_count = 3, .answer_limit = 10 };
        struct http_response response HTTP_RESPONSE_CLEANUP = HTTP_RESPONSE_INIT;
        struct http_pool *pool = http_pool_new(NULL);
        struct scripted_server server;
        enum http_failure failure;
        struct error err = { 0 };
        char url[128];

        (void)state;
        setenv("http_proxy", "http://127.0.0.1:1", 1); /* not to loopback */
        scripted_start(&server, &ok, 1);
        snprintf(url, sizeof(url), "%s/a/../b//c%%20d?x&y=%%2F", server.url);
        request.url = url;
        request.method = "PUT";
        assert_int_equal(http_send(pool, &request, &response, &failure, &err), 0);
        request.method = "DELETE";
        assert_int_equal(http_send(pool, &request, &response, &failure, &err), 0);
        request.method = "HEAD";
        assert_int_equal(http_send(pool, &request, &response, &failure, &err), 0);
        request.method = "POST";
        request.body = "body";
        request.body_length = 4;
        assert_int_equal(http_send(pool, &request, &response, &failure, &err), 0);
        http_pool_free(pool);
        scripted_stop(&server);
        unsetenv("http_proxy");

        assert_int_equal(server.requests, 4);
        assert_int_equal(server.connections, 1); /* kept alive */
        assert_ptr_equal(strstr(server.received[0], "PUT /a/../b//c%20d?x&y=%2F HTTP/1.1\r\n"),
                         server.received[0]);
        assert_non_null(strstr(server.received[0], "\r\nHost: named.example\r\n"));
        assert_non_null(strcasestr(server.received[0], "\r\nx-empty:"));
        assert_non_null(strstr(server.received[0], "\r\nContent-Length: 0\r\n"));
        assert_non_null(strstr(server.received[0], "\r\nUser-Agent: berth/"));
        assert_ptr_equal(strstr(server.received[1], "DELETE "), server.received[1]);
        assert_null(strcasestr(server.received[1], "content-length"));
        assert_ptr_equal(strstr(server.received[2], "HEAD "), server.received[2]);
        assert_non_null(strstr(server.received[3], "\r\nContent-Length: 4\r\n"));
        for (int i = 0; i < 4; i++) {
                assert_null(strcasestr(server.received[i], "\r\nexpect:"));
                assert_null(strcasestr(server.received[i], "\r\ncontent-type:"));
        }
        scripted_release(&server);
}

struct share {
        struct http_pool *pool;
        const char *url;
};

static void *send_some(void *opaque) {
        const struct share *share = opaque;
        struct http_response response HTTP_RESPONSE_CLEANUP = HTTP_RESPONSE_INIT;
        struct error err = { 0 };

        for (int i = 0; i < 50; i++) {
                enum http_failure failure;

                if (get(share->pool, share->url, 10, 0, &response, &failure, &err) < 0 ||
                    strcmp(strbuf_text(&response.body), "yes") != 0)
                        return "failed";
        }
        return NULL;
}

static void threads_share_connections(void **state) {
        static const struct scripted_answer ok = { "200 OK\r\n", "yes" };
        struct http_pool *pool = http_pool_new(NULL);
        struct scripted_server server;
        struct share share = { pool, NULL };
        pthread_t threads[8];

        (void)state;
        scripted_start(&server, &ok, 1);
        share.url = server.url;
        for (size_t i = 0; i < 8; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, send_some, &share), 0);
        for (size_t i = 0; i < 8; i++) {
                void *result;

                pthread_join(threads[i], &result);
                assert_null(result);
        }
        http_pool_free(pool);
        scripted_stop(&server);
        assert_int_equal(server.requests, 400);
        assert_true(server.connections <= 8);
        scripted_release(&server);
}

static void headers_are_found(void **state) {
        struct http_response response HTTP_RESPONSE_CLEANUP = HTTP_RESPONSE_INIT;
        char value[8];

        (void)state;
        strbuf_append(&response.headers, "a: 1\nab:  two \nempty:\nlong: 0123456789\nab: 3\n");
        assert_true(http_header(&response, "ab", value, sizeof(value)));
        assert_string_equal(value, "two");
        assert_true(http_header(&response, "empty", value, sizeof(value)));
        assert_string_equal(value, "");
        assert_true(http_header(&response, "long", value, sizeof(value)));
        assert_string_equal(value, "0123456");
        assert_false(http_header(&response, "b", value, sizeof(value)));
        assert_string_equal(value, "");
}

static void loopback_is_recognised(void **state) {
        static const char *const yes[] = { "localhost", "LOCALHOST", "a.localhost", "127.0.0.1",
                                           "127.9.9.9", "::1",       "[::1]" };
        static const char *const no[] = {
                "example.com", "localhost.com", "128.0.0.1",   "127.0.0.1.com", "[::2]", "",
                "[]",          "10.0.0.1",      ".localhost.", "xlocalhost"
        };

        (void)state;
        for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
                assert_true(http_is_loopback(yes[i]));
        for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
                assert_false(http_is_loopback(no[i]));
}

static void dates_are_read(void **state) {
        (void)state;
        assert_int_equal(http_date_ms("Sat, 31 Jan 2026 12:00:00 GMT"), INT64_C(1769860800000));
        assert_int_equal(http_date_ms("nonsense"), -1);
        assert_int_equal(http_date_ms("Fri, 31 Dec 9999 23:59:59 GMT"), INT64_C(253402300799000));
        assert_int_equal(http_date_ms("Sat, 31 Jan 99999 12:00:00 GMT"), -1);
        assert_int_equal(http_date_ms("Sat, 31 Jan 999999999 12:00:00 GMT"), -1);
}

struct moved {
        struct strbuf came;
        const char *left; /* to be sent */
        size_t most;      /* pieces that are taken */
};

static bool take_piece(void *context, const char *bytes, size_t length) {
        struct moved *moved = context;

        strbuf_append_bytes(&moved->came, bytes, length);
        return moved->most-- > 0;
}

static ssize_t give_piece(void *context, char *buffer, size_t size) {
        struct moved *moved = context;

        if (!moved->left)
                return -1;
        if (*moved->left == '\0' || size == 0)
                return 0;
        *buffer = *moved->left++;
        return 1;
}

static void bodies_piece_by_piece(void **state) {
        static const struct scripted_answer answers_given[] = { { "201 Created\r\n", "made" },
                                                                { "404 Not Found\r\n", "why" },
                                                                { "200 OK\r\n", "long" } };
        struct moved moved = { .left = "sent", .most = 10 };
        struct http_request request = { .method = "PUT",
                                        .answer_limit = 100,
                                        .source_length = 4,
                                        .source = give_piece,
                                        .sink = take_piece,
                                        .context = &moved };
        struct http_response response HTTP_RESPONSE_CLEANUP = HTTP_RESPONSE_INIT;
        struct http_pool *pool = http_pool_new(NULL);
        struct scripted_server server;
        enum http_failure failure;
        struct error err = { 0 };

        (void)state;
        scripted_start(&server, answers_given, 3);
        request.url = server.url;
        assert_int_equal(http_send(pool, &request, &response, &failure, &err), 0);
        assert_int_equal(response.status, 201);
        assert_string_equal(strbuf_text(&moved.came), "made");
        assert_string_equal(strbuf_text(&response.body), "");
        /* A refused answer's body is for the caller, not for the sink. */
        moved.left = "more";
        assert_int_equal(http_send(pool, &request, &response, &failure, &err), 0);
        assert_int_equal(response.status, 404);
        assert_string_equal(strbuf_text(&moved.came), "made");
        assert_string_equal(strbuf_text(&response.body), "why");
        /* Either side can end it. */
        moved.left = "last";
        moved.most = 0;
        assert_int_equal(http_send(pool, &request, &response, &failure, &err), -1);
        assert_int_equal(failure, HTTP_INTERRUPTED);
        moved.left = NULL;
        assert_int_equal(http_send(pool, &request, &response, &failure, &err), -1);
        assert_int_equal(failure, HTTP_INTERRUPTED);
        http_pool_free(pool);
        scripted_stop(&server);
        assert_non_null(strstr(server.received[0], "\r\nContent-Length: 4\r\n"));
        assert_non_null(strstr(server.received[0], "\r\n\r\nsent"));
        scripted_release(&server);
        strbuf_release(&moved.came);
}

/* A stream may last forever, but not stay silent forever. */
static void streams_that_fall_silent(void **state) {
        static const struct scripted_answer silent = { "200 OK\r\nContent-Length: 10\r\n", "hello" };
        struct moved moved = { .most = 10 };
        struct http_request request = {
                .method = "GET", .answer_limit = 100, .quiet_ms = 100, .sink = take_piece, .context = &moved
        };
        struct http_response response HTTP_RESPONSE_CLEANUP = HTTP_RESPONSE_INIT;
        struct http_pool *pool = http_pool_new(NULL);
        struct scripted_server server;
        enum http_failure failure;
        struct error err = { 0 };

        (void)state;
        scripted_start(&server, &silent, 1);
        request.url = server.url;
        assert_int_equal(http_send(pool, &request, &response, &failure, &err), -1);
        assert_int_equal(failure, HTTP_TIMED_OUT);
        assert_string_equal(strbuf_text(&moved.came), "hello");
        http_pool_free(pool);
        scripted_stop(&server);
        scripted_release(&server);
        strbuf_release(&moved.came);
}

static void *answer_once(void *opaque) {
        static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nunix";
        int connection = accept(*(int *)opaque, NULL, NULL);
        char buffer[4096];

        if (recv(connection, buffer, sizeof(buffer), 0) > 0)
                (void)send(connection, answer, sizeof(answer) - 1, MSG_NOSIGNAL);
        close(connection);
        return NULL;
}

static void over_a_unix_socket(void **state) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        struct http_request request = { .method = "GET", .url = "http://localhost/", .answer_limit = 100 };
        struct http_response response HTTP_RESPONSE_CLEANUP = HTTP_RESPONSE_INIT;
        struct http_pool *pool = http_pool_new(NULL);
        char folder[] = "/tmp/berth-test-XXXXXX";
        int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        enum http_failure failure;
        struct error err = { 0 };
        pthread_t thread;

        (void)state;
        assert_non_null(mkdtemp(folder));
        snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", folder);
        request.socket = address.sun_path;
        assert_int_equal(http_send(pool, &request, &response, &failure, &err), -1);
        assert_int_equal(failure, HTTP_UNREACHABLE);
        assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
        assert_int_equal(listen(listener, 1), 0);
        assert_int_equal(pthread_create(&thread, NULL, answer_once, &listener), 0);
        assert_int_equal(http_send(pool, &request, &response, &failure, &err), 0);
        assert_string_equal(strbuf_text(&response.body), "unix");
        pthread_join(thread, NULL);
        close(listener);
        http_pool_free(pool);
        unlink(address.sun_path);
        rmdir(folder);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(bodies_piece_by_piece),
                cmocka_unit_test(streams_that_fall_silent),
                cmocka_unit_test(over_a_unix_socket),
                cmocka_unit_test(answers_and_failures),
                cmocka_unit_test(nobody_listens),
                cmocka_unit_test(one_of_many_is_interrupted),
                cmocka_unit_test(what_is_not_sent),
                cmocka_unit_test(headers_that_are_not_sent),
                cmocka_unit_test(requests_look_as_they_should),
                cmocka_unit_test(threads_share_connections),
                cmocka_unit_test(headers_are_found),
                cmocka_unit_test(loopback_is_recognised),
                cmocka_unit_test(dates_are_read),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
