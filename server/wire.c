/* SPDX-License-Identifier: Apache-2.0 */
#include "server/wire.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define RECORD ((size_t)16 << 10) /* of TLS, the most that one holds */
#define HANDSHAKE 0x16            /* the first byte of a TLS client (RFC 8446, 5.1) */
#define LINGER_MS 2000

void wire_open(struct wire *wire, int socket) {
        wire->socket = socket;
        wire->line = NULL;
        wire->begin = wire->end = 0;
}

void wire_close(struct wire *wire) {
        tls_line_free(wire->line);
        wire->line = NULL;
}

/*
 * A client that sent a token this way has shown it to the network: the answer says so, so that its
 * user need not wonder.
 */
static void refuse_plain(struct wire *wire) {
        static const char answer[] = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n"
                                     "Content-Length: 41\r\nConnection: close\r\n\r\n"
                                     "this address speaks TLS: ask by https://\n";
        const struct wire_piece piece = { answer, sizeof(answer) - 1 };

        if (wire_send(wire, &piece, 1) == 0)
                wire_linger(wire, -1, LINGER_MS);
}

bool wire_secure(struct wire *wire, struct tls *tls) {
        unsigned char first;
        ssize_t count;

        do
                count = recv(wire->socket, &first, 1, MSG_PEEK);
        while (count < 0 && errno == EINTR);
        if (count != 1)
                return false;
        if (first != HANDSHAKE) {
                refuse_plain(wire);
                return false;
        }
        wire->line = tls_accept(tls, wire->socket);
        return wire->line != NULL;
}

const char *wire_bytes(const struct wire *wire, size_t *ret_length) {
        *ret_length = wire->end - wire->begin;
        return wire->buffer + wire->begin;
}

void wire_use(struct wire *wire, size_t length) {
        wire->begin += length;
        if (wire->begin == wire->end)
                wire->begin = wire->end = 0;
}

static ssize_t receive_bytes(const struct wire *wire, void *bytes, size_t size) {
        ssize_t count;

        do
                count = recv(wire->socket, bytes, size, 0);
        while (count < 0 && errno == EINTR);
        return count;
}

size_t wire_fill(struct wire *wire) {
        ssize_t count;

        if (wire->begin > 0) {
                memmove(wire->buffer, wire->buffer + wire->begin, wire->end - wire->begin);
                wire->end -= wire->begin;
                wire->begin = 0;
        }
        count = wire->line ? (ssize_t)tls_read(wire->line, wire->buffer + wire->end,
                                               sizeof(wire->buffer) - wire->end)
                           : receive_bytes(wire, wire->buffer + wire->end, sizeof(wire->buffer) - wire->end);
        if (count <= 0)
                return 0;
        wire->end += (size_t)count;
        return (size_t)count;
}

/* Each record costs some thirty bytes and a call: small pieces go together. */
static int send_records(struct tls_line *line, const struct wire_piece *pieces, size_t count) {
        char record[RECORD];
        size_t used = 0;

        for (size_t i = 0; i < count; i++) {
                const char *at = pieces[i].bytes;

                for (size_t left = pieces[i].length; left > 0;) {
                        size_t length = left < RECORD - used ? left : RECORD - used;

                        memcpy(record + used, at, length);
                        used += length;
                        at += length;
                        left -= length;
                        if (used == RECORD && tls_write(line, record, used) < 0)
                                return -1;
                        used %= RECORD;
                }
        }
        return used > 0 ? tls_write(line, record, used) : 0;
}

int wire_send(const struct wire *wire, const struct wire_piece *pieces, size_t count) {
        struct iovec vectors[WIRE_PIECES];
        struct msghdr message = { .msg_iov = vectors };

        if (wire->line)
                return send_records(wire->line, pieces, count);
        for (size_t i = 0; i < count;
             i++, message.msg_iovlen++) /* sendmsg(2) takes bytes as it would some to change */
                vectors[i] = (struct iovec){ (void *)(uintptr_t)pieces[i].bytes, pieces[i].length };
        while (message.msg_iovlen > 0) {
                ssize_t sent = sendmsg(wire->socket, &message, MSG_NOSIGNAL);

                if (sent < 0 && errno == EINTR)
                        continue;
                if (sent < 0)
                        return -1;
                while (message.msg_iovlen > 0 && (size_t)sent >= message.msg_iov->iov_len) {
                        sent -= (ssize_t)message.msg_iov->iov_len;
                        message.msg_iov++;
                        message.msg_iovlen--;
                }
                if (message.msg_iovlen > 0) {
                        message.msg_iov->iov_base = (char *)message.msg_iov->iov_base + sent;
                        message.msg_iov->iov_len -= (size_t)sent;
                }
        }
        return 0;
}

/* Incoming bytes are thrown away as they are: no TLS record is waited for. */
void wire_linger(struct wire *wire, int stop, int for_ms) {
        int64_t until = clock_now_ms() + for_ms, left;
        struct pollfd polled[] = { { .fd = wire->socket, .events = POLLIN },
                                   { .fd = stop, .events = POLLIN } };

        if (wire->line)
                tls_finish(wire->line);
        if (shutdown(wire->socket, SHUT_WR) < 0)
                return;
        do {
                wire->begin = wire->end = 0;
                left = until - clock_now_ms();
        } while (left > 0 && poll(polled, 2, (int)left) > 0 && !polled[1].revents &&
                 receive_bytes(wire, wire->buffer, sizeof(wire->buffer)) > 0);
}

void wire_reset(const struct wire *wire) {
        const struct linger at_once = { .l_onoff = 1, .l_linger = 0 };

        (void)setsockopt(wire->socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
}
