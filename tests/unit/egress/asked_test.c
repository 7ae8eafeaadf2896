/* SPDX-License-Identifier: Apache-2.0 */
/* What clients ask a proxy for: what goes on, to the byte, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "egress/asked.h"
#include "server/head.h"

#include <string.h>

static unsigned ask(const char *text, struct arena *arena, struct asked *ret, struct strbuf *onward) {
        size_t seen = 0;
        ssize_t end = head_end(text, strlen(text), &seen);
        const char *why = NULL;
        unsigned status;

        assert_int_equal(end, strlen(text));
        status = asked_read(arena_strdup(arena, text), arena, ret, onward, &why);
        if (status)
                assert_true(why && *why);
        return status;
}

#define GET(target, fields) "GET " target " HTTP/1.1\r\n" fields "\r\n"
#define CONNECT(target, fields) "CONNECT " target " HTTP/1.1\r\n" fields "\r\n"
#define HOST "Host: a.example.org\r\n"

static void passed_on(void **state) {
        static const struct {
                const char *text, *onward;
                unsigned long long body;
        } cases[] = {
                { GET("http://a.example.org/b?c", HOST),
                  "GET /b?c HTTP/1.1\r\nHost: a.example.org\r\nConnection: close\r\n\r\n", 0 },
                { GET("http://A.Example.ORG", "Host: A.EXAMPLE.org:80\r\n"),
                  "GET / HTTP/1.1\r\nHost: a.example.org\r\nConnection: close\r\n\r\n", 0 },
                { GET("HTTP://a.example.org?q", HOST),
                  "GET /?q HTTP/1.1\r\nHost: a.example.org\r\nConnection: close\r\n\r\n", 0 },
                { GET("http://a.example.org:8080/", "Host: a.example.org:8080\r\n"),
                  "GET / HTTP/1.1\r\nHost: a.example.org:8080\r\nConnection: close\r\n\r\n", 0 },
                { GET("http://a.example.org/", HOST
                      "Connection: keep-alive, X-A\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic eA==\r\nX-A:  b c \r\n"
                      "TE: trailers\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\nKeep-Alive: 1\r\nContent-Length: 12\r\n"),
                  "GET / HTTP/1.1\r\nHost: a.example.org\r\nConnection: close\r\nX-A: b c\r\nContent-Length: 12\r\n\r\n",
                  12 },
                { "GET http://a.example.org/ HTTP/1.0\r\n\r\n",
                  "GET / HTTP/1.1\r\nHost: a.example.org\r\nConnection: close\r\n\r\n", 0 },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                struct strbuf onward STRBUF_CLEANUP = STRBUF_INIT;
                struct asked asked;

                assert_int_equal(ask(cases[i].text, arena, &asked, &onward), 0);
                assert_string_equal(strbuf_text(&onward), cases[i].onward);
                assert_int_equal(asked.body, cases[i].body);
                assert_false(asked.tunnel);
                assert_string_equal(asked.host, "a.example.org");
        }
}

static void tunnels(void **state) {
        static const char *const texts[] = { CONNECT("a.example.org:443", "Host: a.example.org:443\r\n"),
                                             CONNECT("A.example.org:443", HOST),
                                             CONNECT("a.example.org:443", HOST "Content-Length: 0\r\n"),
                                             "CONNECT a.example.org:443 HTTP/1.0\r\n\r\n" };

        (void)state;
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                struct strbuf onward STRBUF_CLEANUP = STRBUF_INIT;
                struct asked asked;

                assert_int_equal(ask(texts[i], arena, &asked, &onward), 0);
                assert_true(asked.tunnel);
                assert_string_equal(asked.host, "a.example.org");
                assert_int_equal(asked.port, 443);
                assert_int_equal(onward.length, 0);
        }
}

static void refused(void **state) {
        static const struct {
                const char *text;
                unsigned status;
        } cases[] = {
                { GET("/", HOST), 400 },
                { GET("https://a.example.org/", HOST), 400 },
                { GET("ftp://a.example.org/", HOST), 400 },
                { GET("http:///", HOST), 400 },
                { GET("http://u@a.example.org/", HOST), 400 },
                { GET("http://a.example.org@127.0.0.1/", HOST), 400 },
                { GET("http://127.0.0.1/", "Host: 127.0.0.1\r\n"), 400 },
                { GET("http://[::1]/", "Host: [::1]\r\n"), 400 },
                { GET("http://localhost/", "Host: localhost\r\n"), 400 },
                { GET("http://a.example.org./", HOST), 400 },
                { GET("http://a.example.org:/", HOST), 400 },
                { GET("http://a.example.org:080/", HOST), 400 },
                { GET("http://a.example.org:65536/", HOST), 400 },
                { GET("http://a.example.org:80:80/", HOST), 400 },
                { GET("http://a.example.org\\@b.example.org/", HOST), 400 },
                { GET("http://a.example.org#b/", HOST), 400 },
                { GET("http://a.example.org/#b", HOST), 400 },
                { GET("http://a.example.org/\x7f", HOST), 400 },
                { GET("http://a.example.org/\xc3\xa9", HOST), 400 },
                { GET("http://a.example.org/", ""), 400 },
                { GET("http://a.example.org/", "Host:\r\n"), 400 },
                { GET("http://a.example.org/", "Host: b.example.org\r\n"), 400 },
                { GET("http://a.example.org/", "Host: a.example.org:81\r\n"), 400 },
                { GET("http://a.example.org/", HOST HOST), 400 },
                { GET("http://a.example.org/", HOST "Host: b.example.org\r\n"), 400 },
                { GET("http://a.example.org/", "Host: a.example.org, b.example.org\r\n"), 400 },
                { GET("http://a.example.org/", HOST "Transfer-Encoding: chunked\r\n"), 411 },
                { GET("http://a.example.org/", HOST "Transfer-Encoding: identity\r\nContent-Length: 3\r\n"),
                  411 },
                { GET("http://a.example.org/", HOST "Content-Length: 3\r\nContent-Length: 3\r\n"), 400 },
                { GET("http://a.example.org/", HOST "Content-Length: +3\r\n"), 400 },
                { GET("http://a.example.org/", HOST "Content-Length: 3,3\r\n"), 400 },
                { GET("http://a.example.org/", HOST "Content-Length:\r\n"), 400 },
                { GET("http://a.example.org/", HOST "Content-Length: 9999999999999999\r\n"), 400 },
                { GET("http://a.example.org/", HOST " X: folded\r\n"), 400 },
                { GET("http://a.example.org/", HOST "X : y\r\n"), 400 },
                { "GET http://a.example.org/ HTTP/2.0\r\n" HOST "\r\n", 505 },
                { "GET  http://a.example.org/ HTTP/1.1\r\n" HOST "\r\n", 400 },
                { CONNECT("a.example.org", HOST), 400 },
                { CONNECT("a.example.org:0", HOST), 400 },
                { CONNECT("a.example.org:443/", HOST), 400 },
                { CONNECT("http://a.example.org:443", HOST), 400 },
                { CONNECT("127.0.0.1:443", "Host: 127.0.0.1:443\r\n"), 400 },
                { CONNECT("[::ffff:127.0.0.1]:443", "Host: a.example.org\r\n"), 400 },
                { CONNECT("a.example.org:443", "Host: b.example.org:443\r\n"), 400 },
                { CONNECT("a.example.org:443", "Host: a.example.org:80\r\n"), 400 },
                { CONNECT("a.example.org:443", HOST "Content-Length: 3\r\n"), 400 },
                { CONNECT("a.example.org:443", HOST "Transfer-Encoding: chunked\r\n"), 400 },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                struct strbuf onward STRBUF_CLEANUP = STRBUF_INIT;
                struct asked asked;
                unsigned status = ask(cases[i].text, arena, &asked, &onward);

                if (status != cases[i].status)
                        fail_msg("%u instead of %u: %s", status, cases[i].status, cases[i].text);
                assert_int_equal(onward.length, 0);
        }
}

static void answers(void **state) {
        static const struct {
                const char *text, *onward; /* NULL: it does not go on */
        } cases[] = {
                { "HTTP/1.1 200 OK\r\nX: y\r\n\r\n", "HTTP/1.1 200 OK\r\nConnection: close\r\nX: y\r\n\r\n" },
                { "HTTP/1.0 404 No\r\n\r\n", "HTTP/1.0 404 No\r\nConnection: close\r\n\r\n" },
                { "HTTP/1.1 200 OK\r\nconnection: keep-alive,\r\n x\r\nKeep-Alive: 5\r\nProxy-Connection: x\r\nX: y\r\n z\r\n\r\n",
                  "HTTP/1.1 200 OK\r\nConnection: close\r\nX: y\r\n z\r\n\r\n" },
                { "HTTP/1.1 100 Continue\r\n\r\n", NULL },
                { "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", NULL },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct strbuf onward STRBUF_CLEANUP = STRBUF_INIT;
                char text[256];

                strcpy(text, cases[i].text);
                assert_int_equal(asked_answer(text, &onward), cases[i].onward != NULL);
                assert_string_equal(strbuf_text(&onward), cases[i].onward ? cases[i].onward : "");
        }
}

/* What goes on is a head as it would be taken, with what is added to it. */
static void many_fields(void **state) {
        (void)state;
        for (size_t count = HEAD_FIELDS_MAX - 3; count <= HEAD_FIELDS_MAX; count++) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                struct strbuf text STRBUF_CLEANUP = STRBUF_INIT, onward STRBUF_CLEANUP = STRBUF_INIT;
                struct asked asked;
                struct head again;
                const char *why;

                strbuf_append(&text, "GET http://a.example.org/ HTTP/1.1\r\n" HOST);
                for (size_t i = 0; i < count; i++)
                        strbuf_append(&text, "X: y\r\n");
                strbuf_append(&text, "\r\n");
                if (count + 2 > HEAD_FIELDS_MAX) {
                        assert_int_equal(ask(strbuf_text(&text), arena, &asked, &onward), 431);
                        continue;
                }
                assert_int_equal(ask(strbuf_text(&text), arena, &asked, &onward), 0);
                assert_int_equal(head_parse(arena_strdup(arena, strbuf_text(&onward)), arena, &again, &why),
                                 0);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(passed_on), cmocka_unit_test(tunnels),
                                            cmocka_unit_test(refused), cmocka_unit_test(answers),
                                            cmocka_unit_test(many_fields) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
