/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way out of a sandbox: a process that stands in the machine's network, and listens in the
 * sandbox's. A client asks for a host (asked.h); where it is allowed, and all addresses that its
 * name has are public ones, it is connected to one of those very addresses. What goes through is
 * bounded in connections, bytes and time, and counted.
 *
 *         proxy_listen(&listener, &port, err)     in the sandbox's network namespace
 *         proxy_main(channel, &list)              in a process of its own, in the machine's; never returns
 *
 * The process has no rights and opens no file once it has begun: process/cage.h, with CAGE_PROXY. It has no secrets: the list of
 * hosts is all that it knows. On its channel, a stream socket (process/frame.h), it is given what it listens on, and tells what went
 * through. It ends with its channel, and with SIGTERM, having told the rest.
 */
#ifndef BERTH_EGRESS_PROXY_H
#define BERTH_EGRESS_PROXY_H

#include "base/error.h"
#include "egress/allow.h"

/* In the sandbox, unless that port is taken there. */
#define PROXY_PORT 3128

enum proxy_message {
        PROXY_LISTENER = 1, /* to it, with a socket that listens; once */
        PROXY_TALLY         /* from it: what went through since the last one, as tally.h writes it */
};

int proxy_listen(int *ret, uint16_t *ret_port, struct error *err) MUST_USE;
void proxy_main(int channel, const struct allow_list *list) __attribute__((noreturn));

#endif
