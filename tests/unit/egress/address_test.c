/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "egress/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/un.h>

static bool is_public(const char *text) {
        struct sockaddr_in four = { .sin_family = AF_INET };
        struct sockaddr_in6 six = { .sin6_family = AF_INET6 };

        if (strchr(text, ':')) {
                assert_int_equal(inet_pton(AF_INET6, text, &six.sin6_addr), 1);
                return address_is_public((struct sockaddr *)&six);
        }
        assert_int_equal(inet_pton(AF_INET, text, &four.sin_addr), 1);
        return address_is_public((struct sockaddr *)&four);
}

static void public_ones(void **state) {
        static const char *const list[] = {
                "1.0.0.0",         "9.255.255.255",  "11.0.0.0",        "100.63.255.255",  "100.128.0.0",
                "126.255.255.255", "128.0.0.0",      "169.253.255.255", "169.255.0.0",     "172.15.255.255",
                "172.32.0.0",      "192.0.1.0",      "192.88.98.255",   "192.167.255.255", "192.169.0.0",
                "198.17.255.255",  "198.20.0.0",     "203.0.112.255",   "203.0.114.0",     "223.255.255.255",
                "168.63.129.15",   "168.63.129.17",  "2001:200::",      "2001:db7:ffff::", "2001:db9::",
                "2003::",          "2600:1f00::1",   "2a00::1",         "3ffe:ffff::",     "3fff:1000::",
                "2620:4f:7fff::",  "2620:4f:8001::",
        };

        (void)state;
        for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
                if (!is_public(list[i]))
                        fail_msg("%s is public", list[i]);
        }
}

static void others(void **state) {
        static const char *const list[] = {
                "0.0.0.0",
                "0.255.255.255",
                "10.0.0.0",
                "10.255.255.255",
                "100.64.0.0",
                "100.127.255.255",
                "100.100.100.200",
                "127.0.0.0",
                "127.0.0.1",
                "127.255.255.255",
                "169.254.0.0",
                "169.254.169.254",
                "169.254.255.255",
                "172.16.0.0",
                "172.31.255.255",
                "192.0.0.0",
                "192.0.0.192",
                "192.0.2.1",
                "192.88.99.1",
                "192.168.0.0",
                "192.168.255.255",
                "198.18.0.0",
                "198.19.255.255",
                "198.51.100.1",
                "203.0.113.1",
                "224.0.0.1",
                "239.255.255.255",
                "240.0.0.1",
                "255.255.255.255",
                "168.63.129.16",
                /* nothing, loopback; mapped, compatible and translated forms; NAT64, discard */
                "::",
                "::1",
                "::ffff:127.0.0.1",
                "::ffff:8.8.8.8",
                "::8.8.8.8",
                "::ffff:0:8.8.8.8",
                "64:ff9b::8.8.8.8",
                "64:ff9b:1::1",
                "100::1",
                /* Teredo, ORCHID, benchmarks, documentation, 6to4, ISATAP */
                "2001::1",
                "2001:0:808:808::",
                "2001:1::1",
                "2001:2::1",
                "2001:20::1",
                "2001:1ff:ffff::",
                "2001:db8::1",
                "2002:7f00:1::1",
                "2002:808:808::1",
                "3fff::1",
                "3fff:fff:ffff::",
                "2600:1f00::5efe:10.0.0.1",
                "2600:1f00::200:5efe:8.8.8.8",
                "2620:4f:8000::1",
                /* private, a cloud's metadata, link-local, site-local, multicast, segments of routing, elsewhere */
                "fc00::1",
                "fd00:ec2::254",
                "fe80::1",
                "fec0::1",
                "ff02::1",
                "5f00::1",
                "4000::1",
                "1fff:ffff::1",
                "e000::1",
        };

        (void)state;
        for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
                if (is_public(list[i]))
                        fail_msg("%s is not public", list[i]);
        }
        assert_false(address_is_public((struct sockaddr *)&(struct sockaddr_un){ .sun_family = AF_UNIX }));
}

static int leads_here(const char *text) {
        struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(443) };
        struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons(443) };

        if (strchr(text, ':')) {
                assert_int_equal(inet_pton(AF_INET6, text, &six.sin6_addr), 1);
                return address_leads_here((struct sockaddr *)&six, sizeof(six));
        }
        assert_int_equal(inet_pton(AF_INET, text, &four.sin_addr), 1);
        return address_leads_here((struct sockaddr *)&four, sizeof(four));
}

/* With a route, without one, and without descriptors: what cannot be found out is not "elsewhere". */
static void own_ones_are_found(void **state) {
        struct rlimit before, none;

        (void)state;
        assert_int_equal(leads_here("127.0.0.1"), 1);
        assert_int_equal(leads_here("192.0.2.1"), 0);
        assert_int_equal(leads_here("2001:db8::1"), 0);
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
        none = (struct rlimit){ 0, before.rlim_max };
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
        assert_int_equal(leads_here("127.0.0.1"), -1);
        assert_int_equal(leads_here("192.0.2.1"), -1);
        assert_int_equal(leads_here("2001:db8::1"), -1);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(public_ones), cmocka_unit_test(others),
                                            cmocka_unit_test(own_ones_are_found) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
