/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both directions must survive a peer that sends anything. Received bytes belong to one frame: no
 * more are asked for than that frame has left, so that descriptors of the next one cannot arrive
 * with it. Memory grows with the bytes that come, not with the length that was announced.
 */
#include "process/frame.h"

#include "base/files.h"
#include "base/libc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEADER 8

/* Room for the descriptors of one message, aligned as the kernel wants it. */
union control {
        struct cmsghdr header;
        char space[CMSG_SPACE(FRAME_DESCRIPTORS_MAX * sizeof(int))];
};

void frame_release(struct frame *frame) {
        for (size_t i = 0; i < frame->count; i++)
                close_descriptor(&frame->descriptors[i]);
        frame->count = 0;
        strbuf_release(&frame->payload);
}

int frame_take(struct frame *frame, size_t index) {
        int taken = index < frame->count ? frame->descriptors[index] : -1;

        if (taken >= 0)
                frame->descriptors[index] = -1;
        return taken;
}

void frame_reader_release(struct frame_reader *reader) {
        frame_release(&reader->frame);
}

/* --- sending --- */

static void write_header(unsigned char header[HEADER], unsigned type, size_t length, size_t count) {
        uint32_t length32 = (uint32_t)length;
        uint16_t type16 = (uint16_t)type, count16 = (uint16_t)count;

        if (length > FRAME_PAYLOAD_MAX || count > FRAME_DESCRIPTORS_MAX || type > UINT16_MAX)
                abort();
        memcpy(header, &length32, sizeof(length32));
        memcpy(header + 4, &type16, sizeof(type16));
        memcpy(header + 6, &count16, sizeof(count16));
}

void frame_append(struct strbuf *to, unsigned type, const void *payload, size_t length) {
        unsigned char header[HEADER];

        write_header(header, type, length, 0);
        strbuf_append_bytes(to, header, HEADER);
        strbuf_append_bytes(to, payload, length);
}

static int send_all(int socket, unsigned type, const void *payload, size_t length, const int *descriptors,
                    size_t count, int flags) {
        unsigned char header[HEADER];
        union control control = { .space = { 0 } };
        struct iovec parts[2] = { { header, HEADER }, { (void *)payload, length } };
        struct msghdr message = { .msg_iov = parts, .msg_iovlen = length > 0 ? 2 : 1 };
        size_t left = HEADER + length;

        write_header(header, type, length, count);
        if (count > 0) {
                message.msg_control = control.space;
                message.msg_controllen = (socklen_t)CMSG_SPACE(count * sizeof(int));
                control.header.cmsg_level = SOL_SOCKET;
                control.header.cmsg_type = SCM_RIGHTS;
                control.header.cmsg_len = (socklen_t)CMSG_LEN(count * sizeof(int));
                memcpy(CMSG_DATA(&control.header), descriptors, count * sizeof(int));
        }
        while (left > 0) {
                ssize_t sent = sendmsg(socket, &message, MSG_NOSIGNAL | flags);

                if (sent < 0 && errno == EINTR)
                        continue;
                if (sent < 0)
                        return -1;
                left -= (size_t)sent;
                /* The descriptors went with the first byte. */
                message.msg_control = NULL;
                message.msg_controllen = 0;
                for (struct iovec *part = parts; part < parts + message.msg_iovlen; part++) {
                        size_t taken = (size_t)sent < part->iov_len ? (size_t)sent : part->iov_len;

                        part->iov_base = (char *)part->iov_base + taken;
                        part->iov_len -= taken;
                        sent -= (ssize_t)taken;
                }
        }
        return 0;
}

int frame_send(int socket, unsigned type, const void *payload, size_t length, const int *descriptors,
               size_t count, struct error *err) {
        if (send_all(socket, type, payload, length, descriptors, count, 0) < 0)
                return error_set(err, "cannot send a message of type %u: %s", type, strerror(errno));
        return 0;
}

int frame_send_now(int socket, unsigned type, const void *payload, size_t length, const int *descriptors,
                   size_t count, struct error *err) {
        if (send_all(socket, type, payload, length, descriptors, count, MSG_DONTWAIT) < 0)
                return error_set(err, "a message of type %u is not taken: %s", type, strerror(errno));
        return 0;
}

/* --- receiving --- */

/* Takes the descriptors of one message into the frame; -1 where there are more than a frame may have. */
static int keep_descriptors(struct frame *frame, struct msghdr *message) {
        int result = message->msg_flags & MSG_CTRUNC ? -1 : 0;

        for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = cmsg_next(message, header)) {
                size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);

                if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
                        continue;
                for (size_t i = 0; i < count; i++) {
                        int descriptor;

                        memcpy(&descriptor, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
                        if (frame->count < FRAME_DESCRIPTORS_MAX) {
                                frame->descriptors[frame->count++] = descriptor;
                        } else {
                                close(descriptor);
                                result = -1;
                        }
                }
        }
        return result;
}

/*
 * Reads into `to`. The kernel never joins bytes from before descriptors with bytes that came with them, and we never ask for
 * more than is left of one frame: what comes along is this frame's.
 */
static ssize_t receive_some(struct frame_reader *reader, void *to, size_t length, struct error *err) {
        union control control;
        struct iovec part = { to, length };
        struct msghdr message = { .msg_iov = &part,
                                  .msg_iovlen = 1,
                                  .msg_control = control.space,
                                  .msg_controllen = sizeof(control.space) };
        ssize_t count;

        do {
                count = recvmsg(reader->socket, &message, MSG_CMSG_CLOEXEC);
        } while (count < 0 && errno == EINTR);
        if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
                return -1;
        /* The other side closed, and had not read all that we sent: it is a close nevertheless. */
        if (count < 0 && errno == ECONNRESET)
                return 0;
        if (count < 0)
                return error_set(err, "cannot receive: %s", strerror(errno)) - 1;
        if (keep_descriptors(&reader->frame, &message) < 0)
                return error_set(err, "the other side sent too many descriptors") - 1;
        return count;
}

/* Of a whole header; -1 where what it says is out of bounds. */
static int read_header(struct frame_reader *reader, struct error *err) {
        uint32_t length;
        uint16_t type, count;

        memcpy(&length, reader->header, sizeof(length));
        memcpy(&type, reader->header + 4, sizeof(type));
        memcpy(&count, reader->header + 6, sizeof(count));
        if (length > FRAME_PAYLOAD_MAX)
                return error_set(err, "the other side sent a message of %lu bytes", (unsigned long)length);
        if (count != reader->frame.count)
                return error_set(err, "the other side sent %zu descriptors and announced %u",
                                 reader->frame.count, (unsigned)count);
        reader->frame.type = type;
        reader->length = length;
        return 0;
}

int frame_receive(struct frame_reader *reader, struct frame *ret, struct error *err) {
        struct strbuf *payload = &reader->frame.payload;
        ssize_t count;

        while (reader->header_length < HEADER) {
                count = receive_some(reader, reader->header + reader->header_length,
                                     HEADER - reader->header_length, err);
                if (count < 0)
                        return count == -1 ? FRAME_WAIT : -1;
                if (count == 0 && reader->header_length == 0)
                        return FRAME_CLOSED;
                if (count == 0)
                        return error_set(err, "the other side closed in the middle of a message");
                reader->header_length += (size_t)count;
                if (reader->header_length == HEADER && read_header(reader, err) < 0)
                        return -1;
        }
        payload->secret = true;
        while (payload->length < reader->length) {
                size_t left = reader->length - payload->length;
                size_t announced = reader->frame.count;

                /* Memory is taken as bytes come, not as they are announced. */
                left = left < 65536 ? left : 65536;
                strbuf_reserve(payload, left);
                count = receive_some(reader, payload->data + payload->length, left, err);
                if (count < 0)
                        return count == -1 ? FRAME_WAIT : -1;
                if (count == 0 || reader->frame.count != announced)
                        return error_set(err, count == 0 ? "the other side closed in the middle of a message"
                                                         : "the other side sent descriptors in between");
                payload->length += (size_t)count;
                payload->data[payload->length] = '\0';
        }
        *ret = reader->frame;
        *reader = (struct frame_reader){ .socket = reader->socket };
        return FRAME_WHOLE;
}
