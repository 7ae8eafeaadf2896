/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/address.h"

#include "base/files.h"

#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FOUR(a, b, c, d) ((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (uint32_t)(d))

static const struct {
        uint32_t network;
        unsigned bits;
} refused_four[] = {
        { FOUR(0, 0, 0, 0), 8 },       /* this network; 0.0.0.0 is this machine */
        { FOUR(10, 0, 0, 0), 8 },      /* private */
        { FOUR(100, 64, 0, 0), 10 },   /* shared with a carrier; 100.100.100.200 is a cloud's metadata */
        { FOUR(127, 0, 0, 0), 8 },     /* loopback */
        { FOUR(169, 254, 0, 0), 16 },  /* link-local; 169.254.169.254 is a cloud's metadata */
        { FOUR(172, 16, 0, 0), 12 },   /* private */
        { FOUR(192, 0, 0, 0), 24 },    /* protocols; 192.0.0.192 is a cloud's metadata */
        { FOUR(192, 0, 2, 0), 24 },    /* documentation */
        { FOUR(192, 88, 99, 0), 24 },  /* relays of 6to4 */
        { FOUR(192, 168, 0, 0), 16 },  /* private */
        { FOUR(198, 18, 0, 0), 15 },   /* benchmarks */
        { FOUR(198, 51, 100, 0), 24 }, /* documentation */
        { FOUR(203, 0, 113, 0), 24 },  /* documentation */
        { FOUR(224, 0, 0, 0), 3 },     /* multicast, reserved, broadcast */
        { FOUR(168, 63, 129, 16), 32 } /* public by its number, and a cloud's metadata inside of it */
};

/* Within 2000::/3, outside of which nothing is public: there lie NAT64, mapped and compatible forms, fc00::/7, fe80::/10, ff00::/8. */
static const struct {
        uint8_t network[16];
        unsigned bits;
} refused_six[] = {
        { { 0x20, 0x01, 0x00, 0x00 }, 23 },       /* protocols; Teredo, ORCHID and benchmarks among them */
        { { 0x20, 0x01, 0x0d, 0xb8 }, 32 },       /* documentation */
        { { 0x20, 0x02 }, 16 },                   /* 6to4: an IPv4 address within */
        { { 0x3f, 0xff }, 20 },                   /* documentation */
        { { 0x26, 0x20, 0x00, 0x4f, 0x80 }, 48 }, /* AS112 */
};

static bool is_public_four(uint32_t address) {
        for (size_t i = 0; i < sizeof(refused_four) / sizeof(refused_four[0]); i++) {
                uint32_t mask = UINT32_MAX << (32 - refused_four[i].bits);

                if ((address & mask) == refused_four[i].network)
                        return false;
        }
        return true;
}

static bool is_in_network(const uint8_t *address, const uint8_t *network, unsigned bits) {
        uint8_t mask = (uint8_t)(0xff << (8 - bits % 8));

        return memcmp(address, network, bits / 8) == 0 &&
               (bits % 8 == 0 || (address[bits / 8] & mask) == network[bits / 8]);
}

/*
 * 64:ff9b::/96 and 64:ff9b:1::/48 (NAT64) are outside of 2000::/3. ISATAP hides an IPv4 address behind any prefix, and says so
 * in the middle: ::0:5efe:a.b.c.d, with or without the bit that says it is unique.
 */
static bool is_public_six(const uint8_t address[16]) {
        if ((address[0] & 0xe0) != 0x20)
                return false;
        for (size_t i = 0; i < sizeof(refused_six) / sizeof(refused_six[0]); i++) {
                if (is_in_network(address, refused_six[i].network, refused_six[i].bits))
                        return false;
        }
        return !((address[8] & 0xfd) == 0 && address[9] == 0 && address[10] == 0x5e && address[11] == 0xfe);
}

bool address_is_public(const struct sockaddr *address) {
        struct sockaddr_in four;
        struct sockaddr_in6 six;

        if (address->sa_family == AF_INET) {
                memcpy(&four, address, sizeof(four));
                return is_public_four(ntohl(four.sin_addr.s_addr));
        }
        if (address->sa_family != AF_INET6)
                return false;
        memcpy(&six, address, sizeof(six));
        return is_public_six(six.sin6_addr.s6_addr);
}

/* Without a route nothing can be sent there, and so not to this machine. A kernel without IPv6 has no route either. */
static bool is_without_route(int reason) {
        static const int reasons[] = { ENETUNREACH,  EHOSTUNREACH, ENETDOWN, EADDRNOTAVAIL,
                                       EAFNOSUPPORT, EACCES,       EPERM,    EINVAL };

        for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
                if (reason == reasons[i])
                        return true;
        }
        return false;
}

/* Nothing is sent: connect() chooses the address that a datagram would leave from. The address itself, where it is this machine's. */
int address_leads_here(const struct sockaddr *address, socklen_t length) {
        int probe DESCRIPTOR_CLEANUP = socket(address->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        struct sockaddr_in four, own_four = { 0 };
        struct sockaddr_in6 six, own_six = { 0 };
        bool is_four = address->sa_family == AF_INET;
        socklen_t own_length = is_four ? sizeof(own_four) : sizeof(own_six);

        if (probe < 0 || connect(probe, address, length) < 0 ||
            getsockname(probe, is_four ? (struct sockaddr *)&own_four : (struct sockaddr *)&own_six,
                        &own_length) < 0)
                return is_without_route(errno) ? 0 : -1;
        if (is_four) {
                memcpy(&four, address, sizeof(four));
                return four.sin_addr.s_addr == own_four.sin_addr.s_addr;
        }
        memcpy(&six, address, sizeof(six));
        return memcmp(&six.sin6_addr, &own_six.sin6_addr, sizeof(six.sin6_addr)) == 0;
}
