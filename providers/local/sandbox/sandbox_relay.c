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

        *relay = (struct sandbox_relay)SANDBOX_RELAY_NONE;
        relay->input = input;
        relay->output = output;
        relay->errors = errors;
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
        relay->for_client = false;
        memcpy(ret_ready, &state, sizeof(state));
}

/* --- the program's pipes --- */

/*
 * A half-written message goes on; then come the worker's own; clients' messages wait until those
 * have ended.
 */
static bool has_to_ask(const struct sandbox_relay *relay) {
        return relay->asked_at > 0 || relay->urgent.length > 0 || relay->checkpoint.source >= 0 ||
               (relay->asked.length > 0 && !sandbox_checkpoint_is_under_way(&relay->checkpoint));
}

void sandbox_relay_poll(const struct sandbox_relay *relay, struct pollfd ret[SANDBOX_RELAY_PIPES]) {
        bool room = kept(relay) < SANDBOX_RELAY_MAX;

        ret[0] = (struct pollfd){ .fd = has_to_ask(relay) ? relay->input : -1, .events = POLLOUT };
        ret[1] = (struct pollfd){ .fd = room ? relay->output : -1, .events = POLLIN };
        ret[2] = (struct pollfd){ .fd = relay->errors, .events = POLLIN };
}

static void write_asked(struct sandbox_relay *relay) {
        struct strbuf *from = &relay->asked;
        size_t *at = &relay->asked_at;
        ssize_t count;

        if (relay->asked_at == 0) {
                if (relay->urgent.length == 0)
                        (void)sandbox_checkpoint_next(&relay->checkpoint, &relay->urgent);
                if (relay->urgent.length > 0) {
                        from = &relay->urgent;
                        at = &relay->urgent_at;
                } else if (!has_to_ask(relay)) {
                        return;
                }
        }
        count = write(relay->input, from->data + *at, from->length - *at);
        if (count < 0 && (errno == EINTR || errno == EAGAIN))
                return;
        /*
         * A program that reads no more is about to end, or is a lost one: its waiting client has a
         * clock.
         */
        if (count < 0)
                close_descriptor(&relay->input);
        else
                *at += (size_t)count;
        if (count < 0 || *at == from->length) {
                strbuf_release(from);
                *at = 0;
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
        if (sandbox_checkpoint_reads(&relay->checkpoint)) {
                struct strbuf piece STRBUF_CLEANUP = STRBUF_INIT;

                strbuf_append_bytes(&piece, relay->kept.data + relay->kept.length, (size_t)count);
                sandbox_checkpoint_hear(&relay->checkpoint, piece.data, piece.length, relay->mark,
                                        &relay->kept);
                return true;
        }
        relay->kept.length += (size_t)count;
        relay->kept.data[relay->kept.length] = '\0';
        return true;
}

/*
 * The runtime's own diagnostics are thrown away, since no reader exists: the pipe only must not
 * block.
 */
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

/* --- checkpoints --- */

/* What of a message has come already is its beginning for the one who looks for words about the checkpoint: it may be one. */
static void take_checkpoint(struct sandbox_relay *relay, const struct sandbox_wish *wish, int file,
                            int64_t now_ms) {
        size_t whole = sandbox_checkpoint_whole(relay->kept.data + relay->dropped, kept(relay));
        size_t end = relay->dropped + whole;
        struct strbuf rest STRBUF_CLEANUP = STRBUF_INIT;

        sandbox_checkpoint_take(&relay->checkpoint, wish, file, now_ms, &relay->urgent);
        if (end == relay->kept.length)
                return;
        strbuf_append_bytes(&rest, relay->kept.data + end, relay->kept.length - end);
        relay->kept.length = end;
        sandbox_checkpoint_hear(&relay->checkpoint, rest.data, rest.length, relay->mark, &relay->kept);
}

bool sandbox_relay_park(struct sandbox_relay *relay, int64_t now_ms) {
        int file;

        if (relay->spare < 0 || relay->input < 0 || sandbox_checkpoint_is_under_way(&relay->checkpoint))
                return false;
        /* Of an attempt before this one nothing may stay. */
        file = ftruncate(relay->spare, 0) < 0 ? -1 : fcntl(relay->spare, F_DUPFD_CLOEXEC, 0);
        if (file < 0)
                return false;
        relay->for_client = relay->checkpoint.patient = false;
        take_checkpoint(relay, &relay->wish, file, now_ms);
        return true;
}

void sandbox_relay_tell_parked(struct sandbox_relay *relay) {
        const char *why = relay->checkpoint.whole ? "" : relay->checkpoint.why;

        if (relay->for_client)
                sandbox_relay_append(relay, MESSAGE_PARKED, why, strlen(why));
        relay->for_client = false;
}

static int hear_park(struct sandbox_relay *relay, struct frame *frame, int64_t now_ms) {
        static const char busy[] = "a checkpoint is taken or given back already";
        struct sandbox_wish wish;

        if (frame->payload.length != sizeof(wish) || frame->count != 1)
                return -1;
        memcpy(&wish, frame->payload.data, sizeof(wish));
        wish.id[SANDBOX_ENVELOPE_ID_MAX] = '\0';
        if (frame->type == MESSAGE_ARM) {
                close_descriptor(&relay->spare);
                relay->spare = frame_take(frame, 0);
                relay->wish = wish;
        } else if (sandbox_checkpoint_is_under_way(&relay->checkpoint)) {
                sandbox_relay_append(relay, MESSAGE_PARKED, busy, strlen(busy));
        } else {
                take_checkpoint(relay, &wish, frame_take(frame, 0), now_ms);
                relay->for_client = relay->checkpoint.patient = true;
        }
        return 1;
}

static int hear_restore(struct sandbox_relay *relay, struct frame *frame) {
        uint64_t bytes;

        if (frame->payload.length <= sizeof(bytes) || frame->count != 1 ||
            sandbox_checkpoint_is_under_way(&relay->checkpoint))
                return -1;
        memcpy(&bytes, frame->payload.data, sizeof(bytes));
        strbuf_append_bytes(&relay->urgent, frame->payload.data + sizeof(bytes),
                            frame->payload.length - sizeof(bytes));
        sandbox_checkpoint_give(&relay->checkpoint, frame_take(frame, 0), bytes);
        return 1;
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

static int64_t time_after(int64_t now_ms, int64_t ms) {
        return ms < INT64_MAX - now_ms ? now_ms + ms : INT64_MAX;
}

static int hear_life(struct sandbox_relay *relay, const struct frame *frame, int64_t now_ms) {
        struct sandbox_life life;
        uint64_t number;

        if (frame->payload.length != sizeof(number) || frame->count > 0)
                return -1;
        memcpy(&number, frame->payload.data, sizeof(number));
        life = sandbox_life_unpack(number);
        relay->age_ms = time_after(now_ms, life.age_ms);
        relay->idle_ms = time_after(now_ms, life.idle_ms);
        return 1;
}

int64_t sandbox_relay_over_ms(const struct sandbox_relay *relay, bool has_client) {
        int64_t idle_ms = has_client ? INT64_MAX
                          : sandbox_relay_is_heard(relay)
                                  ? relay->idle_ms
                                  : time_after(relay->idle_ms, SANDBOX_RELAY_UNHEARD_MS);

        return idle_ms < relay->age_ms ? idle_ms : relay->age_ms;
}

int sandbox_relay_hear(struct sandbox_relay *relay, struct frame *frame, int64_t now_ms) {
        uint64_t number;

        switch (frame->type) {
        case MESSAGE_SAY:
                return frame->count > 0 ? -1 : hear_piece(relay, &frame->payload);
        case MESSAGE_PARK:
        case MESSAGE_ARM:
                return hear_park(relay, frame, now_ms);
        case MESSAGE_RESTORE:
                return hear_restore(relay, frame);
        case MESSAGE_HEARD:
                if (frame->payload.length != sizeof(number) || frame->count > 0)
                        return -1;
                memcpy(&number, frame->payload.data, sizeof(number));
                return hear_heard(relay, number);
        case MESSAGE_LIFE:
                return hear_life(relay, frame, now_ms);
        default:
                return 0;
        }
}

/* --- what the client is told --- */

bool sandbox_relay_is_heard(const struct sandbox_relay *relay) {
        return kept(relay) == 0;
}

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
