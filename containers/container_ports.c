/* SPDX-License-Identifier: Apache-2.0 */
#include "containers/container_ports.h"

#include "base/files.h"
#include "base/json.h"
#include "base/text.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PORT_MAX 65535
/*
 * Ports below are for services of the machine: a server that is root could listen there, and its
 * clients are not the machine's administrators.
 */
#define HOST_PORT_LEAST 1024
#define BACKLOG 1024
/* A port that the machine finds free may be that of a service which is stopped. */
#define TRIES 64

/* Within one list: each number and name is there once. */
static bool is_new(const json_t *ports, int64_t port, const char *name, int64_t host_port) {
        const json_t *other;
        size_t index;

        json_array_foreach (ports, index, other) {
                const char *of_other = json_text(other, "name");

                if (json_integer_or(other, "port", 0) == port ||
                    (name && of_other && strcmp(name, of_other) == 0) ||
                    (host_port > 0 && json_integer_or(other, "hostPort", 0) == host_port))
                        return false;
        }
        return true;
}

static bool is_port_item(const json_t *item) {
        const json_t *name = json_object_get(item, "name"), *host_port = json_object_get(item, "hostPort");
        int64_t port = json_integer_or(item, "port", 0), number = json_integer_value(host_port);

        return json_is_object(item) && port >= 1 && port <= PORT_MAX &&
               (json_is_null(name) ||
                (json_is_string(name) && text_is_label(json_string_value(name), CONTAINER_PORT_NAME_MAX))) &&
               (json_is_null(host_port) || (json_is_integer(host_port) && number >= 0 && number <= PORT_MAX));
}

bool container_ports_are(const json_t *ports) {
        const json_t *item;
        size_t index;

        if (!json_is_array(ports) || json_array_size(ports) > CONTAINER_PORTS_MAX)
                return false;
        json_array_foreach (ports, index, item) {
                if (!is_port_item(item))
                        return false;
        }
        return true;
}

json_t *container_ports_read(const json_t *wish, struct problem *problem) {
        json_t *ports JSON_CLEANUP = json_checked(json_array());
        const json_t *asked;
        size_t index;

        if (wish && (!json_is_array(wish) || json_array_size(wish) > CONTAINER_PORTS_MAX)) {
                (void)problem_set(problem, PROBLEM_INVALID, "ports must be a list of at most %d",
                                  CONTAINER_PORTS_MAX);
                return NULL;
        }
        json_array_foreach (wish, index, asked) {
                const char *name = json_text(asked, "name");
                json_t *expose = json_object_get(asked, "expose"), *item = json_object();

                json_put(item, "name", json_from_text(name));
                json_put(item, "port", json_integer(json_integer_or(asked, "port", 0)));
                json_put(item, "hostPort", expose ? json_incref(expose) : json_null());
                if (!is_port_item(item) || !is_new(ports, json_integer_or(item, "port", 0), name,
                                                   json_integer_or(item, "hostPort", 0))) {
                        json_decref(item);
                        (void)problem_set(
                                problem, PROBLEM_INVALID,
                                "ports[%zu] must have a port of 1 to %d, a name of a-z, 0-9 and - or none, and "
                                "expose null, 0 or a port of this machine, none of them as another has it",
                                index, PORT_MAX);
                        return NULL;
                }
                if (json_integer_or(item, "hostPort", 0) > 0 &&
                    json_integer_or(item, "hostPort", 0) < HOST_PORT_LEAST) {
                        json_decref(item);
                        (void)problem_set(problem, PROBLEM_INVALID,
                                          "ports[%zu].expose must be null, 0 (any that is free) or %d to %d: "
                                          "those below are for services of the machine",
                                          index, HOST_PORT_LEAST, PORT_MAX);
                        return NULL;
                }
                json_add(ports, item);
        }
        return json_incref(ports);
}

int64_t container_ports_share(const json_t *ports, const json_t *others, bool on_machine) {
        const char *member = on_machine ? "hostPort" : "port";
        const json_t *one, *other;
        size_t i, j;

        json_array_foreach (ports, i, one) {
                int64_t number = json_integer_or(one, member, 0);

                json_array_foreach (others, j, other) {
                        if (number > 0 && json_integer_or(other, member, 0) == number)
                                return number;
                }
        }
        return 0;
}

static int listen_at(int64_t number, int *ret, int64_t *ret_number, struct error *err) {
        struct sockaddr_in address = { .sin_family = AF_INET,
                                       .sin_port = htons((uint16_t)number),
                                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        int made DESCRIPTOR_CLEANUP = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        socklen_t length = sizeof(address);
        const int yes = 1;

        if (made < 0)
                return error_set(err, "cannot make a socket: %s", strerror(errno));
        (void)setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
        if (bind(made, (const struct sockaddr *)&address, sizeof(address)) < 0 || listen(made, BACKLOG) < 0 ||
            getsockname(made, (struct sockaddr *)&address, &length) < 0)
                return errno == EADDRINUSE ? error_set_kind(err, ERROR_REFUSED,
                                                            "port %lld of 127.0.0.1 is taken on this machine",
                                                            (long long)number)
                       : errno == EACCES
                               ? error_set_kind(err, ERROR_REFUSED,
                                                "port %lld of 127.0.0.1 is for root alone to listen at",
                                                (long long)number)
                               : error_set(err, "cannot listen at port %lld of 127.0.0.1: %s",
                                           (long long)number, strerror(errno));
        *ret = made;
        made = -1;
        *ret_number = ntohs(address.sin_port);
        return 0;
}

/* A record may be older than this rule, or written by another program. */
static int check_host_port(int64_t number, struct error *err) {
        return number == 0 || number >= HOST_PORT_LEAST
                       ? 0
                       : error_set_kind(err, ERROR_REFUSED,
                                        "port %lld of 127.0.0.1 is below %d, where the machine's own "
                                        "services listen: create the container again with another port",
                                        (long long)number, HOST_PORT_LEAST);
}

/* Those that are not to be had are held until there is one, so that none is found twice. */
static int listen_somewhere(container_port_of_others *is_of_others, const void *context, int *ret,
                            int64_t *ret_number, struct error *err) {
        int held[TRIES], made = -1, result;
        int64_t number = 0;
        size_t count = 0;

        while ((result = listen_at(0, &made, &number, err)) == 0 && is_of_others(context, number) &&
               count < TRIES)
                held[count++] = made;
        while (count > 0)
                close_descriptor(&held[--count]);
        if (result < 0)
                return -1;
        if (is_of_others(context, number)) {
                close_descriptor(&made);
                return error_set_kind(err, ERROR_REFUSED,
                                      "of 127.0.0.1 nearly all ports are taken on this machine");
        }
        *ret = made;
        *ret_number = number;
        return 0;
}

int container_ports_listen(json_t *ports, container_port_of_others *is_of_others, const void *context,
                           struct container_listeners *ret, struct error *err) {
        json_t *item;
        size_t index;

        ret->count = 0;
        json_array_foreach (ports, index, item) {
                int64_t number = json_integer_or(item, "hostPort", -1);

                if (number < 0)
                        continue;
                if (check_host_port(number, err) < 0 ||
                    (number > 0 ? listen_at(number, &ret->sockets[ret->count], &number, err)
                                : listen_somewhere(is_of_others, context, &ret->sockets[ret->count], &number,
                                                   err)) < 0) {
                        container_listeners_close(ret);
                        return -1;
                }
                ret->ports[ret->count++] = (uint16_t)json_integer_or(item, "port", 0);
                json_put(item, "hostPort", json_integer(number));
        }
        return 0;
}

void container_listeners_close(struct container_listeners *listeners) {
        while (listeners->count > 0)
                close_descriptor(&listeners->sockets[--listeners->count]);
}
