/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ports of a sandbox: connections to sockets that listen outside are passed on to its own loopback device. A socket belongs to the
 * network in which it was made: those that listen come from outside, and those that are made here are in the sandbox's. So there
 * is a way in, and none out.
 */
#ifndef BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_PORTS_H
#define BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_PORTS_H

#include <stddef.h>
#include <stdint.h>

/* Connections of one sandbox. */
#define SANDBOX_PORTS_MAX 16
/* At once, of all ports of one sandbox: each has two sockets in its network (SANDBOX_SOCKETS_MAX). Others wait to be accepted. */
#define SANDBOX_PORT_CONNECTIONS_MAX 1500

/*
 * In a process of its own, without rights, in the sandbox's network and cgroup: it never returns. `listeners` are its own, and go with
 * it; connections to the i-th go to `numbers[i]` of 127.0.0.1, or of ::1 where nothing listens there.
 */
void sandbox_ports_main(const int *listeners, const uint16_t *numbers, size_t count)
        __attribute__((noreturn));

#endif
