/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client asks the proxy for, from the head of its request:
 *
 *         CONNECT HOST:PORT HTTP/1.1                 a tunnel, for TLS
 *         GET http://HOST[:PORT]/PATH HTTP/1.1       one request, passed on as GET /PATH
 *
 * One request a connection. The outgoing head is written again from what was understood, and from
 * nothing else: Host is the target's, a body has one length, and fields of the connection are left
 * out. Refused is what two programs could read in two ways, by server/head.h and besides: a Host
 * that is another one, a body in chunks, a user in the target. Pure.
 */
#ifndef BERTH_EGRESS_ASKED_H
#define BERTH_EGRESS_ASKED_H

#include "base/arena.h"
#include "base/strbuf.h"
#include "egress/allow.h"

struct asked {
        bool tunnel;
        char host[ALLOW_HOST_MAX + 1]; /* in small letters */
        uint16_t port;
        unsigned long long body; /* bytes that follow the head */
        bool awaits_go_ahead;    /* the client sends them when it is told to: Expect: 100-continue */
};

/*
 * `text` is a head as head_end() found it, with a NUL behind it; it is cut up. `onward` gets the
 * head of what is passed on, nothing for a tunnel. 0, or the HTTP status that refuses it with a
 * line for the client, a literal.
 */
unsigned asked_read(char *text, struct arena *arena, struct asked *ret, struct strbuf *onward,
                    const char **ret_why);

/*
 * The head of an answer as it goes to the client, which must not count on this connection for
 * another request: Connection is ours. The same text as above. False for one that says that another
 * will follow (1xx), which does not go on.
 */
bool asked_answer(char *text, struct strbuf *ret);

#endif
