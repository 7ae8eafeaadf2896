/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first message of TLS in a tunnel: a ClientHello that names the host which the tunnel is for, or nothing goes through. It is
 * taken apart by OpenSSL, as a server would do it, and no answer is made. Refused are: what is no ClientHello; one of SSL 2; one
 * without a server name, or with another one; and ECH, which hides the name that counts.
 *
 *         hello_load(err)                          once, before files are out of reach
 *         hello = hello_new("example.org")
 *         while (hello_read(hello, bytes, length, &why) == HELLO_MORE) ... more bytes
 */
#ifndef BERTH_EGRESS_HELLO_H
#define BERTH_EGRESS_HELLO_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* A ClientHello beyond this is refused: OpenSSL's own bound is below it, records and all. */
#define HELLO_MAX (20 * 1024)
enum hello_answer { HELLO_MORE, HELLO_NAMED, HELLO_REFUSED };

struct hello;

int hello_load(struct error *err) MUST_USE;
/* Never NULL once it is loaded. The host must live as long. */
struct hello *hello_new(const char *host);
void hello_free(struct hello *hello); /* NULL is fine */
/* The bytes follow those of the last call. *ret_why, where it is refused: a literal. */
enum hello_answer hello_read(struct hello *hello, const char *bytes, size_t length, const char **ret_why);

#endif
