/* SPDX-License-Identifier: Apache-2.0 */
/* A socket to listen on. */
#ifndef BERTH_SERVER_LISTEN_H
#define BERTH_SERVER_LISTEN_H

#include "base/error.h"

#include <stdbool.h>

/*
 * "127.0.0.1:9470", "[::1]:9470", "localhost:9470"; ":9470" is every address of the machine, IPv6 and IPv4; port 0 is any
 * free one. *ret_socket listens, and is the caller's to close.
 */
int listen_open(const char *address, int *ret_socket, unsigned *ret_port, struct error *err) MUST_USE;

/*
 * Whether only this machine reaches such an address: also false for one that listen_open() would
 * refuse.
 */
bool listen_is_loopback(const char *address);

/* A Unix socket of that mode at `path`, which has 107 bytes at the most; a socket that lies there is replaced. */
int listen_open_unix(const char *path, unsigned mode, int *ret_socket, struct error *err) MUST_USE;

#endif
