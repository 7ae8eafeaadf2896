/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small machine of states, with a time by which each must be left.
 *
 *     HEAD -> RESOLVING -> CONNECTING -> FLOWING -> gone
 *       any of them -> PARTING: the reason is told, and what still comes is thrown away, for a moment
 */
#include "egress/connection.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/files.h"
#include "egress/address.h"
#include "egress/connection_parts.h"
#include "server/head.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define DOWN_ROOM (32 * 1024)
/* Of each socket outside, each way; the kernel doubles it. Else one connection could keep megabytes there. */
#define SOCKET_BUFFER (256 * 1024)
#define HEAD_MS 10000
#define RESOLVE_MS 15000
#define CONNECT_MS 8000 /* to one address */
#define PARTING_MS 2000

const char connection_second_request[] = "more came than one request on one connection";

struct connection *connection_new(struct connection_shared *shared, int client) {
        struct connection *connection = calloc(1, sizeof(*connection));
        int one = 1;

        if (!connection)
                abort();
        (void)setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        *connection = (struct connection){ .shared = shared,
                                           .client = client,
                                           .server = -1,
                                           .until_ms = clock_now_ms() + HEAD_MS,
                                           .up = room_new(TUNNEL_ROOM),
                                           .down = room_new(DOWN_ROOM) };
        return connection;
}

/* --- the end of a connection --- */

void connection_note(struct connection *connection, const char *outcome) {
        if (!connection->outcome[0])
                snprintf(connection->outcome, sizeof(connection->outcome), "%s", outcome);
}

void connection_end(struct connection *connection, struct tally_line *ret) {
        *ret = (struct tally_line){ .port = connection->asked.port,
                                    .connections = 1,
                                    .sent_bytes = connection->sent,
                                    .received_bytes = connection->received };
        snprintf(ret->host, sizeof(ret->host), "%s", connection->asked.host);
        snprintf(ret->outcome, sizeof(ret->outcome), "%s", connection->outcome);
        resolver_drop(connection->question);
        tunnel_end(&connection->tunnel);
        close_descriptor(&connection->client);
        close_descriptor(&connection->server);
        strbuf_release(&connection->onward);
        free(connection->up.bytes);
        free(connection->down.bytes);
        free(connection);
}

void connection_part(struct connection *connection) {
        connection->state = PARTING;
        connection->until_ms = clock_now_ms() + PARTING_MS;
        close_descriptor(&connection->server);
        resolver_drop(connection->question);
        connection->question = NULL;
}

void connection_refuse(struct connection *connection, unsigned status, const char *why) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        connection_note(connection, why);
        strbuf_printf(&text,
                      "HTTP/1.1 %u %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %zu\r\n"
                      "Cache-Control: no-store\r\nConnection: close\r\n\r\nberth: %s\n",
                      status, why, strlen(why) + strlen("berth: \n"), why);
        connection->down.at = connection->down.length = 0;
        if (text.length <= connection->down.size) {
                memcpy(connection->down.bytes, text.data, text.length);
                connection->down.length = text.length;
        }
        connection_part(connection);
}

void connection_refuse_hello(struct connection *connection, const char *why) {
        static const char alert[] = { 21, 3, 3, 0, 2, 2, 112 };
        struct room *down = &connection->down;

        connection_note(connection, why);
        if (down->size - down->length >= sizeof(alert)) {
                memcpy(down->bytes + down->length, alert, sizeof(alert));
                down->length += sizeof(alert);
        }
        connection_part(connection);
}

/* Closed with unread bytes, a socket takes back what it has said: so the rest is read, for a moment. */
static bool go_on_parting(struct connection *connection) {
        char ignored[4096];
        ssize_t count = 1;

        if (connection_tell_client(connection) < 0)
                return false;
        if (room_left(&connection->down) == 0 && !connection->client_told) {
                connection->client_told = true;
                (void)shutdown(connection->client, SHUT_WR);
        }
        if (connection->client_events & (POLLIN | POLLHUP | POLLERR))
                count = recv(connection->client, ignored, sizeof(ignored), MSG_DONTWAIT);
        return count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR));
}

/* --- from the head to a connection --- */

static socklen_t length_of(const struct sockaddr_storage *address) {
        return address->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

static void begin_to_flow(struct connection *connection) {
        static const char established[] = "HTTP/1.1 200 Connection established\r\n\r\n",
                          go_ahead[] = "HTTP/1.1 100 Continue\r\n\r\n";
        struct room *down = &connection->down;

        connection->state = FLOWING;
        connection->until_ms = clock_now_ms() + (connection->asked.tunnel ? HELLO_MS : IDLE_MS);
        if (connection->asked.tunnel) {
                memcpy(down->bytes, established, sizeof(established) - 1);
                down->length = sizeof(established) - 1;
        } else if (connection->asked.awaits_go_ahead) {
                memcpy(down->bytes, go_ahead, sizeof(go_ahead) - 1);
                down->length = sizeof(go_ahead) - 1;
        }
}

/* The next address, until one takes the connection, or is about to. */
static void try_next(struct connection *connection) {
        while (connection->tried < connection->answer.count) {
                const struct sockaddr_storage *address = &connection->answer.addresses[connection->tried++];
                int one = 1, buffer = SOCKET_BUFFER;

                close_descriptor(&connection->server);
                connection->server =
                        socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
                if (connection->server < 0)
                        continue;
                (void)setsockopt(connection->server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
                (void)setsockopt(connection->server, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
                (void)setsockopt(connection->server, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer));
                (void)setsockopt(connection->server, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer));
                connection->until_ms = clock_now_ms() + CONNECT_MS;
                connection->state = CONNECTING;
                if (connect(connection->server, (const struct sockaddr *)address, length_of(address)) == 0) {
                        begin_to_flow(connection);
                        return;
                }
                if (errno == EINPROGRESS)
                        return;
        }
        connection_refuse(connection, 502, "the host cannot be connected to");
}

/*
 * All addresses count, and not only the one that would be taken: a server that answers with a
 * public and a private one wants the second to be taken, now or later. The one that is connected to
 * is one of these, and the name is not asked for again.
 */
static void take_addresses(void *context, const struct resolve_answer *answer) {
        struct connection *connection = context;
        char why[TALLY_OUTCOME_MAX];
        int here;

        connection->question = NULL;
        if (answer->problem) {
                snprintf(why, sizeof(why), "the host's name cannot be resolved: %s", answer->problem);
                connection_refuse(connection, 502, why);
                return;
        }
        if (answer->cut) {
                connection_refuse(connection, 403, "the host's name has more addresses than are looked at");
                return;
        }
        for (size_t i = 0; i < answer->count; i++) {
                const struct sockaddr *address = (const struct sockaddr *)&answer->addresses[i];

                here = address_is_public(address)
                               ? address_leads_here(address, length_of(&answer->addresses[i]))
                               : 1;
                if (here < 0) {
                        connection_refuse(
                                connection, 503,
                                "the proxy lacks memory or descriptors to check the host's address");
                        return;
                }
                if (here > 0) {
                        connection_refuse(connection, 403,
                                          "the host's name leads to an address that is not public");
                        return;
                }
        }
        connection->answer = *answer;
        try_next(connection);
}

bool connection_has_used_up(const struct connection_shared *shared) {
        return shared->bytes >= shared->list->bytes_max;
}

static void route(struct connection *connection) {
        struct connection_shared *shared = connection->shared;
        const struct asked *asked = &connection->asked;

        if (!allow_permits(shared->list, asked->host, asked->port, asked->tunnel)) {
                connection_refuse(
                        connection, 403,
                        "the host is not in the environment's network.allow, or not with this port");
                return;
        }
        if (connection_has_used_up(shared)) {
                connection_refuse(connection, 403, "the environment's network.transferMB is used up");
                return;
        }
        connection->state = RESOLVING;
        connection->until_ms = clock_now_ms() + RESOLVE_MS;
        /* Told in there at once, it may be connected already, or parting. */
        connection->question =
                resolver_ask(shared->resolver, asked->host, asked->port, take_addresses, connection);
}

static void read_request_head(struct connection *connection) {
        struct room *up = &connection->up;
        struct arena *arena ARENA_CLEANUP = NULL;
        const char *why = "the request's head is malformed";
        int came = room_fill(up, connection->client, up->size);
        ssize_t length = head_end(up->bytes, up->length, &connection->head_seen);
        unsigned status;

        if (length == 0 && up->length > HEAD_BYTES_MAX) {
                connection_refuse(connection, 431, "the request's head is too long");
                return;
        }
        if (length == 0 && came < 0) {
                connection_note(connection, "it left before it had asked");
                connection_part(connection);
                return;
        }
        if (length == 0)
                return;
        if (length > 0) {
                arena = arena_new();
                status = asked_read(arena_strndup(arena, up->bytes, (size_t)length), arena,
                                    &connection->asked, &connection->onward, &why);
        } else {
                status = 400;
        }
        if (status != 0) {
                connection_refuse(connection, status, why);
                return;
        }
        up->at = (size_t)length;
        room_shift(up);
        if (!connection->asked.tunnel && up->length > connection->asked.body) {
                connection_refuse(connection, 400, connection_second_request);
                return;
        }
        connection->body_left = connection->asked.body;
        connection->client_ended = came < 0;
        tunnel_begin(&connection->tunnel, connection->asked.host);
        route(connection);
}

static void go_on_connecting(struct connection *connection) {
        int problem = 0;
        socklen_t length = sizeof(problem);

        if (!connection->server_events)
                return;
        if (getsockopt(connection->server, SOL_SOCKET, SO_ERROR, &problem, &length) == 0 && problem == 0 &&
            connection->server_events & POLLOUT)
                begin_to_flow(connection);
        else
                try_next(connection);
}

/* --- its turns --- */

static void pass_deadline(struct connection *connection) {
        switch (connection->state) {
        case HEAD:
                connection_refuse(connection, 408, "the request's head did not come in time");
                return;
        case RESOLVING:
                connection_refuse(connection, 504, "the host's name was not resolved in time");
                return;
        case CONNECTING:
                try_next(connection);
                return;
        case FLOWING:
                connection_note(connection,
                                connection->asked.tunnel && connection->tunnel.phase == TUNNEL_FIRST
                                        ? "no ClientHello came in time"
                                        : "");
                connection_part(connection);
                return;
        case PARTING:
                break;
        }
}

bool connection_go_on(struct connection *connection) {
        bool late = clock_now_ms() >= connection->until_ms;

        if (late && connection->state == PARTING)
                return false;
        if (late) {
                pass_deadline(connection);
                return true;
        }
        switch (connection->state) {
        case HEAD:
                if (connection->client_events)
                        read_request_head(connection);
                break;
        case RESOLVING:
                break;
        case CONNECTING:
                go_on_connecting(connection);
                break;
        case FLOWING:
                return connection_flow(connection);
        case PARTING:
                return go_on_parting(connection);
        }
        return true;
}

static short client_wish(const struct connection *connection) {
        short events = 0;

        if (connection->state == HEAD || connection->state == PARTING ||
            (connection->state == FLOWING && !connection->client_ended &&
             connection->up.length < connection->up.size))
                events = POLLIN;
        if (room_left(&connection->down) > 0 &&
            !(connection->state == FLOWING && connection_awaits_answer(connection)))
                events |= POLLOUT;
        return events;
}

static short server_wish(const struct connection *connection) {
        short events = 0;

        if (connection->state == CONNECTING)
                return POLLOUT;
        if (connection->state != FLOWING)
                return 0;
        if (connection_hears_server(connection) && !connection->server_ended &&
            connection_room_for_answer(connection) > 0)
                events = POLLIN;
        if (connection->onward.length > 0 || connection->clear > 0)
                events |= POLLOUT;
        return events;
}

int64_t connection_until_ms(const struct connection *connection) {
        return connection->until_ms;
}

/* A socket without awaited events is not polled: poll(2) always reports a closed one. */
void connection_poll(const struct connection *connection, struct pollfd polled[CONNECTION_POLLED]) {
        short client = client_wish(connection), server = server_wish(connection);

        polled[0] = (struct pollfd){ .fd = client ? connection->client : -1, .events = client };
        polled[1] = (struct pollfd){ .fd = server ? connection->server : -1, .events = server };
}

void connection_polled(struct connection *connection, const struct pollfd polled[CONNECTION_POLLED]) {
        connection->client_events = polled[0].revents;
        connection->server_events = polled[1].revents;
}
