/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between two processes over a Unix stream socket: a type, at most FRAME_PAYLOAD_MAX bytes, and at most
 * FRAME_DESCRIPTORS_MAX open descriptors that go with them.
 *
 *     frame_send(socket, TYPE, bytes, length, descriptors, count, &err)
 *     while (frame_receive(&reader, &frame, &err) == FRAME_WHOLE) { ... frame_release(&frame); }
 *
 * On the wire: eight bytes (payload's length as 32 bits, type and number of descriptors as 16 bits each, in the machine's
 * order, since both ends are on one machine), then the payload. Descriptors travel with the first byte.
 *
 * The other side may be hostile: a length or a number beyond the bounds, descriptors that were not announced or that do not
 * come, are an error, and whatever had arrived is closed. What the payload means is for the caller to check.
 */
#ifndef BERTH_PROCESS_FRAME_H
#define BERTH_PROCESS_FRAME_H

#include "base/error.h"
#include "base/strbuf.h"

#include <stddef.h>
#include <stdint.h>

#define FRAME_PAYLOAD_MAX ((size_t)4 << 20)
#define FRAME_DESCRIPTORS_MAX 24

struct frame {
        unsigned type;
        struct strbuf payload;                  /* not text: may hold NUL bytes */
        int descriptors[FRAME_DESCRIPTORS_MAX]; /* closed on exec; owned until frame_take() */
        size_t count;
};
void frame_release(struct frame *frame); /* also of one that is all zero */
#define FRAME_CLEANUP __attribute__((cleanup(frame_release)))
/* The descriptor at `index` becomes the caller's; -1 where the frame has none there, or it was taken. */
int frame_take(struct frame *frame, size_t index);

/* Sends all of it, however long the other side takes to read. */
int frame_send(int socket, unsigned type, const void *payload, size_t length, const int *descriptors,
               size_t count, struct error *err) MUST_USE;
/*
 * Sends it at once or not at all: a peer that does not take its frames is an error, and is not
 * waited for. After an error the socket is of no use, since half a frame may have left.
 */
int frame_send_now(int socket, unsigned type, const void *payload, size_t length, const int *descriptors,
                   size_t count, struct error *err) MUST_USE;

/*
 * The bytes of a frame without descriptors, behind those that are there: for a sender that sends
 * them bit by bit.
 */
void frame_append(struct strbuf *to, unsigned type, const void *payload, size_t length);

/* What of a frame has come so far. */
struct frame_reader {
        int socket; /* borrowed */
        unsigned char header[8];
        size_t header_length;
        size_t length; /* of the payload, once the header is whole */
        struct frame frame;
};
#define FRAME_READER(descriptor) \
        { .socket = (descriptor) }
void frame_reader_release(struct frame_reader *reader);
#define FRAME_READER_CLEANUP __attribute__((cleanup(frame_reader_release)))

enum frame_answer {
        FRAME_WAIT = 0,   /* the rest has not come yet (of a socket that does not block) */
        FRAME_WHOLE = 1,  /* *ret is the caller's */
        FRAME_CLOSED = 2, /* the other side has closed between two frames */
};
/* Reads at most what belongs to one frame. -1: err, and the socket is of no use any more. */
int frame_receive(struct frame_reader *reader, struct frame *ret, struct error *err) MUST_USE;

#endif
