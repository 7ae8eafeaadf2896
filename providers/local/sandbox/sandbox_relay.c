/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/sandbox/sandbox_relay.h"

#include "base/files.h"
#include "providers/local/sandbox/sandbox_messages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PIECE ((size_t)64 << 10)
#define SAY_HEADER 9
/* So much that was heard is moved out of the way at once, not with each message. */
#define DROPPED_MAX ((size_t)1 << 20)

void sandbox_relay_begin(struct sandbox_relay *relay, int input, int output, int errors) {
        const int ends[] = { input, output, errors };

        *relay = (struct sandbox_relay){ .input = input, .output = output, .errors = errors };
        for (size_t i = 0; i < 3; i++)
                fcntl(ends[i], F_SETFL, O_NONBLOCK);
}

static size_t kept(const struct sandbox_relay *relay) {
        return relay->kept.length - relay->dropped;
}

void sandbox_relay_meet(struct sandbox_relay *relay, char ret_ready[SANDBOX_RELAY_STATE_SIZE]) {
        struct sandbox_relay_state state = { .first = relay->first,
                                             .end = relay->first + kept(relay),
                                             .mark = relay->mark };

        strbuf_release(&relay->coming);
        strbuf_release(&relay->outgoing);
        relay->outgoing_at = 0;
        relay->told = relay->first;
        memcpy(ret_ready, &state, sizeof(state));
}

/* --- the program's pipes --- */

void sandbox_relay_poll(const struct sandbox_relay *relay, struct pollfd ret[SANDBOX_RELAY_PIPES]) {
        bool room = kept(relay) < SANDBOX_RELAY_MAX;

        ret[0] = (struct pollfd){ .fd = relay->asked.length > 0 ? relay->input : -1, .events = POLLOUT };
        ret[1] = (struct pollfd){ .fd = room ? relay->output : -1, .events = POLLIN };
        ret[2] = (struct pollfd){ .fd = relay->errors, .events = POLLIN };
}

static void write_asked(struct sandbox_relay *relay) {
        ssize_t count = write(relay->input, relay->asked.data + relay->asked_at,
                              relay->asked.length - relay->asked_at);

        if (count < 0 && (errno == EINTR || errno == EAGAIN))
                return;
        /* A program that reads no more is about to end, or is a lost one: who waits for it has a clock. */
        if (count < 0)
                close_descriptor(&relay->input);
        else
                relay->asked_at += (size_t)count;
        if (count < 0 || relay->asked_at == relay->asked.length) {
                strbuf_release(&relay->asked);
                relay->asked_at = 0;
        }
}

static bool read_output(struct sandbox_relay *relay) {
        size_t room = SANDBOX_RELAY_MAX - kept(relay), most = room < PIECE ? room : PIECE;
        ssize_t count;

        if (most == 0 || !strbuf_reserve(&relay->kept, most))
                return false;
        count = read(relay->output, relay->kept.data + relay->kept.length, most);
        if (count < 0 && (errno == EINTR || errno == EAGAIN))
                return false;
        if (count <= 0) {
                close_descriptor(&relay->output);
                return false;
        }
        relay->kept.length += (size_t)count;
        relay->kept.data[relay->kept.length] = '\0';
        return true;
}

/* What the runtime says of itself there is for people who look for a fault of it, and there is nobody: it only must not block. */
static void read_errors(struct sandbox_relay *relay) {
        char ignored[4096];
        ssize_t count = read(relay->errors, ignored, sizeof(ignored));

        if (count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN))
                close_descriptor(&relay->errors);
}

void sandbox_relay_move(struct sandbox_relay *relay, const struct pollfd polled[SANDBOX_RELAY_PIPES]) {
        if (polled[0].revents && relay->input >= 0)
                write_asked(relay);
        if (polled[1].revents && relay->output >= 0)
                (void)read_output(relay);
        if (polled[2].revents && relay->errors >= 0)
                read_errors(relay);
}

void sandbox_relay_drain(struct sandbox_relay *relay) {
        while (relay->output >= 0 && read_output(relay))
                ;
        close_descriptor(&relay->input);
        close_descriptor(&relay->output);
        close_descriptor(&relay->errors);
}

/* --- the client's frames --- */

static int hear_piece(struct sandbox_relay *relay, const struct strbuf *payload) {
        int64_t mark;

        if (payload->length < SAY_HEADER ||
            relay->coming.length + payload->length - SAY_HEADER > SANDBOX_RELAY_MESSAGE_MAX)
                return -1;
        memcpy(&mark, payload->data, sizeof(mark));
        strbuf_append_bytes(&relay->coming, payload->data + SAY_HEADER, payload->length - SAY_HEADER);
        if (!payload->data[SAY_HEADER - 1])
                return 1;
        /* One message that the program has not begun to read is enough to wait for. */
        if (relay->asked.length - relay->asked_at + relay->coming.length > 2 * SANDBOX_RELAY_MESSAGE_MAX)
                return -1;
        strbuf_append_bytes(&relay->asked, relay->coming.data, relay->coming.length);
        strbuf_release(&relay->coming);
        if (mark > 0)
                relay->mark = mark;
        return 1;
}

static int hear_heard(struct sandbox_relay *relay, uint64_t number) {
        if (number < relay->first)
                return 1;
        if (number > relay->told)
                return -1;
        relay->dropped += (size_t)(number - relay->first);
        relay->first = number;
        if (relay->dropped == relay->kept.length) {
                strbuf_release(&relay->kept);
                relay->dropped = 0;
        } else if (relay->dropped > DROPPED_MAX && relay->dropped > kept(relay)) {
                memmove(relay->kept.data, relay->kept.data + relay->dropped, kept(relay));
                relay->kept.length -= relay->dropped;
                relay->dropped = 0;
        }
        return 1;
}

int sandbox_relay_hear(struct sandbox_relay *relay, struct frame *frame, int64_t *life_ms) {
        uint64_t number;

        switch (frame->type) {
        case MESSAGE_SAY:
                return frame->count > 0 ? -1 : hear_piece(relay, &frame->payload);
        case MESSAGE_HEARD:
        case MESSAGE_LIFE:
                if (frame->payload.length != sizeof(number) || frame->count > 0)
                        return -1;
                memcpy(&number, frame->payload.data, sizeof(number));
                if (frame->type == MESSAGE_HEARD)
                        return hear_heard(relay, number);
                *life_ms = number < INT64_MAX / 2 ? (int64_t)number : INT64_MAX / 2;
                return 1;
        default:
                return 0;
        }
}

/* --- what the client is told --- */

static bool has_more(const struct sandbox_relay *relay) {
        return relay->told < relay->first + kept(relay);
}

bool sandbox_relay_wants_to_tell(const struct sandbox_relay *relay) {
        return relay->outgoing.length > relay->outgoing_at || has_more(relay);
}

static void append_told(struct sandbox_relay *relay) {
        struct strbuf payload STRBUF_CLEANUP = STRBUF_INIT;
        size_t from = relay->dropped + (size_t)(relay->told - relay->first),
               length = relay->kept.length - from;

        if (length > PIECE)
                length = PIECE;
        strbuf_append_bytes(&payload, &relay->told, sizeof(relay->told));
        strbuf_append_bytes(&payload, relay->kept.data + from, length);
        frame_append(&relay->outgoing, MESSAGE_TOLD, payload.data, payload.length);
        relay->told += length;
}

int sandbox_relay_tell(struct sandbox_relay *relay, int client) {
        ssize_t count;

        if (relay->outgoing_at == relay->outgoing.length) {
                strbuf_clear(&relay->outgoing);
                relay->outgoing_at = 0;
                if (has_more(relay))
                        append_told(relay);
        }
        if (relay->outgoing.length == 0)
                return 0;
        count = send(client, relay->outgoing.data + relay->outgoing_at,
                     relay->outgoing.length - relay->outgoing_at, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (count < 0)
                return errno == EINTR || errno == EAGAIN ? 0 : -1;
        relay->outgoing_at += (size_t)count;
        return 0;
}

void sandbox_relay_append(struct sandbox_relay *relay, unsigned type, const void *payload, size_t length) {
        while (has_more(relay))
                append_told(relay);
        frame_append(&relay->outgoing, type, payload, length);
}
