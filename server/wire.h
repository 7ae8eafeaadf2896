/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of one connection, both ways. Bytes that came and were not used up yet wait in one
 * buffer of a fixed size; bytes to send are never kept. Only this file of a connection's knows of
 * sockets; of one thread.
 *
 * Nothing here has a clock: a client that is too slow is shown out by its seat (server/seats.h),
 * and every call then fails.
 */
#ifndef BERTH_SERVER_WIRE_H
#define BERTH_SERVER_WIRE_H

#include "server/tls.h"

#include <stddef.h>
#include <sys/types.h>

#define WIRE_BUFFER ((size_t)32 << 10)

struct wire {
        int socket;            /* borrowed */
        struct tls_line *line; /* NULL: plain */
        size_t begin, end;     /* what of the buffer was not used up */
        char buffer[WIRE_BUFFER];
};

/* Plain from here on, and empty. */
void wire_open(struct wire *wire, int socket);
/*
 * Nothing goes or comes from here on but by TLS, which waits for the handshake. False if the
 * handshake failed: a client that spoke plain HTTP got an answer that says so.
 */
bool wire_secure(struct wire *wire, struct tls *tls) MUST_USE;
/* Before the socket is closed. */
void wire_close(struct wire *wire);

/* The bytes that came and were not used up. */
const char *wire_bytes(const struct wire *wire, size_t *ret_length);
void wire_use(struct wire *wire, size_t length);
/* Waits for more behind it: how many bytes came; 0 where no more will, or the buffer is full. */
size_t wire_fill(struct wire *wire);

struct wire_piece {
        const void *bytes;
        size_t length;
};
#define WIRE_PIECES 3

/* Sends the pieces, at most WIRE_PIECES; -1 where the client is gone. */
int wire_send(const struct wire *wire, const struct wire_piece *pieces, size_t count);

/*
 * Says that no more will be sent, and reads what the client still sends, for `for_ms` at most or
 * until `stop` is readable: a socket that is closed with bytes unread throws away the answer that
 * is still on its way.
 */
void wire_linger(struct wire *wire, int stop, int for_ms);

/* Its close is a reset: for an answer that broke off where its end is the connection's. */
void wire_reset(const struct wire *wire);

#endif
