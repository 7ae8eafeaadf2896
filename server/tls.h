/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS for clients, by OpenSSL's libssl, which is loaded when there is a certificate. This is the
 * only module that includes it. TLS 1.2 and 1.3, with ciphers that keep old traffic secret also
 * from a later thief of the key; no renegotiation, no resumption, no certificates of clients; of
 * protocols on top HTTP/1.1 alone.
 *
 * The certificate may be replaced while it is served: each new connection takes the pair of that moment, and those that are there go
 * on with theirs.
 */
#ifndef BERTH_SERVER_TLS_H
#define BERTH_SERVER_TLS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct tls;

/*
 * Files in PEM: the certificate with those above it, and its private key, which must not be
 * readable by all users, nor have a passphrase. -1 where they are no pair.
 */
int tls_open(const char *certificate_file, const char *key_file, struct tls **ret,
             struct error *err) MUST_USE;
/* No connection may be open. NULL is fine. */
void tls_close(struct tls *tls);

/*
 * Looks whether the files changed: 1 if their content is served from now on; 0 where nothing
 * changed, or they still change; -1 where they are no pair, said once for each state of the files:
 * the pair from before stays. One thread only.
 */
int tls_look(struct tls *tls, struct error *err) MUST_USE;
/* Seconds since 1970 when the certificate that is served ends to be valid. Any thread. */
int64_t tls_expires_s(struct tls *tls);

/*
 * One connection's; of one thread. Its socket is borrowed, and blocks: shutting it down ends what
 * waits here.
 */
struct tls_line;
/* The handshake; NULL where it failed, or the client left. */
struct tls_line *tls_accept(struct tls *tls, int socket);
void tls_line_free(struct tls_line *line); /* NULL is fine */
/* How many bytes came; 0 where no more will. */
size_t tls_read(struct tls_line *line, void *bytes, size_t size);
/* All of them, or -1. */
int tls_write(struct tls_line *line, const void *bytes, size_t length) MUST_USE;
/* Says that no more will be sent: an end without this was cut off by another party. */
void tls_finish(struct tls_line *line);

#endif
