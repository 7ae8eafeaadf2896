/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of the proxy, from its request's head to its end: connection.c has the states, connection_flow.c what flows.
 *
 *         connection = connection_new(&shared, client)      the socket is the connection's from then on
 *         connection_poll(connection, polled)               what it waits for; poll(2)
 *         connection_polled(connection, polled)             what came of it
 *         if (!connection_go_on(connection))                 also where nothing came: a time may have passed
 *                 connection_end(connection, &line)
 *
 * Answers to names come in between, from within resolver_process() (egress/resolver.h).
 */
#ifndef BERTH_EGRESS_CONNECTION_H
#define BERTH_EGRESS_CONNECTION_H

#include "egress/allow.h"
#include "egress/resolver.h"
#include "egress/tally.h"

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

/* What all connections of a proxy have in common. */
struct connection_shared {
        const struct allow_list *list;
        struct resolver *resolver;
        uint64_t bytes; /* both ways, of all of them, since the count last began */
};

struct connection;
struct connection *connection_new(struct connection_shared *shared, int client);

#define CONNECTION_POLLED 2
void connection_poll(const struct connection *connection, struct pollfd polled[CONNECTION_POLLED]);
void connection_polled(struct connection *connection, const struct pollfd polled[CONNECTION_POLLED]);
/* False: it is over. */
bool connection_go_on(struct connection *connection);
/* By when it must go on, by clock_now_ms(). */
int64_t connection_until_ms(const struct connection *connection);
/* Releases it. What went through, and how it ended, is written to `ret`. */
void connection_end(struct connection *connection, struct tally_line *ret);

/* Of a clock that is never set. */

#endif
