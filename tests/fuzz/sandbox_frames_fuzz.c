/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes from the other side of a sandbox's sockets: the bytes are a peer's, as they are, to a reader of frames. Whatever
 * is a frame is read as each message that it could be: of a worker's client and keeper, of a worker, of a launcher's client.
 */
#include "parts.h"
#include "process/frame.h"
#include "process/identity.h"
#include "providers/local/sandbox/sandbox_messages.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* What was read is written and read again, and must be as it was. */
static void again(const struct strbuf *first, const struct strbuf *second) {
        if (first->length != second->length || memcmp(first->data, second->data, first->length) != 0)
                abort();
}

static void read_all(const struct frame *frame, struct arena *arena) {
        struct strbuf first STRBUF_CLEANUP = STRBUF_INIT, second STRBUF_CLEANUP = STRBUF_INIT;
        const char *bytes = frame->payload.data, *end;
        size_t length = frame->payload.length, count;
        struct sandbox_placing placing;
        struct sandbox_starting starting;
        struct sandbox_running running;
        struct sandbox_ending ending;
        struct process_identity identity;
        const char *const *words;
        struct error err;

        if (sandbox_placing_read(bytes, length, &placing, &err) == 0) {
                sandbox_placing_write(&placing, &first);
                if (sandbox_placing_read(first.data, first.length, &placing, &err) < 0)
                        abort();
                sandbox_placing_write(&placing, &second);
                again(&first, &second);
        }
        strbuf_clear(&first);
        strbuf_clear(&second);
        if (sandbox_starting_read(bytes, length, arena, &starting, &err) == 0) {
                if (starting.image && strpbrk(starting.image, "./"))
                        abort();
                sandbox_starting_write(&starting, &first);
                if (sandbox_starting_read(first.data, first.length, arena, &starting, &err) < 0)
                        abort();
                sandbox_starting_write(&starting, &second);
                again(&first, &second);
        }
        strbuf_clear(&first);
        if (sandbox_running_read(bytes, length, arena, &running, &err) == 0) {
                for (size_t i = 0; i < running.file_count; i++) {
                        if (strchr(running.files[i], '/'))
                                abort();
                }
                sandbox_running_write(&running, &first);
                if (sandbox_running_read(first.data, first.length, arena, &running, &err) < 0)
                        abort();
        }
        strbuf_clear(&first);
        if (sandbox_ending_read(bytes, length, &ending, &err) == 0) {
                sandbox_ending_write(&ending, &first);
                if (sandbox_ending_read(first.data, first.length, &ending, &err) < 0)
                        abort();
        }
        if (sandbox_words_read(bytes, length, arena, &words, &count, &err) == 0 && words[count])
                abort();
        (void)identity_read(strbuf_text(&frame->payload), &identity, &end);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct arena *arena = arena_new();
        struct error err = { 0 };
        struct frame frame;
        struct frame_reader reader = FRAME_READER(-1);
        int pair[2], answer;

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
                abort();
        reader.socket = pair[1];
        if (size > 0 && write(pair[0], data, size) < 0 && size < 100000)
                abort();
        close(pair[0]);
        while ((answer = frame_receive(&reader, &frame, &err)) == FRAME_WHOLE) {
                read_all(&frame, arena);
                frame_release(&frame);
        }
        /* A peer that has closed is seen to have, and one that spoke badly is told apart. */
        if (answer == FRAME_WAIT || (answer < 0 && !err.message[0]))
                abort();
        frame_reader_release(&reader);
        close(pair[1]);
        arena_free(arena);
        return 0;
}
