/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An answer of HTTP/1.1, read in whatever pieces it comes; no I/O. As much of it as Lambda's Runtime API has: one answer on a connection
 * that is closed then, of a known length, in chunks, or to the end of the connection. An answer that can be read in two ways (two lengths, a length
 * and chunks, a folded line, a bare newline) is refused.
 */
#ifndef BERTH_RUNTIME_LAMBDA_LAMBDA_HTTP_H
#define BERTH_RUNTIME_LAMBDA_LAMBDA_HTTP_H

#include "base/error.h"
#include "base/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LAMBDA_HTTP_HEAD_MAX ((size_t)32768)

struct lambda_http {
        struct strbuf head; /* the status line and the headers, once they are whole */
        struct strbuf body; /* not text */
        size_t body_max;
        bool headed, whole;
        int status; /* 200 to 599 */
        bool chunked, to_end;
        uint64_t left; /* of the body, or of the chunk */
        int part;      /* of the chunks: which is read */
        struct strbuf line;
};
/* An answer to be read, whose body has at most this length. */
#define LAMBDA_HTTP_INIT(most) \
        { .body_max = (most) }
void lambda_http_release(struct lambda_http *answer);
#define LAMBDA_HTTP_CLEANUP __attribute__((cleanup(lambda_http_release)))

/*
 * Takes the bytes, none: the connection has ended. 1: it is whole. 0: more has to come. -1: err,
 * and it is invalid.
 */
int lambda_http_read(struct lambda_http *answer, const char *bytes, size_t length,
                     struct error *err) MUST_USE;

/*
 * A header's value, which fits into `size` with its NUL and is printable ASCII: 1; 0 if absent, and
 * "" then; -1 where there are two, or it is too long or odd. `name` in any case.
 */
int lambda_http_header(const struct lambda_http *answer, const char *name, char *ret, size_t size) MUST_USE;

#endif
