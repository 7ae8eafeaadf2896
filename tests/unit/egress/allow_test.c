/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "egress/allow.h"

static void entries(void **state) {
        static const char *const good[] = {
                "pypi.org",   "*.example.org", "a.b:1", "a.b:65535", "xn--bcher-kva.example",
                "1.2.3.4a.b", "*.a.b:8443",    "a--b.c"
        };
        static const char *const bad[] = {
                "",          "org",        "localhost", "*",          "*.org",      "*.*.a.b",     "a.*.b",
                "a.b.",      ".a.b",       "a..b",      "-a.b",       "a-.b",       "A.b",         "a_b.c",
                "127.0.0.1", "127.1",      "0x7f.1",    "2130706433", "a.1",        "[::1]",       "::1",
                "a.b:",      "a.b:0",      "a.b:080",   "a.b:65536",  "a.b:999999", "a.b:8443:1",  "a.b:+1",
                "a.b: 1",    "http://a.b", "a.b/c",     "a@b.c",      "a.b\n",      "a.b\xc3\xa9", " a.b",
                "**.a.b",    "*a.b",       "0.0.0.0",   "1.2.3.4.5"
        };

        (void)state;
        for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
                if (!allow_is_entry(good[i]))
                        fail_msg("%s is an entry", good[i]);
        }
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                if (allow_is_entry(bad[i]))
                        fail_msg("%s is no entry", bad[i]);
        }
}

static void lengths(void **state) {
        char host[300];

        (void)state;
        for (size_t i = 0; i < sizeof(host); i++)
                host[i] = i % 2 ? '.' : 'a';
        host[ALLOW_HOST_MAX] = '\0';
        assert_true(allow_is_host(host));
        host[ALLOW_HOST_MAX] = '.';
        host[ALLOW_HOST_MAX + 2] = '\0';
        assert_false(allow_is_host(host));
        for (size_t i = 0; i < 64; i++)
                host[i] = 'a';
        host[63] = '.';
        host[64] = 'b';
        host[65] = '\0';
        assert_true(allow_is_host(host));
        host[63] = 'a';
        host[64] = '.';
        host[65] = 'b';
        host[66] = '\0';
        assert_false(allow_is_host(host));
}

static void permits(void **state) {
        static const char *const texts[] = { "pypi.org", "*.example.org", "git.example.net:8443" };
        const struct allow_list list = { texts, 3, 1 }, none = { NULL, 0, 1 };
        static const struct {
                const char *host;
                uint16_t port;
                bool tls, permitted;
        } cases[] = {
                { "pypi.org", 443, true, true },
                { "pypi.org", 80, false, true },
                { "pypi.org", 443, false, false },
                { "pypi.org", 80, true, false },
                { "pypi.org", 8443, true, false },
                { "a.pypi.org", 443, true, false },
                { "xpypi.org", 443, true, false },
                { "pypi.org.evil.com", 443, true, false },
                { "a.example.org", 443, true, true },
                { "a.b.example.org", 80, false, true },
                { "example.org", 443, true, false },
                { "aexample.org", 443, true, false },
                { "git.example.net", 8443, true, true },
                { "git.example.net", 8443, false, true },
                { "git.example.net", 443, true, false },
                { "git.example.net", 80, false, false },
                { "a.git.example.net", 8443, true, false },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                if (allow_permits(&list, cases[i].host, cases[i].port, cases[i].tls) != cases[i].permitted)
                        fail_msg("%s:%u", cases[i].host, cases[i].port);
                assert_false(allow_permits(&none, cases[i].host, cases[i].port, cases[i].tls));
        }
}

static void ports(void **state) {
        uint16_t found[2] = { 0 };

        (void)state;
        assert_int_equal(allow_ports("a.b:8443", found), 1);
        assert_int_equal(found[0], 8443);
        assert_int_equal(allow_ports("*.a.b", found), 2);
        assert_int_equal(found[0], 443);
        assert_int_equal(found[1], 80);
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(entries), cmocka_unit_test(lengths),
                                            cmocka_unit_test(permits), cmocka_unit_test(ports) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
