/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run from its start to its end, for a caller that waits: the program's output goes to the sinks
 * as it comes, input goes in, the interrupt is waited for. Memory is three buffers, whatever is
 * printed; a slow reader slows the program down. A sink that takes nothing, and even one that stops
 * this process, does not hold up the deadline: the worker has it.
 */
#include "base/clock.h"
#include "base/files.h"
#include "base/interrupt.h"
#include "providers/local/sandbox/sandbox_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUFFER_SIZE 65536
/* After the end, how long output that is on its way may take to a reader that takes it. */
#define DRAIN_MS 10000
#define CANCELLED_MS 1000 /* the same after an interrupt */

/* One direction: bytes wait in `buffer` until the other side takes them. */
struct relay {
        int *from;     /* -1 when it has ended */
        bool borrowed; /* *from is the caller's */
        int *to;       /* -1: no reader */
        bool by_pages; /* written in pieces that a pipe or terminal takes without blocking */
        struct output *output;
        char *buffer;
        size_t at, held;
        int error; /* errno of the write that failed, but for EPIPE */
};

struct loop {
        struct sandbox *sandbox;
        const struct interrupt *interrupt;
        struct relay input, output, errors;
        int source; /* borrowed: what the program reads */
        /* where output and errors go: borrowed, or opened again so that they do not block */
        int sinks[2];
        bool sink_owned[2];
        int64_t until_ms; /* after the end: how long a reader is waited for */
        bool ended, cancelled;
};

static bool takes_pages(int descriptor) {
        struct stat status;

        return descriptor >= 0 && fstat(descriptor, &status) == 0 && !S_ISREG(status.st_mode);
}

static struct relay relay_of(int *from, int *to, struct output *output) {
        struct relay relay = { .from = from,
                               .to = to,
                               .output = output,
                               .by_pages = takes_pages(*to),
                               .buffer = malloc(BUFFER_SIZE) };

        if (!relay.buffer)
                abort();
        return relay;
}

static void relay_stop(struct relay *relay) {
        if (relay->borrowed)
                *relay->from = -1;
        close_descriptor(relay->from);
}

/* Reads once. At the end of the input everything that is held must still be written. */
static void relay_read(struct relay *relay) {
        ssize_t count = read(*relay->from, relay->buffer, BUFFER_SIZE);

        if (count < 0 && (errno == EINTR || errno == EAGAIN))
                return;
        if (count <= 0) {
                relay_stop(relay);
                return;
        }
        if (relay->output)
                output_add(relay->output, relay->buffer, (size_t)count);
        relay->at = 0;
        relay->held = *relay->to >= 0 ? (size_t)count : 0;
}

/*
 * Writes once. If no reader is left, the writer learns it as the system would tell it: by a closed
 * pipe. Two streams may go into one pipe, and the first may just have filled it: whether there is
 * room is asked again.
 */
static void relay_write(struct relay *relay) {
        struct pollfd room = { .fd = *relay->to, .events = POLLOUT };
        size_t piece = relay->by_pages && relay->held > PIPE_BUF ? PIPE_BUF : relay->held;
        ssize_t count;

        if (poll(&room, 1, 0) != 1)
                return;
        count = write(*relay->to, relay->buffer + relay->at, piece);
        if (count < 0 && (errno == EINTR || errno == EAGAIN))
                return;
        if (count < 0) {
                relay->error = errno == EPIPE ? 0 : errno;
                relay->held = 0;
                relay_stop(relay);
                return;
        }
        relay->at += (size_t)count;
        relay->held -= (size_t)count;
}

static bool relay_idle(const struct relay *relay) {
        return *relay->from < 0 && relay->held == 0;
}

/* What to wait for: room on the other side while bytes are held, bytes otherwise. */
static struct pollfd relay_poll(const struct relay *relay) {
        if (relay->held > 0)
                return (struct pollfd){ .fd = *relay->to, .events = POLLOUT };
        return (struct pollfd){ .fd = *relay->from, .events = POLLIN };
}

static void relay_move(struct relay *relay, const struct pollfd *polled) {
        if (!polled->revents)
                return;
        if (relay->held > 0)
                relay_write(relay);
        else
                relay_read(relay);
}

/* --- the loop --- */

/*
 * A descriptor of our own for a pipe or terminal, so that writing never blocks, whatever others do with theirs. Where it
 * cannot be had (a pipe of another user's, a socket) the shared one is written to, after a look whether there is room.
 */
static int open_sink(int sink, bool *ret_owned) {
        struct stat status;
        char path[64];
        int own = -1;

        if (sink >= 0 && fstat(sink, &status) == 0 && (S_ISFIFO(status.st_mode) || isatty(sink))) {
                snprintf(path, sizeof(path), "/proc/self/fd/%d", sink);
                own = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        }
        *ret_owned = own >= 0;
        return own >= 0 ? own : sink;
}

static void begin_relays(struct loop *loop, const struct sandbox_spec *spec,
                         const struct sandbox_sinks *sinks) {
        struct sandbox_pipes *pipes = sandbox_pipes(loop->sandbox);

        loop->source = spec->input;
        if (spec->input < 0)
                close_descriptor(&pipes->input);
        loop->sinks[0] = open_sink(sinks->output.descriptor, &loop->sink_owned[0]);
        loop->sinks[1] = open_sink(sinks->errors.descriptor, &loop->sink_owned[1]);
        loop->input = relay_of(&loop->source, &pipes->input, NULL);
        loop->input.borrowed = true;
        loop->output = relay_of(&pipes->output, &loop->sinks[0], sinks->output.output);
        loop->errors = relay_of(&pipes->errors, &loop->sinks[1], sinks->errors.output);
}

static void move_input(struct loop *loop, const struct pollfd *polled) {
        struct sandbox_pipes *pipes = sandbox_pipes(loop->sandbox);

        if (pipes->input < 0)
                return;
        relay_move(&loop->input, polled);
        /* At its end, and all of it written, the program's input ends; where the program reads no more, ours does. */
        if (loop->source < 0 && loop->input.held == 0)
                close_descriptor(&pipes->input);
}

static void look_at_time(struct loop *loop) {
        if (interrupt_level(loop->interrupt) > INTERRUPT_NONE && !loop->cancelled) {
                loop->cancelled = true;
                sandbox_cancel(loop->sandbox);
                /* Once it has ended, an interrupt stops the waiting for a reader as well. */
                loop->until_ms = clock_now_ms();
        }
        if (loop->ended && clock_now_ms() >= loop->until_ms) {
                struct sandbox_pipes *pipes = sandbox_pipes(loop->sandbox);

                /* The reader of our output does not read: the rest is lost, and counted. */
                loop->output.held = loop->errors.held = 0;
                close_descriptor(&pipes->output);
                close_descriptor(&pipes->errors);
        }
}

static bool is_done(const struct loop *loop) {
        return loop->ended && relay_idle(&loop->output) && relay_idle(&loop->errors);
}

static int one_turn(struct loop *loop, const struct sandbox_spec *spec, const struct sandbox_sinks *sinks,
                    struct error *err) {
        bool runs = loop->output.buffer != NULL;
        int asked = loop->cancelled ? -1 : interrupt_descriptor(loop->interrupt, INTERRUPT_FINISH);
        struct pollfd polled[] = {
                { .fd = loop->ended ? -1 : sandbox_descriptor(loop->sandbox), .events = POLLIN },
                { .fd = asked, .events = POLLIN },
                { .fd = -1 },
                { .fd = -1 },
                { .fd = -1 },
        };
        int64_t until_ms = loop->until_ms - clock_now_ms(), left;
        enum sandbox_event event;

        left = !loop->ended ? sandbox_patience_ms(loop->sandbox) : until_ms > 0 ? until_ms : 0;
        if (runs) {
                polled[2] = relay_poll(&loop->output);
                polled[3] = relay_poll(&loop->errors);
                if (!loop->ended && sandbox_pipes(loop->sandbox)->input >= 0)
                        polled[4] = relay_poll(&loop->input);
        }
        if (poll(polled, 5, left < INT_MAX ? (int)left : INT_MAX) < 0 && errno != EINTR)
                return error_set(err, "cannot wait for the sandbox: %s", strerror(errno));
        if (runs) {
                relay_move(&loop->output, &polled[2]);
                relay_move(&loop->errors, &polled[3]);
                move_input(loop, &polled[4]);
        }
        if (sandbox_next(loop->sandbox, &event, err) < 0)
                return -1;
        if (event == SANDBOX_STARTED)
                begin_relays(loop, spec, sinks);
        if (event == SANDBOX_ENDED) {
                loop->ended = true;
                loop->until_ms = clock_now_ms() + (loop->cancelled ? CANCELLED_MS : DRAIN_MS);
                close_descriptor(&sandbox_pipes(loop->sandbox)->input);
        }
        look_at_time(loop);
        return 0;
}

static void release_loop(struct loop *loop) {
        sandbox_end(loop->sandbox);
        for (size_t i = 0; i < 2; i++) {
                if (loop->sink_owned[i])
                        close_descriptor(&loop->sinks[i]);
        }
        free(loop->input.buffer);
        free(loop->output.buffer);
        free(loop->errors.buffer);
}

int sandbox_run(const struct sandbox_spec *spec, const struct sandbox_sinks *sinks, struct arena *arena,
                struct sandbox_result *ret, struct error *err) {
        struct output said OUTPUT_CLEANUP = {
                0
        }; /* what bubblewrap says where the caller does not keep it */
        struct sandbox_sinks kept = *sinks;
        struct loop loop __attribute__((
                cleanup(release_loop))) = { .interrupt = spec->interrupt, .source = -1, .sinks = { -1, -1 } };
        struct sandbox_result result;
        int error;

        output_init(&said, false);
        if (!kept.errors.output)
                kept.errors.output = &said;
        if (sandbox_start(spec, arena, &loop.sandbox, err) < 0)
                return -1;
        while (!is_done(&loop)) {
                if (one_turn(&loop, spec, &kept, err) < 0)
                        return -1;
        }
        if (sandbox_judge(loop.sandbox, kept.errors.output, interrupt_signal() ? interrupt_signal() : SIGINT,
                          &result, err) < 0)
                return -1;
        error = loop.output.error ? loop.output.error : loop.errors.error;
        /* A terminal that went away takes its output with it, and says so by a hang-up. */
        if (error && result.reason != EXEC_INTERRUPTED)
                return error_set(err, "what the program printed cannot be written: %s", strerror(error));
        *ret = result;
        return 0;
}
