/* SPDX-License-Identifier: Apache-2.0 */
/* What flows between a client and a server that it is connected to, both ways, and how it ends. */
#include "base/clock.h"
#include "base/files.h"
#include "egress/connection_parts.h"
#include "server/head.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* Of the room for what comes down, until an answer's head is read: for a line more. */
#define ANSWER_SPARED 64
#define HALF_CLOSED_MS 60000

/* Decides which further bytes may go out now. -1: it is refused, and parts. */
static int judge_up(struct connection *connection) {
        struct room *up = &connection->up;
        const char *why, *unjudged = up->bytes + up->at + connection->clear;
        size_t more = room_left(up) - connection->clear;

        if (connection->asked.tunnel &&
            tunnel_let_through(&connection->tunnel, unjudged, more, &more, &why) < 0) {
                connection_refuse_hello(connection, why);
                return -1;
        }
        connection->clear += more;
        if (connection->clear > 0 || room_left(up) < up->size)
                return 0;
        connection_refuse_hello(connection, "the ClientHello is too long");
        return -1;
}

static void count_traffic(struct connection *connection, uint64_t *counter, size_t count) {
        *counter += count;
        connection->shared->bytes += count;
        connection->until_ms = clock_now_ms() + IDLE_MS;
}

/*
 * Reads from the client. Behind the body of a plain request nothing may come: it would be another
 * request, which was not checked.
 */
static int hear_client(struct connection *connection) {
        struct room *up = &connection->up;
        unsigned long long left = connection->body_left;
        size_t most = up->size;
        char beyond;
        int came;

        if (!connection->asked.tunnel) {
                left -= room_left(up);
                most = left < most ? (size_t)left : most;
        }
        if (connection->client_ended || !(connection->client_events & (POLLIN | POLLHUP | POLLERR)))
                return 0;
        if (most == 0) {
                ssize_t count = recv(connection->client, &beyond, 1, MSG_DONTWAIT | MSG_PEEK);

                if (count > 0) {
                        connection_note(connection, connection_second_request);
                        return -1;
                }
                connection->client_ended = count == 0 || (errno != EAGAIN && errno != EINTR);
                return count < 0 && connection->client_ended ? -1 : 0;
        }
        came = room_fill(up, connection->client, most);
        if (came < 0)
                connection->client_ended = true;
        return 0;
}

static int tell_server(struct connection *connection) {
        struct strbuf *onward = &connection->onward;
        struct room *up = &connection->up;
        ssize_t count;

        if (onward->length > 0) {
                count = room_send_some(connection->server, onward->data, onward->length);
                if (count < 0)
                        return -1;
                if (count > 0)
                        count_traffic(connection, &connection->sent, (size_t)count);
                memmove(onward->data, onward->data + count, onward->length - (size_t)count);
                onward->length -= (size_t)count;
                if (onward->length > 0)
                        return 0;
        }
        count = room_send_some(connection->server, up->bytes + up->at, connection->clear);
        if (count < 0)
                return -1;
        if (count > 0) {
                count_traffic(connection, &connection->sent, (size_t)count);
                if (!connection->asked.tunnel)
                        connection->body_left -= (unsigned long long)count;
                connection->clear -= (size_t)count;
                up->at += (size_t)count;
                room_tidy(up);
        }
        if (!connection->client_ended || connection->server_told || connection->clear > 0)
                return 0;
        /* Of a plain request that is whole the server is not told: some take it for a client that has left. */
        if (!connection->asked.tunnel)
                return connection->body_left > 0 ? -1 : 0;
        if (room_left(up) > 0 && connection->tunnel.phase == TUNNEL_BETWEEN)
                return 0;
        if (connection->tunnel.phase == TUNNEL_FIRST) {
                connection_note(connection, "no ClientHello came");
                return -1;
        }
        connection->server_told = true;
        (void)shutdown(connection->server, SHUT_WR);
        return 0;
}

/* Of a plain request, which has `down` for itself until then. -1: there is no answer, which the client is told. */
static int read_plain_answer(struct connection *connection) {
        struct room *down = &connection->down;
        struct strbuf head STRBUF_CLEANUP = STRBUF_INIT;
        char *text TEXT_CLEANUP = NULL;
        ssize_t length = head_end(down->bytes, down->length, &connection->answer_seen);

        if (length < 0 || (length == 0 && (down->length > HEAD_BYTES_MAX || connection->server_ended))) {
                connection_refuse(connection, 502, "the host's answer is not HTTP");
                return -1;
        }
        if (length == 0)
                return 0;
        connection->answer_seen = 0;
        if (!(text = strndup(down->bytes, (size_t)length)))
                abort();
        connection->answers = asked_answer(text, &head);
        /* It is at most one line longer, for which there is room: see connection_room_for_answer(). */
        memmove(down->bytes + head.length, down->bytes + length, down->length - (size_t)length);
        down->length = down->length - (size_t)length + head.length;
        if (head.length > 0)
                memcpy(down->bytes, head.data, head.length);
        return connection->answers ? 0 : read_plain_answer(connection);
}

size_t connection_room_for_answer(const struct connection *connection) {
        const struct room *down = &connection->down;
        size_t spared = connection->asked.tunnel || connection->answers ? 0 : ANSWER_SPARED;

        return down->length + spared < down->size ? down->size - down->length - spared : 0;
}

static int hear_server(struct connection *connection) {
        struct room *down = &connection->down;
        size_t before = down->length;
        int came;

        if (connection->server_ended || !(connection->server_events & (POLLIN | POLLHUP | POLLERR)))
                return 0;
        came = room_fill(down, connection->server, connection_room_for_answer(connection));
        if (came < 0)
                connection->server_ended = true;
        if (came > 0)
                count_traffic(connection, &connection->received, down->length - before);
        if (came > 0 && connection->asked.tunnel)
                tunnel_hear_server(&connection->tunnel, down->bytes + before, down->length - before);
        return came != 0 && !connection->asked.tunnel && !connection->answers ? read_plain_answer(connection)
                                                                              : 0;
}

/*
 * Before the hello the server is not read: it has no one to speak to yet. Nor of a plain request's
 * before the client has its go-ahead, which takes the room.
 */
bool connection_hears_server(const struct connection *connection) {
        if (connection->asked.tunnel)
                return connection->tunnel.phase != TUNNEL_FIRST;
        return connection->answers || !connection->asked.awaits_go_ahead;
}

/* The beginning of an answer stays until its head is whole. */
bool connection_awaits_answer(const struct connection *connection) {
        return !connection->asked.tunnel && !connection->answers && !connection->asked.awaits_go_ahead;
}

int connection_tell_client(struct connection *connection) {
        struct room *down = &connection->down;
        ssize_t count;

        if (connection->state == FLOWING && connection_awaits_answer(connection))
                return 0;
        count = room_send_some(connection->client, down->bytes + down->at, room_left(down));
        if (count < 0)
                return -1;
        if (count > 0 && connection->state == FLOWING)
                connection->until_ms =
                        clock_now_ms() + (connection->asked.tunnel && connection->tunnel.phase == TUNNEL_FIRST
                                                  ? HELLO_MS
                                                  : IDLE_MS);
        down->at += (size_t)count;
        room_tidy(down);
        if (room_left(down) == 0)
                connection->asked.awaits_go_ahead = false;
        if (room_left(down) > 0 || !connection->server_ended || connection->client_told)
                return 0;
        connection->client_told = true;
        (void)shutdown(connection->client, SHUT_WR);
        return 0;
}

bool connection_flow(struct connection *connection) {
        int64_t now = clock_now_ms();

        if (hear_client(connection) < 0)
                return false;
        if (judge_up(connection) < 0)
                return true;
        if (connection_hears_server(connection) && hear_server(connection) < 0)
                return true;
        /* What the server said may have opened the way for what waited. */
        if (judge_up(connection) < 0)
                return true;
        if (tell_server(connection) < 0 || connection_tell_client(connection) < 0)
                return false;
        if (connection_has_used_up(connection->shared)) {
                connection_note(connection, "the environment's network.transferMB is used up");
                return false;
        }
        if (connection->client_told && (connection->server_told || !connection->asked.tunnel)) {
                connection_part(connection);
                return true;
        }
        if ((connection->client_ended || connection->server_ended) &&
            connection->until_ms > now + HALF_CLOSED_MS)
                connection->until_ms = now + HALF_CLOSED_MS;
        return true;
}
