/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request on its connection: its head is read and judged, its route found and given the body, its answer sent. What the
 * connections of a server have in common is a `struct service`.
 */
#ifndef BERTH_SERVER_SERVER_REQUEST_H
#define BERTH_SERVER_SERVER_REQUEST_H

#include "base/interrupt.h"
#include "server/head.h"
#include "server/seats.h"
#include "server/server.h"
#include "server/watch.h"
#include "server/wire.h"

struct service {
        struct server_config config;
        struct head_hosts allowed;
        struct seats *seats;
        struct watch *watch;
        struct interrupt stop;
};

/* Whether the connection goes on with another. It belongs to this thread, and to the seat. */
bool server_request_serve(struct service *service, struct wire *wire, struct seat *seat) MUST_USE;

#endif
