/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's bytes are taken as records of TLS, whole ones. Behind the first hello come, before the server has answered, only what a
 * client may send early (a change of ciphers, data under a key of an earlier connection), which passes. Another handshake record
 * waits there until the answer is known: it may be the second hello.
 */
#include "egress/tunnel.h"

#include <string.h>

#define RECORD_HEADER 5U
#define RECORD_MAX (16384U + 2048U)
#define CHANGE_CIPHER_SPEC 20
#define HANDSHAKE 22
#define APPLICATION_DATA 23
#define SERVER_HELLO 2

void tunnel_begin(struct tunnel *tunnel, const char *host) {
        *tunnel = (struct tunnel){ .host = host };
}

void tunnel_end(struct tunnel *tunnel) {
        hello_free(tunnel->hello);
        tunnel->hello = NULL;
}

/*
 * The length of the record that the bytes begin with; 0: it is not whole; -1: it is not a record.
 */
static int record_length(const unsigned char *bytes, size_t length, const char **ret_why) {
        unsigned size;

        *ret_why = "what came is no TLS";
        if ((length > 0 && (bytes[0] < CHANGE_CIPHER_SPEC || bytes[0] > APPLICATION_DATA)) ||
            (length > 1 && bytes[1] != 3))
                return -1;
        if (length < RECORD_HEADER)
                return 0;
        size = (unsigned)(bytes[3] << 8 | bytes[4]);
        if (size == 0 || size > RECORD_MAX)
                return -1;
        return length < RECORD_HEADER + size ? 0 : (int)(RECORD_HEADER + size);
}

static int read_hello(struct tunnel *tunnel, const char *record, size_t length, size_t *clear,
                      const char **ret_why) {
        if (!tunnel->hello)
                tunnel->hello = hello_new(tunnel->host);
        switch (hello_read(tunnel->hello, record, length, ret_why)) {
        case HELLO_MORE:
                tunnel->read += length;
                return 0;
        case HELLO_NAMED:
                *clear += tunnel->read + length;
                tunnel->read = 0;
                tunnel->phase = tunnel->phase == TUNNEL_FIRST ? TUNNEL_BETWEEN : TUNNEL_OPEN;
                tunnel_end(tunnel);
                return 0;
        case HELLO_REFUSED:
                break;
        }
        return -1;
}

int tunnel_let_through(struct tunnel *tunnel, const char *bytes, size_t length, size_t *ret_clear,
                       const char **ret_why) {
        size_t clear = 0;

        while (tunnel->phase != TUNNEL_OPEN) {
                const char *record = bytes + clear + tunnel->read;
                int size =
                        record_length((const unsigned char *)record, length - clear - tunnel->read, ret_why);

                if (size < 0)
                        return -1;
                if (size == 0)
                        break;
                if (record[0] == HANDSHAKE && tunnel->phase == TUNNEL_BETWEEN)
                        break;
                if (record[0] == HANDSHAKE) {
                        if (read_hello(tunnel, record, (size_t)size, &clear, ret_why) < 0)
                                return -1;
                        continue;
                }
                *ret_why = "what came is no ClientHello of TLS";
                if (tunnel->phase == TUNNEL_FIRST || tunnel->read > 0)
                        return -1;
                clear += (size_t)size;
        }
        *ret_clear = tunnel->phase == TUNNEL_OPEN ? length : clear;
        return 0;
}

/* 1: a HelloRetryRequest; 0: something else; -1: more bytes are needed to tell. */
static int asks_again(const unsigned char *bytes, size_t length) {
        /* RFC 8446, 4.1.3: a ServerHello whose random is SHA-256 of "HelloRetryRequest". */
        static const unsigned char random[32] = { 0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11,
                                                  0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
                                                  0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e,
                                                  0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c };

        if ((length > 0 && bytes[0] != HANDSHAKE) || (length > 5 && bytes[5] != SERVER_HELLO))
                return 0;
        if (length < TUNNEL_ANSWER)
                return -1;
        return memcmp(bytes + 11, random, sizeof(random)) == 0;
}

void tunnel_hear_server(struct tunnel *tunnel, const char *bytes, size_t length) {
        size_t room = TUNNEL_ANSWER - tunnel->answered;
        int again;

        if (tunnel->phase != TUNNEL_BETWEEN)
                return;
        memcpy(tunnel->answer + tunnel->answered, bytes, length < room ? length : room);
        tunnel->answered += length < room ? length : room;
        again = asks_again(tunnel->answer, tunnel->answered);
        if (again >= 0)
                tunnel->phase = again ? TUNNEL_SECOND : TUNNEL_OPEN;
}
