/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/sandbox/sandbox_porter.h"

#include "base/arena.h"
#include "base/files.h"
#include "providers/local/sandbox/sandbox_files.h"
#include "providers/local/sandbox/sandbox_messages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE ((size_t)256 << 10)

static void forget_file(struct sandbox_porter *porter) {
        struct error ignored;

        if (porter->name && porter->writing >= 0)
                (void)!sandbox_files_remove(porter->folder, porter->name, &ignored);
        close_descriptor(&porter->writing);
        free_text(&porter->name);
        porter->name = NULL;
        porter->failed = (struct error){ 0 };
}

void sandbox_porter_end(struct sandbox_porter *porter) {
        forget_file(porter);
        close_descriptor(&porter->reading);
        strbuf_release(&porter->outgoing);
        porter->outgoing_at = 0;
        frame_reader_release(&porter->client);
        close_descriptor(&porter->client.socket);
        porter->client = (struct frame_reader)FRAME_READER(-1);
}

int sandbox_porter_begin(struct sandbox_porter *porter, int folder, int *ret_socket, struct error *err) {
        int pair[2];

        sandbox_porter_end(porter);
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
                return error_set(err, "cannot make a socket: %s", strerror(errno));
        porter->folder = folder;
        porter->client.socket = pair[0];
        *ret_socket = pair[1];
        return 0;
}

struct pollfd sandbox_porter_poll(const struct sandbox_porter *porter) {
        bool answers = porter->outgoing.length > 0 || porter->reading >= 0;

        return (struct pollfd){ .fd = porter->client.socket, .events = answers ? POLLOUT : POLLIN };
}

/* --- answers --- */

static void send_answer(struct sandbox_porter *porter, unsigned type, const void *payload, size_t length) {
        frame_append(&porter->outgoing, type, payload, length);
}

static void answer_failed(struct sandbox_porter *porter, const struct error *err) {
        send_answer(porter, MESSAGE_FAILED, err->message, strlen(err->message));
}

static void send_result(struct sandbox_porter *porter, int result, const struct error *err) {
        if (result < 0)
                answer_failed(porter, err);
        else
                send_answer(porter, MESSAGE_DONE, NULL, 0);
}

/* In pieces of whole words. */
static void send_list(struct sandbox_porter *porter, const char *path) {
        struct strbuf words STRBUF_CLEANUP = STRBUF_INIT;
        bool cut;

        if (sandbox_files_list(porter->folder, path, SANDBOX_LIST_MAX, &words, &cut) < 0) {
                send_answer(porter, MESSAGE_ABSENT, NULL, 0);
                return;
        }
        for (size_t at = 0, length; at < words.length; at += length) {
                length = sandbox_files_piece(&words, at);
                send_answer(porter, MESSAGE_ENTRIES, words.data + at, length);
        }
        send_answer(porter, MESSAGE_ENTRIES, NULL, 0);
}

/* As much of a file as it was when it was opened: one that grows meanwhile would never end. */
static void begin_reading(struct sandbox_porter *porter, const char *path) {
        struct stat status;

        porter->reading = sandbox_files_open(porter->folder, path);
        if (porter->reading >= 0 && fstat(porter->reading, &status) < 0)
                close_descriptor(&porter->reading);
        if (porter->reading < 0)
                send_answer(porter, MESSAGE_ABSENT, NULL, 0);
        else
                porter->left = (uint64_t)status.st_size;
}

static void answer_piece(struct sandbox_porter *porter) {
        char *piece TEXT_CLEANUP = malloc(PIECE);
        ssize_t count;

        if (!piece)
                abort();
        count = read(porter->reading, piece, porter->left < PIECE ? (size_t)porter->left : PIECE);
        if (count < 0 && errno == EINTR)
                return;
        send_answer(porter, MESSAGE_CONTENT, piece, count > 0 ? (size_t)count : 0);
        porter->left -= count > 0 ? (uint64_t)count : 0;
        /* Frames without bytes say the end, once. */
        if (count <= 0)
                close_descriptor(&porter->reading);
}

/* What the client takes at once; -1 where it is gone. */
static int send_some(struct sandbox_porter *porter) {
        ssize_t count;

        if (porter->outgoing_at == porter->outgoing.length) {
                strbuf_release(&porter->outgoing);
                porter->outgoing_at = 0;
                if (porter->reading >= 0)
                        answer_piece(porter);
        }
        if (porter->outgoing.length == 0)
                return 0;
        count = send(porter->client.socket, porter->outgoing.data + porter->outgoing_at,
                     porter->outgoing.length - porter->outgoing_at, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (count < 0)
                return errno == EINTR || errno == EAGAIN ? 0 : -1;
        porter->outgoing_at += (size_t)count;
        if (porter->outgoing_at == porter->outgoing.length) {
                strbuf_release(&porter->outgoing);
                porter->outgoing_at = 0;
        }
        return 0;
}

/* --- questions --- */

/*
 * An existing file is removed first. A failure is reported at the end: until then the client sends.
 */
static int begin_writing(struct sandbox_porter *porter, const struct frame *frame) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *const *words;
        struct error err = { 0 };
        size_t count;

        if (sandbox_words_read(frame->payload.data, frame->payload.length, arena, &words, &count, &err) < 0 ||
            count != 2 || (strcmp(words[0], "x") != 0 && strcmp(words[0], "-") != 0))
                return -1;
        porter->name = strdup(words[1]);
        if (!porter->name)
                abort();
        if (sandbox_files_remove(porter->folder, porter->name, &err) == 0)
                porter->writing = sandbox_files_create(porter->folder, porter->name, words[0][0] == 'x',
                                                       geteuid(), getegid(), &err);
        if (porter->writing < 0)
                porter->failed = err;
        return 0;
}

static void write_piece(struct sandbox_porter *porter, const struct frame *frame) {
        struct error err = { 0 };
        char *name;

        if (frame->payload.length == 0) {
                if (porter->writing < 0) {
                        answer_failed(porter, &porter->failed);
                } else {
                        send_answer(porter, MESSAGE_DONE, NULL, 0);
                        close_descriptor(&porter->writing);
                }
                forget_file(porter);
                return;
        }
        if (porter->writing < 0 ||
            descriptor_append(porter->writing, frame->payload.data, frame->payload.length) == 0)
                return;
        (void)!sandbox_files_explain(porter->name, &err);
        name = strdup(porter->name);
        if (!name)
                abort();
        forget_file(porter);
        porter->name = name;
        porter->failed = err;
}

/* One question, or one piece of a file; -1 if it is another message. */
static int serve_frame(struct sandbox_porter *porter, const struct frame *frame) {
        const char *path = strbuf_text(&frame->payload);
        struct error err = { 0 };

        if (frame->count > 0)
                return -1;
        if (porter->name) {
                if (frame->type != MESSAGE_CONTENT)
                        return -1;
                write_piece(porter, frame);
                return 0;
        }
        if (frame->type == MESSAGE_REPLACE)
                return begin_writing(porter, frame);
        if (memchr(path, '\0', frame->payload.length))
                return -1;
        switch (frame->type) {
        case MESSAGE_LIST:
                send_list(porter, path);
                return 0;
        case MESSAGE_READ:
                begin_reading(porter, path);
                return 0;
        case MESSAGE_FOLDER:
                send_result(porter,
                            sandbox_files_make_folder(porter->folder, path, geteuid(), getegid(), &err),
                            &err);
                return 0;
        case MESSAGE_REMOVE:
                send_result(porter, sandbox_files_remove(porter->folder, path, &err), &err);
                return 0;
        default:
                return -1;
        }
}

void sandbox_porter_move(struct sandbox_porter *porter, const struct pollfd *polled) {
        struct frame frame FRAME_CLEANUP = { 0 };
        struct error ignored;
        int result = 0, received;

        if (!polled->revents || porter->client.socket < 0 || polled->fd != porter->client.socket)
                return;
        if (polled->events & POLLOUT) {
                result = send_some(porter);
        } else {
                received = frame_receive(&porter->client, &frame, &ignored);
                if (received != FRAME_WAIT)
                        result = received == FRAME_WHOLE ? serve_frame(porter, &frame) : -1;
        }
        if (result < 0)
                sandbox_porter_end(porter);
}
