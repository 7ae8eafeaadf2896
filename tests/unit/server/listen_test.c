/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses that can be listened on, and invalid ones. */
#include "server/listen.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <sys/socket.h>

#include <cmocka.h>

/* Whether a client reaches that port on the loopback address of a family. */
static bool reaches(int family, unsigned port) {
        struct sockaddr_in four = { .sin_family = AF_INET,
                                    .sin_port = htons((uint16_t)port),
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        struct sockaddr_in6 six = { .sin6_family = AF_INET6,
                                    .sin6_port = htons((uint16_t)port),
                                    .sin6_addr = IN6ADDR_LOOPBACK_INIT };
        int client = socket(family, SOCK_STREAM, 0), result;

        assert_true(client >= 0);
        result = family == AF_INET ? connect(client, (const struct sockaddr *)&four, sizeof(four))
                                   : connect(client, (const struct sockaddr *)&six, sizeof(six));
        close(client);
        return result == 0;
}

static bool has_six(void) {
        struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
        int probe = socket(AF_INET6, SOCK_STREAM, 0);
        bool result = probe >= 0 && bind(probe, (const struct sockaddr *)&six, sizeof(six)) == 0;

        if (probe >= 0)
                close(probe);
        return result;
}

static void listens(void **state) {
        static const struct {
                const char *address;
                bool four, six;
        } cases[] = {
                { "127.0.0.1:0", true, false }, { "[::1]:0", false, true },   { ":0", true, true },
                { "localhost:0", true, false }, { "0.0.0.0:0", true, false },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct error err = { 0 };
                unsigned port = 0;
                int listener = -1;

                if (!cases[i].four && !has_six())
                        continue;
                if (listen_open(cases[i].address, &listener, &port, &err) < 0)
                        fail_msg("%s: %s", cases[i].address, err.message);
                assert_true(port > 0);
                assert_int_equal(reaches(AF_INET, port), cases[i].four);
                if (has_six())
                        assert_int_equal(reaches(AF_INET6, port), cases[i].six);
                close(listener);
        }
}

static void refused(void **state) {
        static const char *const cases[] = { "",           "127.0.0.1",      "9470",
                                             "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:65536",
                                             "::1:9470",   "[::1]",          "[]:0",
                                             "[::1:0",     "127.0.0.1:-1",   "127.0.0.1:123456",
                                             "fe80::1:0",  "127.0.0.1: 0",   "[::1]x:9470" };
        char longest[400];

        (void)state;
        memset(longest, 'a', sizeof(longest));
        snprintf(longest + 300, 8, ":0");
        for (size_t i = 0; i <= sizeof(cases) / sizeof(cases[0]); i++) {
                const char *address = i < sizeof(cases) / sizeof(cases[0]) ? cases[i] : longest;
                struct error err = { 0 };
                unsigned port = 7;
                int listener = -7;

                if (listen_open(address, &listener, &port, &err) != -1)
                        fail_msg("%s was taken", address);
                assert_non_null(strstr(err.message, "is no address to listen on: it should look like"));
                assert_int_equal(listener, -7);
                assert_int_equal(port, 7);
        }
}

static void taken(void **state) {
        struct error err = { 0 };
        char address[32];
        unsigned port;
        int first, second = -1;

        (void)state;
        assert_int_equal(listen_open("127.0.0.1:0", &first, &port, &err), 0);
        snprintf(address, sizeof(address), "127.0.0.1:%u", port);
        assert_int_equal(listen_open(address, &second, &port, &err), -1);
        assert_non_null(strstr(err.message, strerror(EADDRINUSE)));
        close(first);
        assert_int_equal(listen_open("192.0.2.1:0", &second, &port, &err), -1);
        assert_non_null(strstr(err.message, "cannot listen on 192.0.2.1:0: "));
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(listens), cmocka_unit_test(refused),
                                            cmocka_unit_test(taken) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
