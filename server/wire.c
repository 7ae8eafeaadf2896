/* SPDX-License-Identifier: Apache-2.0 */
#include "server/wire.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

const char *wire_bytes(const struct wire *wire, size_t *ret_length) {
        *ret_length = wire->end - wire->begin;
        return wire->buffer + wire->begin;
}

void wire_use(struct wire *wire, size_t length) {
        wire->begin += length;
        if (wire->begin == wire->end)
                wire->begin = wire->end = 0;
}

size_t wire_fill(struct wire *wire) {
        ssize_t count;

        if (wire->begin > 0) {
                memmove(wire->buffer, wire->buffer + wire->begin, wire->end - wire->begin);
                wire->end -= wire->begin;
                wire->begin = 0;
        }
        do
                count = recv(wire->socket, wire->buffer + wire->end, sizeof(wire->buffer) - wire->end, 0);
        while (count < 0 && errno == EINTR);
        if (count <= 0)
                return 0;
        wire->end += (size_t)count;
        return (size_t)count;
}

int wire_send(const struct wire *wire, const struct wire_piece *pieces, size_t count) {
        struct iovec vectors[WIRE_PIECES];
        struct msghdr message = { .msg_iov = vectors, .msg_iovlen = count };

        for (size_t i = 0; i < count; i++) /* sendmsg(2) takes bytes as it would some to change */
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

void wire_linger(struct wire *wire, int stop, int for_ms) {
        int64_t until = clock_system.monotonic_ms(&clock_system) + for_ms, left;
        struct pollfd polled[] = { { .fd = wire->socket, .events = POLLIN },
                                   { .fd = stop, .events = POLLIN } };

        if (shutdown(wire->socket, SHUT_WR) < 0)
                return;
        do {
                wire->begin = wire->end = 0;
                left = until - clock_system.monotonic_ms(&clock_system);
        } while (left > 0 && poll(polled, 2, (int)left) > 0 && !polled[1].revents && wire_fill(wire) > 0);
}

void wire_reset(const struct wire *wire) {
        const struct linger at_once = { .l_onoff = 1, .l_linger = 0 };

        (void)setsockopt(wire->socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
}
