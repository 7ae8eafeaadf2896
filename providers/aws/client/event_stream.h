/* SPDX-License-Identifier: Apache-2.0 */
/*
 * application/vnd.amazon.eventstream, in which AWS sends answers that come bit by bit: messages, each
 *
 *     length of all (4)  length of the headers (4)  CRC-32 of these (4)  headers  payload  CRC-32 of all before (4)
 *
 * in network order; a header is the length of its name (1), the name, its type (1) and a value of that type ("Amazon event stream
 * encoding" in the S3 API Reference; the same everywhere). There is no library for it in Debian: aws-c-event-stream came later.
 *
 * Pieces may be cut anywhere. The input is not trusted: a message that is too long, whose checksums
 * do not fit, or whose headers are not what they say ends the reading, for good.
 */
#ifndef BERTH_PROVIDERS_AWS_CLIENT_EVENT_STREAM_H
#define BERTH_PROVIDERS_AWS_CLIENT_EVENT_STREAM_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A message with more is an error; Lambda's own answers are bounded far below. */
#define EVENT_STREAM_MESSAGE_MAX ((size_t)16 << 20)
#define EVENT_STREAM_HEADERS_MAX ((size_t)128 << 10)

/* The headers that AWS's services use; NULL where a message has none of that name that is a text. Good for the call. */
struct event_stream_message {
        const char *type;      /* ":message-type": "event", "exception" or "error" */
        const char *event;     /* ":event-type", of an event */
        const char *exception; /* ":exception-type", of an exception: modelled, its payload says what */
        const char *code;      /* ":error-code" and ":error-message", of an error */
        const char *text;
        const void *payload;
        size_t length;
};

/* 0, or -1 with err, which ends the reading. */
typedef int event_stream_take(void *context, const struct event_stream_message *message, struct error *err);

struct event_stream;
struct event_stream *event_stream_new(event_stream_take *take, void *context);
void event_stream_free(struct event_stream *stream); /* NULL is fine */
void event_stream_freep(struct event_stream **stream);
#define EVENT_STREAM_CLEANUP __attribute__((cleanup(event_stream_freep)))

/* Hands over each message that is whole. After a failure there is nothing but failures. */
int event_stream_add(struct event_stream *stream, const void *bytes, size_t length,
                     struct error *err) MUST_USE;
/* The answer has ended: an error in the middle of a message. */
int event_stream_end(const struct event_stream *stream, struct error *err) MUST_USE;

/* CRC-32 of IEEE 802.3, as zlib's; `before` is that of what came before, 0 at the beginning. */
uint32_t event_stream_crc(uint32_t before, const void *bytes, size_t length);

#endif
