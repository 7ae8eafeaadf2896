/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client says in a tunnel, until its peer is certain: nothing goes out before a ClientHello
 * that names the host (hello.h). A server may ask for a second one (RFC 8446, 4.1.4), which must
 * name it as well. From then on all is encrypted, or the server's trouble, and goes through as it
 * is. Pure, but for the memory that it takes.
 */
#ifndef BERTH_EGRESS_TUNNEL_H
#define BERTH_EGRESS_TUNNEL_H

#include "egress/hello.h"

/* Room that a client's bytes need to be judged: the longest hello, and a record behind it. */
#define TUNNEL_ROOM (40 * 1024)
/* So much of what a server says first tells whether it asks again: a record's head, a message's, its version and its random. */
#define TUNNEL_ANSWER 43

enum tunnel_phase {
        TUNNEL_FIRST,   /* no ClientHello yet */
        TUNNEL_BETWEEN, /* one, and no answer yet */
        TUNNEL_SECOND,  /* the server asked again */
        TUNNEL_OPEN
};

struct tunnel {
        enum tunnel_phase phase;
        const char *host; /* borrowed */
        struct hello *hello;
        size_t read; /* of the bytes that were not let through, how many are read already */
        unsigned char answer[TUNNEL_ANSWER];
        size_t answered;
};

void tunnel_begin(struct tunnel *tunnel, const char *host);
void tunnel_end(struct tunnel *tunnel);
/*
 * `bytes` are all that were not let through yet. *ret_clear: how many of them may go on. -1: the
 * tunnel must be closed, *ret_why, a literal, says why.
 */
int tunnel_let_through(struct tunnel *tunnel, const char *bytes, size_t length, size_t *ret_clear,
                       const char **ret_why);
/* What the server said, from its first byte on. */
void tunnel_hear_server(struct tunnel *tunnel, const char *bytes, size_t length);

#endif
