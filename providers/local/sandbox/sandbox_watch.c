/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop while a program runs: its output goes to the sinks as it comes, input goes in, the clock and the user's
 * interrupt are looked at. Memory is three buffers, whatever is printed; whoever reads slowly slows the program down, and
 * does not hold up the deadline.
 */
#include "base/clock.h"
#include "base/files.h"
#include "providers/local/sandbox/sandbox_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BUFFER_SIZE 65536
/* After the end, how long output that is on its way may take to a reader that takes it, and processes to vanish. */
#define DRAIN_MS 10000
/* How long processes that were killed may take before they are killed once more, by way of their cgroup. */
#define DYING_MS 100
#define STATUS_MAX 4096

/* One direction: bytes wait in `buffer` until the other side takes them. */
struct relay {
        int *from;               /* -1 when it has ended */
        int to;                  /* -1: nobody takes them */
        bool to_owned, by_pages; /* written in pieces that a pipe or terminal takes without blocking */
        struct output *output;
        char *buffer;
        size_t at, held;
        int error; /* errno of the write that failed, but for EPIPE */
};

struct loop {
        struct sandbox_watch *watch;
        struct relay input, output, errors;
        int input_source;
        char status[STATUS_MAX]; /* what bubblewrap told so far */
        size_t status_length;
        int first; /* pidfd of the sandbox's process 1, -1 until it is known: its end is that of all others */
        int64_t started_ms, until_ms;
        bool ended; /* bubblewrap has ended */
        struct sandbox_ending ending;
};

static int64_t now_ms(void) {
        return clock_system.monotonic_ms(&clock_system);
}

static bool takes_pages(int descriptor) {
        struct stat status;

        return descriptor >= 0 && fstat(descriptor, &status) == 0 && !S_ISREG(status.st_mode);
}

static struct relay relay_of(int *from, int to, struct output *output) {
        return (struct relay){ .from = from,
                               .to = to,
                               .output = output,
                               .by_pages = takes_pages(to),
                               .buffer = malloc(BUFFER_SIZE) };
}

static void relay_end(struct relay *relay) {
        close_descriptor(relay->from);
        if (relay->to_owned)
                close_descriptor(&relay->to);
}

/* Reads once. At the end of the input everything that is held must still be written. */
static void relay_read(struct relay *relay) {
        ssize_t count = read(*relay->from, relay->buffer, BUFFER_SIZE);

        if (count < 0 && (errno == EINTR || errno == EAGAIN))
                return;
        if (count <= 0) {
                relay_end(relay);
                return;
        }
        if (relay->output)
                output_add(relay->output, relay->buffer, (size_t)count);
        relay->at = 0;
        relay->held = relay->to >= 0 ? (size_t)count : 0;
}

/* Writes once. Where nobody reads any more, the writer is told as the system would: by a closed pipe. */
static void relay_write(struct relay *relay) {
        size_t piece = relay->by_pages && relay->held > PIPE_BUF ? PIPE_BUF : relay->held;
        ssize_t count = write(relay->to, relay->buffer + relay->at, piece);

        if (count < 0 && (errno == EINTR || errno == EAGAIN))
                return;
        if (count < 0) {
                relay->error = errno == EPIPE ? 0 : errno;
                relay->held = 0;
                relay_end(relay);
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
                return (struct pollfd){ .fd = relay->to, .events = POLLOUT };
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

/* --- bubblewrap's status: one JSON object a line, as {"child-pid": 7, ...} and {"exit-code": 0} --- */

static bool status_number(const struct loop *loop, const char *key, long *ret) {
        const char *at = strstr(loop->status, key);

        return at && (at = strchr(at, ':')) && sscanf(at + 1, "%ld", ret) == 1;
}

static void read_status(struct loop *loop) {
        ssize_t count = read(loop->watch->status, loop->status + loop->status_length,
                             STATUS_MAX - 1 - loop->status_length);
        long number;

        if (count < 0 && errno == EINTR)
                return;
        if (count <= 0) {
                close_descriptor(&loop->watch->status);
                return;
        }
        loop->status_length += (size_t)count;
        loop->status[loop->status_length] = '\0';
        if (loop->first < 0 && status_number(loop, "\"child-pid\"", &number))
                loop->first = pidfd_open((pid_t)number, 0);
        if (status_number(loop, "\"exit-code\"", &number)) {
                loop->ending.started = true;
                loop->ending.exit_code = (int)number;
        }
}

/* --- the end --- */

/* Bubblewrap's own end takes its namespace with it, and with that every process inside. */
static void kill_all(struct loop *loop) {
        if (!loop->ended)
                kill(loop->watch->pid, SIGKILL);
        cgroup_kill(loop->watch->group);
}

/* Bubblewrap is dead and the kernel kills the rest of its namespace: most often there is nothing left to kill. */
static void kill_rest(struct loop *loop) {
        struct pollfd polled = { .fd = loop->first, .events = POLLIN };

        if (loop->first < 0 || poll(&polled, 1, DYING_MS) != 1)
                cgroup_kill(loop->watch->group);
}

static void note_end(struct loop *loop) {
        struct rusage usage;
        int status;

        if (wait4(loop->watch->pid, &status, 0, &usage) < 0)
                return;
        loop->ended = true;
        loop->ending.wall_ms = now_ms() - loop->started_ms;
        loop->ending.cpu_ms = (int64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
                              (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
        loop->ending.peak_memory_bytes = (uint64_t)usage.ru_maxrss * 1024;
        loop->until_ms = now_ms() + DRAIN_MS;
}

static void check_time(struct loop *loop) {
        if (!loop->ended && !loop->ending.interrupted && interrupt_count() > 0) {
                loop->ending.interrupted = !loop->ending.deadline;
                kill_all(loop);
        } else if (!loop->ended && !loop->ending.deadline && now_ms() >= loop->until_ms) {
                loop->ending.deadline = !loop->ending.interrupted;
                kill_all(loop);
        } else if (loop->ended && now_ms() >= loop->until_ms) {
                /* Whoever should read our output does not: it is lost, and counted. */
                loop->output.held = loop->errors.held = 0;
                relay_end(&loop->output);
                relay_end(&loop->errors);
        }
}

static bool is_over(struct loop *loop) {
        return loop->ended && relay_idle(&loop->output) && relay_idle(&loop->errors);
}

static int one_turn(struct loop *loop, struct error *err) {
        struct sandbox_watch *watch = loop->watch;
        struct pollfd polled[] = {
                relay_poll(&loop->output),
                relay_poll(&loop->errors),
                { .fd = watch->status, .events = POLLIN },
                { .fd = loop->ended ? -1 : watch->process, .events = POLLIN },
                relay_poll(&loop->input),
        };
        int64_t left = loop->until_ms - now_ms();
        struct timespec wait = { left > 0 ? left / 1000 : 0, left > 0 ? left % 1000 * 1000000 : 0 };

        /* Once it has ended, an interrupt stops the waiting for a reader as well. */
        if (loop->ended && interrupt_count() > 0)
                loop->until_ms = 0;
        if (ppoll(polled, 5, &wait, watch->unmasked) < 0 && errno != EINTR)
                return error_set(err, "cannot wait for the sandbox: %s", strerror(errno));
        relay_move(&loop->output, &polled[0]);
        relay_move(&loop->errors, &polled[1]);
        if (polled[2].revents)
                read_status(loop);
        if (polled[3].revents) {
                while (watch->status >= 0)
                        read_status(loop);
                cgroup_measure(watch->group, watch->pid, &loop->ending.usage);
                note_end(loop);
                relay_end(&loop->input);
                kill_rest(loop);
        }
        if (!loop->ended)
                relay_move(&loop->input, &polled[4]);
        check_time(loop);
        return 0;
}

/*
 * Bubblewrap ends before process 1 does, which is then a child of ours (sandbox.c asks for that). Whoever is process 1 of
 * the machine, or of the container that Berth runs in, may not look after orphans.
 */
static void reap_first(struct loop *loop) {
        siginfo_t ignored;

        if (loop->first >= 0)
                waitid(P_PIDFD, (id_t)loop->first, &ignored, WEXITED | WNOHANG);
}

/* Process 1 of a namespace ends after all others of it: nobody can change the workspace any more. */
static int wait_for_all(struct loop *loop, struct error *err) {
        struct pollfd polled = { .fd = loop->first, .events = POLLIN };

        if (loop->first >= 0 && poll(&polled, 1, DRAIN_MS) == 0)
                return error_set(err, "processes of the sandbox did not die within %d s", DRAIN_MS / 1000);
        reap_first(loop);
        return 0;
}

static void release_loop(struct loop *loop) {
        relay_end(&loop->input);
        relay_end(&loop->output);
        relay_end(&loop->errors);
        close_descriptor(&loop->watch->status);
        close_descriptor(&loop->watch->process);
        if (!loop->ended) {
                kill_all(loop);
                waitpid(loop->watch->pid, NULL, 0);
                kill_rest(loop);
                reap_first(loop);
        }
        close_descriptor(&loop->first);
        free(loop->input.buffer);
        free(loop->output.buffer);
        free(loop->errors.buffer);
}

int sandbox_watch_run(struct sandbox_watch *watch, struct sandbox_ending *ret, struct error *err) {
        struct loop loop __attribute__((cleanup(release_loop))) = {
                .watch = watch,
                .first = -1,
                .input_source = watch->spec->input,
                .started_ms = now_ms(),
        };

        loop.input = relay_of(&loop.input_source, watch->input, NULL);
        loop.input.to_owned = true;
        watch->input = -1;
        loop.output = relay_of(&watch->output, watch->sinks->output.descriptor, watch->sinks->output.output);
        loop.errors = relay_of(&watch->errors, watch->sinks->errors.descriptor, watch->sinks->errors.output);
        if (!loop.input.buffer || !loop.output.buffer || !loop.errors.buffer)
                abort();
        if (loop.input_source < 0)
                close_descriptor(&loop.input.to);
        loop.until_ms = loop.started_ms + watch->spec->limits.deadline_ms;
        while (!is_over(&loop)) {
                if (one_turn(&loop, err) < 0)
                        return -1;
        }
        if (wait_for_all(&loop, err) < 0)
                return -1;
        loop.ending.output_error = loop.output.error ? loop.output.error : loop.errors.error;
        *ret = loop.ending;
        return 0;
}
