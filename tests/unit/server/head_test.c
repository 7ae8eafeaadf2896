/* SPDX-License-Identifier: Apache-2.0 */
/* Heads that are understood, and those that are refused. Whole requests are tests/e2e/test_controller_http.py's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/strbuf.h"
#include "server/head.h"

#include <string.h>

#define FIELDS 4

struct fields {
        const char *list[FIELDS][2];
};

/* A head as text, read from its end to its meaning. */
static unsigned read_text(const char *text, size_t length, const struct head_hosts *hosts,
                          struct arena *arena, struct head *ret_head, struct head_parts *ret) {
        const char *why = "unset";
        size_t seen = 0;
        ssize_t end = head_end(text, length, &seen);
        unsigned status;

        *ret_head = (struct head){ 0 };
        *ret = (struct head_parts){ 0 };
        assert_int_not_equal(end, 0);
        if (end < 0)
                return 400;
        status = head_parse(arena_strndup(arena, text, (size_t)end), arena, ret_head, &why);
        if (status == 0)
                status = head_read(ret_head, hosts, arena, ret, &why);
        if (status)
                assert_true(why && *why);
        return status;
}

static unsigned read_with(const char *target, const char *version, const struct fields *fields,
                          const struct head_hosts *hosts, struct arena *arena, struct head_parts *ret) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct head head;

        strbuf_printf(&text, "GET %s %s\r\n", target, version);
        for (size_t i = 0; i < FIELDS && fields->list[i][0]; i++)
                strbuf_printf(&text, "%s: %s\r\n", fields->list[i][0], fields->list[i][1]);
        strbuf_append(&text, "\r\n");
        return read_text(text.data, text.length, hosts, arena, &head, ret);
}

static const struct head_hosts none = { 0 };

static void targets(void **state) {
        static const struct {
                const char *target;
                unsigned status;
                const char *path;
                size_t slash; /* where the first escaped one is; 0: none */
        } cases[] = {
                { "/", 0, "/", 0 },
                { "/a/b", 0, "/a/b", 0 },
                { "/a%20b+c", 0, "/a b+c", 0 },
                { "/%e2%82%AC", 0, "/\xE2\x82\xAC", 0 },
                { "/a//../.%2e", 0, "/a//../..", 0 },
                { "/a?b#c", 400, NULL, 0 },
                { "/a#c", 400, NULL, 0 },
                { "", 400, NULL, 0 },
                { "*", 400, NULL, 0 },
                { "a", 400, NULL, 0 },
                { "http://a/b", 400, NULL, 0 },
                { "/a b", 400, NULL, 0 },
                { "/a\tb", 400, NULL, 0 },
                { "/\xC3\xA4", 400, NULL, 0 },
                { "/%", 400, NULL, 0 },
                { "/%a", 400, NULL, 0 },
                { "/%ag", 400, NULL, 0 },
                { "/%%41", 400, NULL, 0 },
                { "/% 41", 400, NULL, 0 },
                { "/a%00", 400, NULL, 0 },
                { "/a%2fb", 0, "/a/b", 2 },
                { "/a/b%2Fc%2fd", 0, "/a/b/c/d", 4 },
                { "/a?b%2fc", 0, "/a", 0 },
                { "/a?b=%00", 400, NULL, 0 },
                { "/a?b=%", 400, NULL, 0 },
                { "/a?%zz=b", 400, NULL, 0 },
        };
        static const struct fields fields = { { { "Host", "localhost" } } };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                struct head_parts parts;
                unsigned status = read_with(cases[i].target, "HTTP/1.1", &fields, &none, arena, &parts);

                if (status != cases[i].status)
                        fail_msg("%s: %u", cases[i].target, status);
                if (cases[i].path)
                        assert_string_equal(parts.path, cases[i].path);
                if (status == 0 && cases[i].slash)
                        assert_ptr_equal(parts.slash, parts.path + cases[i].slash);
                else if (status == 0)
                        assert_null(parts.slash);
        }
}

static void queries(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        static const struct fields fields = { { { "Host", "localhost" } } };
        struct head_parts parts;
        char many[600] = "/?";

        (void)state;
        assert_int_equal(read_with("/a?x=1&y&&x=a+b%26c=d&=z&", "HTTP/1.1", &fields, &none, arena, &parts),
                         0);
        assert_int_equal(parts.query_count, 4);
        if (!parts.query) /* what assertions exclude is unknown to the analyzer */
                return;
        assert_string_equal(parts.query[0].name, "x");
        assert_string_equal(parts.query[0].value, "1");
        assert_string_equal(parts.query[1].name, "y");
        assert_string_equal(parts.query[1].value, "");
        assert_string_equal(parts.query[2].value, "a b&c=d");
        assert_string_equal(parts.query[3].name, "");
        assert_string_equal(parts.query[3].value, "z");
        for (int i = 0; i < 65; i++)
                strcat(many, "a=b&");
        assert_int_equal(read_with(many, "HTTP/1.1", &fields, &none, arena, &parts), 400);
}

static void long_targets(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        static const struct fields fields = { { { "Host", "localhost" } } };
        struct head_parts parts;
        char target[9000];

        (void)state;
        memset(target, 'a', sizeof(target));
        target[0] = '/';
        target[8192] = '\0';
        assert_int_equal(read_with(target, "HTTP/1.1", &fields, &none, arena, &parts), 0);
        target[8192] = 'a';
        target[8193] = '\0';
        assert_int_equal(read_with(target, "HTTP/1.1", &fields, &none, arena, &parts), 414);
}

static void bodies(void **state) {
        static const struct {
                const char *version;
                struct fields fields;
                unsigned status;
                bool has_body;
                unsigned long long length;
        } cases[] = {
                { "HTTP/1.1", { { { "Host", "localhost" } } }, 0, false, 0 },
                { "HTTP/1.1", { { { "Host", "localhost" }, { "content-length", "0" } } }, 0, false, 0 },
                { "HTTP/1.1", { { { "Host", "localhost" }, { "Content-Length", "12" } } }, 0, true, 12 },
                { "HTTP/1.1",
                  { { { "Host", "localhost" }, { "Transfer-Encoding", "CHUNKED" } } },
                  0,
                  true,
                  0 },
                { "HTTP/1.1",
                  { { { "Host", "localhost" }, { "Content-Length", "999999999999999999" } } },
                  0,
                  true,
                  999999999999999999ULL },
                { "HTTP/1.1",
                  { { { "Host", "localhost" }, { "Content-Length", "9999999999999999999" } } },
                  400,
                  false,
                  0 },
                { "HTTP/1.1", { { { "Host", "localhost" }, { "Content-Length", "" } } }, 400, false, 0 },
                { "HTTP/1.1", { { { "Host", "localhost" }, { "Content-Length", "-1" } } }, 400, false, 0 },
                { "HTTP/1.1", { { { "Host", "localhost" }, { "Content-Length", "1 2" } } }, 400, false, 0 },
                { "HTTP/1.1",
                  { { { "Host", "localhost" }, { "Content-Length", "1" }, { "CONTENT-LENGTH", "1" } } },
                  400,
                  false,
                  0 },
                { "HTTP/1.1",
                  { { { "Host", "localhost" },
                      { "Content-Length", "0" },
                      { "Transfer-Encoding", "chunked" } } },
                  400,
                  false,
                  0 },
                { "HTTP/1.1", { { { "Host", "localhost" }, { "Transfer-Encoding", "x" } } }, 400, false, 0 },
                { "HTTP/1.0",
                  { { { "Host", "localhost" }, { "Transfer-Encoding", "chunked" } } },
                  400,
                  false,
                  0 },
                { "HTTP/1.1", { { { "Host", "localhost" }, { "Content-Length ", "1" } } }, 400, false, 0 },
                { "HTTP/1.1", { { { "Host", "localhost" }, { "", "1" } } }, 400, false, 0 },
                { "HTTP/1.1", { { { "Host", "localhost" }, { "X", "a\rb" } } }, 400, false, 0 },
                { "HTTP/1.1", { { { "Host", "localhost" }, { "X", "a\tb \xC3\xA4" } } }, 0, false, 0 },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                struct head_parts parts;
                unsigned status = read_with("/", cases[i].version, &cases[i].fields, &none, arena, &parts);

                if (status != cases[i].status)
                        fail_msg("case %zu: %u", i, status);
                if (status == 0) {
                        assert_int_equal(parts.has_body, cases[i].has_body);
                        assert_true(parts.length == cases[i].length);
                }
        }
}

static void places(void **state) {
        static const char *const names[] = { "berth.example.com", "10.1.2.3", "[2001:db8::1]" };
        static const struct head_hosts listed = { .names = names, .count = 3 }, any = { .any = true },
                                       proxied = { .behind_proxy = true }, secure = { .by_tls = true };
        static const struct {
                const char *host, *origin;
                unsigned to_none, to_listed, to_any;
                bool https; /* of a proxy's clients, and of those who come by TLS */
        } cases[] = {
                { "localhost", NULL, 0, 0, 0, false },
                { "localhost:9470", NULL, 0, 0, 0, false },
                { "a.LocalHost", NULL, 0, 0, 0, false },
                { "127.1.2.3:1", NULL, 0, 0, 0, false },
                { "[::1]", NULL, 0, 0, 0, false },
                { "[::1]:80", NULL, 0, 0, 0, false },
                { "Berth.Example.COM:443", NULL, 421, 0, 0, false },
                { "10.1.2.3:9470", NULL, 421, 0, 0, false },
                { "[2001:db8::1]:9470", NULL, 421, 0, 0, false },
                { "evil.example", NULL, 421, 421, 0, false },
                { "localhost.evil.example", NULL, 421, 421, 0, false },
                { "127.0.0.1.evil.example", NULL, 421, 421, 0, false },
                { "xlocalhost", NULL, 421, 421, 0, false },
                { "berth.example.com.", NULL, 421, 421, 0, false },
                { "", NULL, 400, 400, 400, false },
                { ":80", NULL, 400, 400, 400, false },
                { "localhost:x", NULL, 400, 400, 400, false },
                { "localhost@evil", NULL, 400, 400, 400, false },
                { "localhost, evil", NULL, 400, 400, 400, false },
                { "[::1", NULL, 400, 400, 400, false },
                { "[::1]x", NULL, 400, 400, 400, false },
                { "localhost", "http://localhost", 0, 0, 0, false },
                { "localhost:80", "http://LOCALHOST:80", 0, 0, 0, false },
                { "localhost:80", "https://localhost:80", 403, 403, 403, true },
                { "localhost", "https://localhost", 403, 403, 403, true },
                { "localhost", "ftp://localhost", 403, 403, 403, false },
                { "localhost:80", "http://localhost", 403, 403, 403, false },
                { "localhost", "http://evil.example", 403, 403, 403, false },
                { "localhost", "null", 403, 403, 403, false },
                { "localhost", "", 403, 403, 403, false },
                { "localhost", "http://localhost/", 403, 403, 403, false },
                { "evil.example", "http://evil.example", 421, 421, 0, false },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                const struct head_hosts *const hosts[] = { &none, &listed, &any, &proxied, &secure };
                bool by_http = cases[i].origin && strncmp(cases[i].origin, "http://", 7) == 0;
                const unsigned wanted[] = { cases[i].to_none, cases[i].to_listed, cases[i].to_any,
                                            cases[i].https ? 0 : cases[i].to_none,
                                            cases[i].https                     ? 0
                                            : by_http && cases[i].to_none == 0 ? 403
                                                                               : cases[i].to_none };
                struct fields fields = { { { "Host", cases[i].host }, { "Origin", cases[i].origin } } };

                if (!cases[i].origin)
                        fields.list[1][0] = NULL;
                for (size_t k = 0; k < 5; k++) {
                        struct arena *arena ARENA_CLEANUP = arena_new();
                        struct head_parts parts;
                        unsigned status = read_with("/", "HTTP/1.1", &fields, hosts[k], arena, &parts);

                        if (status != wanted[k])
                                fail_msg("%s, %s, %zu: %u", cases[i].host,
                                         cases[i].origin ? cases[i].origin : "-", k, status);
                }
        }
}

static void hosts_that_are_missing(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        static const struct fields nothing = { 0 },
                                   twice = { { { "Host", "localhost" }, { "host", "localhost" } } },
                                   origin = { { { "Origin", "http://localhost" } } };
        struct head_parts parts;

        (void)state;
        assert_int_equal(read_with("/", "HTTP/1.1", &nothing, &none, arena, &parts), 400);
        assert_int_equal(read_with("/", "HTTP/1.0", &nothing, &none, arena, &parts), 0);
        assert_int_equal(read_with("/", "HTTP/1.0", &origin, &none, arena, &parts), 403);
        assert_int_equal(read_with("/", "HTTP/1.1", &twice, &none, arena, &parts), 400);
}

#define HOST "Host: localhost\r\n"

/* Every way in which two programs were found to read one head as two, or as something else. */
static void letters_of_the_grammar(void **state) {
        static const struct {
                const char *text;
                size_t length; /* where a NUL is in it */
                unsigned status;
        } cases[] = {
                { "GET / HTTP/1.1\r\n" HOST "\r\n", 0, 0 },
                { "\r\nGET / HTTP/1.1\r\n" HOST "\r\n", 0, 0 },
                { "GET / HTTP/1.0\r\n\r\n", 0, 0 },
                { "GET / HTTP/1.1\r\nHost:localhost\r\n\r\n", 0, 0 },
                { "GET / HTTP/1.1\r\nHost:\t localhost \t\r\nX:\r\nY: \r\n\r\n", 0, 0 },
                { "!#$%&'*+-.^_`|~ / HTTP/1.1\r\n" HOST "\r\n", 0, 0 },
                { "\r\n\r\n", 0, 400 },
                { "\r\n\r\nGET / HTTP/1.1\r\n" HOST "\r\n", 0, 400 },
                /* lines */
                { "GET / HTTP/1.1\n", 0, 400 },
                { "GET / HTTP/1.1\r\nHost: localhost\n", 0, 400 },
                { "GET / HTTP/1.1\r\n" HOST "\n", 0, 400 },
                { "GET / HTTP/1.1\r\n" HOST "X: a\rb", 0, 400 },
                { "GET / HTTP/1.1\r\n" HOST "X: a\r\r\n", 0, 400 },
                { "\nGET / HTTP/1.1\r\n" HOST "\r\n", 0, 400 },
                { "GET / HTTP/1.1\r\nHost: localhost\0.evil\r\n\r\n", 43, 400 },
                { "GET / HTTP/1.1\r\n" HOST "Content-Length: 5\0006\r\n\r\n", 56, 400 },
                { "GET /\0 HTTP/1.1\r\n" HOST "\r\n", 36, 400 },
                /* the request line */
                { "GET / HTTP/1.1 \r\n" HOST "\r\n", 0, 400 },
                { "GET  / HTTP/1.1\r\n" HOST "\r\n", 0, 400 },
                { " GET / HTTP/1.1\r\n" HOST "\r\n", 0, 400 },
                { "GET /  HTTP/1.1\r\n" HOST "\r\n", 0, 400 },
                { "GET\t/ HTTP/1.1\r\n" HOST "\r\n", 0, 400 },
                { "GET /\tHTTP/1.1\r\n" HOST "\r\n", 0, 400 },
                { "GET /\r\n" HOST "\r\n", 0, 400 },
                { "GET\r\n" HOST "\r\n", 0, 400 },
                { "G(T / HTTP/1.1\r\n" HOST "\r\n", 0, 400 },
                { "GET / http/1.1\r\n" HOST "\r\n", 0, 400 },
                { "GET / HTTP/1.1x\r\n" HOST "\r\n", 0, 400 },
                { "GET / HTTP/01.1\r\n" HOST "\r\n", 0, 400 },
                { "GET / HTTP/1.10\r\n" HOST "\r\n", 0, 400 },
                { "GET / HTTP/11\r\n" HOST "\r\n", 0, 400 },
                { "GET / HTTP/1.2\r\n" HOST "\r\n", 0, 505 },
                { "PRI * HTTP/2.0\r\n\r\n", 0, 505 },
                /* fields */
                { "GET / HTTP/1.1\r\n" HOST ":\r\n\r\n", 0, 400 },
                { "GET / HTTP/1.1\r\n" HOST ": x\r\n\r\n", 0, 400 },
                { "GET / HTTP/1.1\r\n" HOST "x\r\n\r\n", 0, 400 },
                { "GET / HTTP/1.1\r\n" HOST "X : y\r\n\r\n", 0, 400 },
                { "GET / HTTP/1.1\r\n" HOST "X\t: y\r\n\r\n", 0, 400 },
                { "GET / HTTP/1.1\r\n" HOST "X y: z\r\n\r\n", 0, 400 },
                { "GET / HTTP/1.1\r\n" HOST "X: y\r\n z\r\n\r\n", 0, 400 },
                { "GET / HTTP/1.1\r\n" HOST "X: y\r\n\tz: a\r\n\r\n", 0, 400 },
                { "GET / HTTP/1.1\r\n X: y\r\n" HOST "\r\n", 0, 400 },
                { "GET / HTTP/1.1\r\n" HOST "X: a\x01\r\n\r\n", 0, 400 },
                { "GET / HTTP/1.1\r\n" HOST "X: a\x7f\r\n\r\n", 0, 400 },
                { "GET / HTTP/1.1\r\n" HOST "X\xc3\xa4: a\r\n\r\n", 0, 400 },
                /* the body's end */
                { "GET / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked, chunked\r\n\r\n", 0, 400 },
                { "GET / HTTP/1.1\r\n" HOST "Transfer-Encoding: xchunked\r\n\r\n", 0, 400 },
                { "GET / HTTP/1.1\r\n" HOST "Transfer-Encoding:\r\n\r\n", 0, 400 },
                { "GET / HTTP/1.1\r\n" HOST "Transfer-Encoding: \x0b"
                  "chunked\r\n\r\n",
                  0, 400 },
                { "GET / HTTP/1.1\r\n" HOST "Content-Length: 5,\r\n\r\n", 0, 400 },
                { "GET / HTTP/1.1\r\n" HOST "Content-Length: 0x5\r\n\r\n", 0, 400 },
                { "GET / HTTP/1.1\r\n" HOST "Expect: 100-Continue\r\n\r\n", 0, 0 },
                { "GET / HTTP/1.1\r\n" HOST "Expect: tea\r\n\r\n", 0, 417 },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                size_t length = cases[i].length ? cases[i].length : strlen(cases[i].text);
                struct head_parts parts;
                struct head head;
                unsigned status = read_text(cases[i].text, length, &none, arena, &head, &parts);

                if (status != cases[i].status)
                        fail_msg("case %zu: %s: %u", i, cases[i].text, status);
        }
}

static void what_is_taken_apart(void **state) {
        static const char text[] = "PUT /a?b HTTP/1.1\r\nHost: \t localhost \r\nX: a  b\t\r\nEmpty:\r\n"
                                   "Connection: keep-alive ,\tCLOSE\r\n\r\nGET ";
        static const char unlike[] =
                "GET / HTTP/1.1\r\n" HOST "Connection: closed, x-close\r\nX: close\r\n\r\n";
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct head_parts parts;
        struct head head;

        (void)state;
        assert_int_equal(read_text(text, sizeof(text) - 1, &none, arena, &head, &parts), 0);
        assert_string_equal(head.method, "PUT");
        assert_string_equal(head.target, "/a?b");
        assert_false(head.old);
        assert_int_equal(head.field_count, 4);
        assert_string_equal(head_field(&head, "HOST"), "localhost");
        assert_string_equal(head_field(&head, "X"), "a  b");
        assert_string_equal(head_field(&head, "empty"), "");
        assert_null(head_field(&head, "Y"));
        assert_true(parts.last);
        assert_int_equal(read_text(unlike, sizeof(unlike) - 1, &none, arena, &head, &parts), 0);
        assert_false(parts.last);
}

/* However it is cut into pieces, its end is found once it is there, and what makes it none as soon. */
static void heads_that_come_in_pieces(void **state) {
        static const char text[] = "GET / HTTP/1.1\r\n" HOST "\r\nGET", broken[] = "GET / HTTP/1.1\r\nX: a\n";

        (void)state;
        for (size_t step = 1; step < sizeof(text); step++) {
                size_t seen = 0, length = 0;
                ssize_t end = 0;

                while (end == 0 && length < sizeof(text) - 1) {
                        length = length + step < sizeof(text) - 1 ? length + step : sizeof(text) - 1;
                        end = head_end(text, length, &seen);
                }
                assert_int_equal(end, sizeof(text) - 4);
                assert_true(length < sizeof(text) - 4 + step);
                seen = 0;
                end = 0;
                for (length = step; end == 0 && length < sizeof(broken); length += step)
                        end = head_end(broken, length, &seen);
                if (length > sizeof(broken) - 1 && end == 0)
                        end = head_end(broken, sizeof(broken) - 1, &seen);
                assert_int_equal(end, -1);
        }
}

static void too_many_fields(void **state) {
        (void)state;
        for (int count = 128; count <= 129; count++) {
                struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
                struct arena *arena ARENA_CLEANUP = arena_new();
                struct head_parts parts;
                struct head head;

                strbuf_append(&text, "GET / HTTP/1.1\r\n" HOST);
                for (int i = 1; i < count; i++)
                        strbuf_append(&text, "X: y\r\n");
                strbuf_append(&text, "\r\n");
                assert_int_equal(read_text(text.data, text.length, &none, arena, &head, &parts),
                                 count > 128 ? 431 : 0);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(targets),
                cmocka_unit_test(queries),
                cmocka_unit_test(long_targets),
                cmocka_unit_test(bodies),
                cmocka_unit_test(places),
                cmocka_unit_test(hosts_that_are_missing),
                cmocka_unit_test(letters_of_the_grammar),
                cmocka_unit_test(what_is_taken_apart),
                cmocka_unit_test(heads_that_come_in_pieces),
                cmocka_unit_test(too_many_fields),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
