/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/allow.h"

#include <stdlib.h>
#include <string.h>

#define TLS_PORT 443
#define HTTP_PORT 80
#define LABEL_MAX 63
#define PORT_DIGITS_MAX 5

static bool is_small(char c) {
        return c >= 'a' && c <= 'z';
}

static bool is_digit(char c) {
        return c >= '0' && c <= '9';
}

/* Letters, digits, and dashes within. Names with an underscore are of services and not of hosts. */
static bool is_label(const char *text, size_t length) {
        if (length == 0 || length > LABEL_MAX || text[0] == '-' || text[length - 1] == '-')
                return false;
        for (size_t i = 0; i < length; i++) {
                if (!is_small(text[i]) && !is_digit(text[i]) && text[i] != '-')
                        return false;
        }
        return true;
}

static bool is_host(const char *text, size_t length) {
        size_t labels = 0, begin = 0;

        if (length > ALLOW_HOST_MAX)
                return false;
        for (size_t i = 0; i <= length; i++) {
                if (i < length && text[i] != '.')
                        continue;
                if (!is_label(text + begin, i - begin))
                        return false;
                labels++;
                if (i < length)
                        begin = i + 1;
        }
        return labels >= 2 && is_small(text[begin]);
}

bool allow_is_host(const char *text) {
        return is_host(text, strlen(text));
}

/* 0 for what is no port: digits alone, with no zero in front. */
static unsigned parse_port(const char *text) {
        size_t length = strlen(text);
        unsigned long number;

        if (length == 0 || length > PORT_DIGITS_MAX || text[0] == '0' || strspn(text, "0123456789") != length)
                return 0;
        number = strtoul(text, NULL, 10);
        return number <= UINT16_MAX ? (unsigned)number : 0;
}

bool allow_is_entry(const char *text) {
        size_t length;

        if (strncmp(text, "*.", 2) == 0)
                text += 2;
        length = strcspn(text, ":");
        return is_host(text, length) && (text[length] == '\0' || parse_port(text + length + 1) != 0);
}

size_t allow_ports(const char *entry, uint16_t ret[2]) {
        const char *colon = strchr(entry, ':');

        ret[0] = colon ? (uint16_t)parse_port(colon + 1) : TLS_PORT;
        ret[1] = HTTP_PORT;
        return colon ? 1 : 2;
}

/* Of a star, what is below it: ".example.org" must be the end of the host, and something must stand in front. */
static bool names(const char *entry, const char *host) {
        size_t length = strcspn(entry, ":"), host_length = strlen(host);

        if (entry[0] != '*')
                return length == host_length && memcmp(entry, host, length) == 0;
        entry++;
        length--;
        return host_length > length && memcmp(host + host_length - length, entry, length) == 0;
}

bool allow_permits(const struct allow_list *list, const char *host, uint16_t port, bool tls) {
        for (size_t i = 0; i < list->count; i++) {
                const char *colon = strchr(list->entries[i], ':');
                unsigned wanted = colon ? parse_port(colon + 1) : tls ? TLS_PORT : HTTP_PORT;

                if (port == wanted && names(list->entries[i], host))
                        return true;
        }
        return false;
}
