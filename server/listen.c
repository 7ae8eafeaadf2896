/* SPDX-License-Identifier: Apache-2.0 */
#include "server/listen.h"

#include "base/files.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 64

struct place {
        char host[256]; /* "" for every address */
        char port[8];
};

static int wrong(const char *address, struct error *err) {
        return error_set(err,
                         "\"%.100s\" is no address to listen on: it should look like 127.0.0.1:9470, "
                         "[::1]:9470 or :9470",
                         address);
}

static bool is_port_text(const char *text) {
        size_t digits = strspn(text, "0123456789");

        return digits > 0 && digits <= 5 && text[digits] == '\0' && strtol(text, NULL, 10) <= 65535;
}

static int parse_address(const char *address, struct place *ret, struct error *err) {
        const char *colon = strrchr(address, ':'), *host = address;
        size_t length;

        if (!colon || !is_port_text(colon + 1))
                return wrong(address, err);
        length = (size_t)(colon - address);
        if (*host == '[') {
                if (length < 3 || colon[-1] != ']')
                        return wrong(address, err);
                host++;
                length -= 2;
        } else if (memchr(host, ':', length)) {
                return wrong(address,
                             err); /* an IPv6 address without its brackets: which colon is the port's? */
        }
        if (length >= sizeof(ret->host))
                return wrong(address, err);
        memcpy(ret->host, host, length);
        ret->host[length] = '\0';
        snprintf(ret->port, sizeof(ret->port), "%s", colon + 1);
        return 0;
}

/* -1 with errno. */
static int open_one(const struct addrinfo *at, bool all) {
        int descriptor DESCRIPTOR_CLEANUP =
                socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, at->ai_protocol);
        int one = 1, only = !all, result;

        if (descriptor < 0)
                return -1;
        /* A restart may not have to wait until the last connections of the one before are forgotten. */
        if (setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
            (at->ai_family == AF_INET6 &&
             setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only)) < 0) ||
            bind(descriptor, at->ai_addr, at->ai_addrlen) < 0 || listen(descriptor, BACKLOG) < 0)
                return -1;
        result = descriptor;
        descriptor = -1;
        return result;
}

static unsigned bound_port(int descriptor) {
        union {
                struct sockaddr any;
                struct sockaddr_in four;
                struct sockaddr_in6 six;
        } address = { .six = { 0 } };
        socklen_t length = sizeof(address);

        if (getsockname(descriptor, &address.any, &length) < 0)
                return 0;
        return ntohs(address.any.sa_family == AF_INET6 ? address.six.sin6_port : address.four.sin_port);
}

/* The first of `family` that can be had; -1 with errno. */
static int open_of(const struct addrinfo *found, int family, bool all) {
        int last = EAFNOSUPPORT;

        for (const struct addrinfo *at = found; at; at = at->ai_next) {
                int descriptor;

                if (at->ai_family != family)
                        continue;
                if ((descriptor = open_one(at, all)) >= 0)
                        return descriptor;
                last = errno;
        }
        errno = last;
        return -1;
}

int listen_open(const char *address, int *ret_socket, unsigned *ret_port, struct error *err) {
        struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV },
                        *found;
        struct place place;
        bool all;
        int status, descriptor;

        if (parse_address(address, &place, err) < 0)
                return -1;
        all = place.host[0] == '\0';
        if ((status = getaddrinfo(all ? NULL : place.host, place.port, &hints, &found)) != 0)
                return error_set(err, "cannot listen on %s: %s", address,
                                 status == EAI_SYSTEM ? strerror(errno) : gai_strerror(status));
        /* For all addresses one IPv6 socket takes IPv4 too; a name like localhost means IPv4 to most clients. */
        descriptor = open_of(found, all ? AF_INET6 : AF_INET, all);
        if (descriptor < 0 && (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL))
                descriptor = open_of(found, all ? AF_INET : AF_INET6, all);
        status = errno;
        freeaddrinfo(found);
        if (descriptor < 0)
                return error_set(err, "cannot listen on %s: %s", address, strerror(status));
        *ret_socket = descriptor;
        *ret_port = bound_port(descriptor);
        return 0;
}

bool listen_is_loopback(const char *address) {
        struct in_addr four;
        struct place place;
        struct error ignored;

        if (parse_address(address, &place, &ignored) < 0)
                return false;
        return strcmp(place.host, "localhost") == 0 || strcmp(place.host, "::1") == 0 ||
               (inet_pton(AF_INET, place.host, &four) == 1 && ntohl(four.s_addr) >> 24 == 127);
}

/*
 * The mode of the descriptor becomes that of the name, less the umask: it is never wider than asked for, not for an instant.
 */
int listen_open_unix(const char *path, unsigned mode, int *ret_socket, struct error *err) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int descriptor DESCRIPTOR_CLEANUP = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        struct stat status;

        if (strlen(path) >= sizeof(address.sun_path))
                return error_set(err, "cannot listen on %s: a socket's name has %zu bytes at the most", path,
                                 sizeof(address.sun_path) - 1);
        memcpy(address.sun_path, path, strlen(path) + 1);
        if (lstat(path, &status) == 0 && S_ISSOCK(status.st_mode))
                (void)unlink(path);
        if (descriptor < 0 || fchmod(descriptor, mode) < 0 ||
            bind(descriptor, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
            chmod(path, mode) < 0 || listen(descriptor, BACKLOG) < 0)
                return error_set(err, "cannot listen on %s: %s", path, strerror(errno));
        *ret_socket = descriptor;
        descriptor = -1;
        return 0;
}
