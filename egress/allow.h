/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which hosts may be reached: network.allow of an Environment, as it comes to the proxy. Pure.
 *
 * | entry       | permits                                                              |
 * |-------------|----------------------------------------------------------------------|
 * | HOST        | TLS on port 443, HTTP on port 80                                     |
 * | HOST:PORT   | either, on that port alone                                           |
 * | *.HOST      | the same for every name below HOST, however deep, and not for HOST   |
 *
 * A host is a name in small letters, of two labels or more, whose last one begins with a letter. So no address is one, in any
 * of the forms that programs read one from (127.1, 0x7f.1, 2130706433), and neither is "localhost".
 */
#ifndef BERTH_EGRESS_ALLOW_H
#define BERTH_EGRESS_ALLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ALLOW_ENTRIES_MAX 256
#define ALLOW_HOST_MAX 253

struct allow_list {
        const char *const *entries; /* checked ones */
        size_t count;               /* 0: nothing may be reached, and there is no proxy */
        uint64_t bytes_max;         /* that one sandbox may send and receive in 24 hours */
};

bool allow_is_host(const char *text);
bool allow_is_entry(const char *text);
/* `host` is one, as allow_is_host() says. */
bool allow_permits(const struct allow_list *list, const char *host, uint16_t port, bool tls);
/* A port that an entry names, and 443 and 80 where one names none: at most two. How many there are. */
size_t allow_ports(const char *entry, uint16_t ret[2]);

#endif
