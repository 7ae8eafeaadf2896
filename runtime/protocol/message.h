/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of the runtime, on every way that they go: a head, which is a JSON object, and a body, which is raw bytes.
 * README.md says which messages there are.
 *
 * On the wire: the head's length and the body's length, 32 bits each, the highest byte first; the head in UTF-8; the body.
 * Reading does no I/O: bytes come from a socket, a pipe or an HTTP body, in whatever pieces.
 *
 *     while (length > 0 && (answer = message_read(&reader, bytes, length, &used, &message, &err)) >= 0) {
 *             bytes += used, length -= used;
 *             if (answer == MESSAGE_WHOLE) { ... message_release(&message); }
 *     }
 *
 * The other side may be hostile. An announced length is checked against the bounds before anything
 * is kept, and memory grows with the bytes that come. A member that stands twice, a text with NUL
 * or that is no UTF-8, and a head that is no object are refused.
 */
#ifndef BERTH_RUNTIME_PROTOCOL_MESSAGE_H
#define BERTH_RUNTIME_PROTOCOL_MESSAGE_H

#include "base/error.h"
#include "base/strbuf.h"

#include <jansson.h>
#include <stddef.h>

#define MESSAGE_HEAD_MAX ((size_t)1 << 20)
#define MESSAGE_BODY_MAX ((size_t)16 << 20)
/* Nested deeper than this is no message of ours. */
#define MESSAGE_DEPTH_MAX 8

struct message {
        json_t *head;       /* owned; never NULL once it was read */
        struct strbuf body; /* not text */
};
#define MESSAGE_INIT \
        { 0 }
void message_release(struct message *message); /* also of one that is all zero */
#define MESSAGE_CLEANUP __attribute__((cleanup(message_release)))

/* What of a message has come so far; all zero is a new one. */
struct message_reader {
        unsigned char lengths[8];
        size_t lengths_come;
        size_t head_length, body_length; /* once the lengths are whole */
        struct strbuf head, body;
};
void message_reader_release(struct message_reader *reader);
#define MESSAGE_READER_CLEANUP __attribute__((cleanup(message_reader_release)))

enum message_answer { MESSAGE_MORE = 0, MESSAGE_WHOLE = 1 };
/*
 * Takes at most what belongs to one message and says in *ret_used how many bytes those were. MESSAGE_WHOLE: *ret is the
 * caller's. -1: err, and nothing that comes after can be read.
 */
int message_read(struct message_reader *reader, const void *bytes, size_t length, size_t *ret_used,
                 struct message *ret, struct error *err) MUST_USE;
/* Whether nothing of a next message has come: where an end is no cut. */
bool message_reader_is_between(const struct message_reader *reader);

/*
 * Appends the message. Aborts if it is beyond the bounds: the writer must have checked. The head is
 * borrowed.
 */
void message_write(struct strbuf *to, const json_t *head, const void *body, size_t length);

#endif
