/* SPDX-License-Identifier: Apache-2.0 */
/* Heads that are understood, and those that are refused. Whole requests are tests/e2e/test_controller_http.py's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/head.h"

#include <string.h>

#define FIELDS 4

struct fields {
        const char *list[FIELDS][2];
};

static unsigned read_with(const char *target, const char *version, const struct fields *fields,
                          const struct head_hosts *hosts, struct arena *arena, struct head_parts *ret) {
        struct head_field list[FIELDS];
        struct head head = { version, target, list, 0 };
        const char *why = "unset";
        unsigned status;

        for (size_t i = 0; i < FIELDS && fields->list[i][0]; i++)
                list[head.field_count++] =
                        (struct head_field){ fields->list[i][0], fields->list[i][1],
                                             strlen(fields->list[i][0]), strlen(fields->list[i][1]) };
        status = head_read(&head, hosts, arena, ret, &why);
        if (status)
                assert_true(why && *why);
        return status;
}

static const struct head_hosts none = { 0 };

static void targets(void **state) {
        static const struct {
                const char *target;
                unsigned status;
                const char *path;
        } cases[] = {
                { "/", 0, "/" },
                { "/a/b", 0, "/a/b" },
                { "/a%20b+c", 0, "/a b+c" },
                { "/%e2%82%AC", 0, "/\xE2\x82\xAC" },
                { "/a//../.%2e", 0, "/a//../.." },
                { "/a?b#c", 400, NULL },
                { "/a#c", 400, NULL },
                { "", 400, NULL },
                { "*", 400, NULL },
                { "a", 400, NULL },
                { "http://a/b", 400, NULL },
                { "/a b", 400, NULL },
                { "/a\tb", 400, NULL },
                { "/\xC3\xA4", 400, NULL },
                { "/%", 400, NULL },
                { "/%a", 400, NULL },
                { "/%ag", 400, NULL },
                { "/%%41", 400, NULL },
                { "/% 41", 400, NULL },
                { "/a%00", 400, NULL },
                { "/a%2fb", 400, NULL },
                { "/a%2Fb", 400, NULL },
                { "/a?b%2fc", 0, "/a" },
                { "/a?b=%00", 400, NULL },
                { "/a?b=%", 400, NULL },
                { "/a?%zz=b", 400, NULL },
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
        static const struct head_hosts listed = { names, 3, false }, any = { NULL, 0, true };
        static const struct {
                const char *host, *origin;
                unsigned to_none, to_listed, to_any;
        } cases[] = {
                { "localhost", NULL, 0, 0, 0 },
                { "localhost:9470", NULL, 0, 0, 0 },
                { "a.LocalHost", NULL, 0, 0, 0 },
                { "127.1.2.3:1", NULL, 0, 0, 0 },
                { "[::1]", NULL, 0, 0, 0 },
                { "[::1]:80", NULL, 0, 0, 0 },
                { "Berth.Example.COM:443", NULL, 421, 0, 0 },
                { "10.1.2.3:9470", NULL, 421, 0, 0 },
                { "[2001:db8::1]:9470", NULL, 421, 0, 0 },
                { "evil.example", NULL, 421, 421, 0 },
                { "localhost.evil.example", NULL, 421, 421, 0 },
                { "127.0.0.1.evil.example", NULL, 421, 421, 0 },
                { "xlocalhost", NULL, 421, 421, 0 },
                { "berth.example.com.", NULL, 421, 421, 0 },
                { "", NULL, 400, 400, 400 },
                { ":80", NULL, 400, 400, 400 },
                { "localhost:x", NULL, 400, 400, 400 },
                { "localhost@evil", NULL, 400, 400, 400 },
                { "localhost, evil", NULL, 400, 400, 400 },
                { "[::1", NULL, 400, 400, 400 },
                { "[::1]x", NULL, 400, 400, 400 },
                { "localhost", "http://localhost", 0, 0, 0 },
                { "localhost:80", "https://LOCALHOST:80", 0, 0, 0 },
                { "localhost:80", "http://localhost", 403, 403, 403 },
                { "localhost", "http://evil.example", 403, 403, 403 },
                { "localhost", "null", 403, 403, 403 },
                { "localhost", "", 403, 403, 403 },
                { "localhost", "http://localhost/", 403, 403, 403 },
                { "evil.example", "http://evil.example", 421, 421, 0 },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                const struct head_hosts *const hosts[] = { &none, &listed, &any };
                const unsigned wanted[] = { cases[i].to_none, cases[i].to_listed, cases[i].to_any };
                struct fields fields = { { { "Host", cases[i].host }, { "Origin", cases[i].origin } } };

                if (!cases[i].origin)
                        fields.list[1][0] = NULL;
                for (size_t k = 0; k < 3; k++) {
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

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(targets),      cmocka_unit_test(queries),
                cmocka_unit_test(long_targets), cmocka_unit_test(bodies),
                cmocka_unit_test(places),       cmocka_unit_test(hosts_that_are_missing),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
