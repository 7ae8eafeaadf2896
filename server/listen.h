/* SPDX-License-Identifier: Apache-2.0 */
/* A socket to listen on. */
#ifndef BERTH_SERVER_LISTEN_H
#define BERTH_SERVER_LISTEN_H

#include "base/error.h"

/*
 * "127.0.0.1:9470", "[::1]:9470", "localhost:9470"; ":9470" is every address of the machine, IPv6 and IPv4; port 0 is any
 * free one. *ret_socket listens, and is the caller's to close.
 */
int listen_open(const char *address, int *ret_socket, unsigned *ret_port, struct error *err) MUST_USE;

#endif
