/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What went through a proxy, and what it refused, by host: for a log that a sandbox cannot flood. Connections of one host, port and
 * outcome are added up until they are told; beyond TALLY_LINES of these the rest is one line without a name.
 *
 * On the way it is JSON: [{"host", "port", "outcome", "connections", "sentBytes", "receivedBytes"}, ...]. `outcome` is "" where the
 * host was reached, else why not.
 */
#ifndef BERTH_EGRESS_TALLY_H
#define BERTH_EGRESS_TALLY_H

#include "base/arena.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "egress/allow.h"

#include <stddef.h>
#include <stdint.h>

#define TALLY_LINES 64
#define TALLY_OUTCOME_MAX 160

struct tally_line {
        char host[ALLOW_HOST_MAX + 1]; /* "": none was named, or there were too many */
        uint16_t port;
        char outcome[TALLY_OUTCOME_MAX];
        uint64_t connections, sent_bytes, received_bytes;
};

struct tally {
        struct tally_line lines[TALLY_LINES + 1];
        size_t count;
};

void tally_add(struct tally *tally, const struct tally_line *line);
void tally_write(const struct tally *tally, struct strbuf *ret);
/* From a process that may have been taken over: what is not of the above form is an error. */
int tally_read(const char *bytes, size_t length, struct tally *ret, struct error *err) MUST_USE;
/* "pypi.org:443: 2 connections, 1234 bytes sent, 5678 received". */
void tally_describe(const struct tally_line *line, struct strbuf *ret);

#endif
