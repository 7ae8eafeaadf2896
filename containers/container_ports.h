/* SPDX-License-Identifier: Apache-2.0 */
/* Ports of a container: what is asked for, what is kept of it, and the sockets of this machine at which they are reached. */
#ifndef BERTH_CONTAINERS_CONTAINER_PORTS_H
#define BERTH_CONTAINERS_CONTAINER_PORTS_H

#include "base/error.h"
#include "sessions/problem.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONTAINER_PORTS_MAX 16
#define CONTAINER_PORT_NAME_MAX 63

/*
 * From [{name?, port, expose?}] what is kept: [{name, port, hostPort}], where hostPort is null of one that is not exposed, and 0 of one whose
 * number is still to be found. A new reference, empty where `wish` is NULL; NULL: PROBLEM_INVALID.
 */
json_t *container_ports_read(const json_t *wish, struct problem *problem);
/* Whether a record may have it. */
bool container_ports_are(const json_t *ports);
/* A number that both have, in the container or on the machine; 0: none. */
int64_t container_ports_share(const json_t *ports, const json_t *others, bool on_machine);

/* Sockets of 127.0.0.1 that listen, each for one port in the container. */
struct container_listeners {
        int sockets[CONTAINER_PORTS_MAX];
        uint16_t ports[CONTAINER_PORTS_MAX];
        size_t count;
};
/* Whether this port of the machine is another container's, even if that one does not listen now. */
typedef bool container_port_of_others(const void *context, int64_t port);
/*
 * Those of all that are exposed; numbers that were found are put into `ports`, none of them another's. ERROR_REFUSED: one is taken, or
 * this user may not.
 */
int container_ports_listen(json_t *ports, container_port_of_others *is_of_others, const void *context,
                           struct container_listeners *ret, struct error *err) MUST_USE;
void container_listeners_close(struct container_listeners *listeners);

#endif
