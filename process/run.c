/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One loop, one poll() a turn, over all that can happen: bytes from the child, room for its input,
 * its end, a level of the interrupt, the time. The child's end is waited for, not the end of its
 * output: a grandchild may hold the pipe open forever.
 */
#include "process/run.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/text_utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define CHUNK ((size_t)65536)
#define SAID_MAX ((size_t)400)
#define LINGER_MS 30000
#define LONGEST_POLL_MS 3600000

struct run {
        const struct run_args *args;
        struct run_result *result;
        struct process process;
        int input, output, errors; /* our ends of its pipes; -1 once closed */
        size_t given;
        struct strbuf tail; /* of its standard error, as it came */
        bool killed, ended;
        bool asked;         /* INTERRUPT_FINISH was seen */
        int64_t give_up_ms; /* when it is killed next; once it is, when the wait for it ends */
};

static void kill_run(struct run *run, enum run_end end) {
        if (run->killed)
                return;
        run->killed = true;
        run->result->end = end;
        run->give_up_ms = clock_now_ms() + LINGER_MS;
        process_kill(&run->process);
}

/* Cuts only when twice the room is used, so that each byte is moved a few times at most. */
static void append_end(struct strbuf *text, size_t max, const char *bytes, size_t length) {
        strbuf_append_bytes(text, bytes, length);
        if (text->length > 2 * max) {
                memmove(text->data, text->data + text->length - max, max + 1);
                text->length = max;
        }
}

static void cut_to_end(struct strbuf *text, size_t max) {
        if (text->length <= max)
                return;
        memmove(text->data, text->data + text->length - max, max + 1);
        text->length = max;
}

static void take_output(struct run *run, const char *bytes, size_t length) {
        const struct run_args *args = run->args;
        struct strbuf *output = &run->result->output;

        if (args->take)
                args->take(args->opaque, bytes, length);
        else if (args->keep_end)
                append_end(output, args->output_max, bytes, length);
        else if (length > args->output_max - output->length)
                kill_run(run, RUN_TALKATIVE);
        else
                strbuf_append_bytes(output, bytes, length);
}

/* One read of at most `most` bytes: how many came. Closes the descriptor at its end. */
static size_t read_from(struct run *run, int *descriptor, size_t most) {
        char chunk[CHUNK];
        ssize_t got = read(*descriptor, chunk, most < sizeof(chunk) ? most : sizeof(chunk));

        if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN))
                close_descriptor(descriptor);
        if (got <= 0)
                return 0;
        if (descriptor == &run->output)
                take_output(run, chunk, (size_t)got);
        else
                append_end(&run->tail, SAID_MAX, chunk, (size_t)got);
        explicit_bzero(chunk, (size_t)got);
        return (size_t)got;
}

/* Takes the pipe's content now, and no more: a process that it left behind may go on forever. */
static void take_what_is_left(struct run *run, int *descriptor) {
        int there = 0;

        if (*descriptor < 0 || ioctl(*descriptor, FIONREAD, &there) < 0)
                return;
        while (there > 0 && *descriptor >= 0 && !run->killed) {
                size_t got = read_from(run, descriptor, (size_t)there);

                if (got == 0)
                        break;
                there -= (int)got;
        }
}

/* A child may not read its input. SIGPIPE would then end our whole process, so it is blocked and taken back here. */
static void give_input(struct run *run) {
        const char *from = (const char *)run->args->input + run->given;
        const struct timespec none = { 0 };
        sigset_t pipe_signal, before, pending;
        ssize_t put;
        int reason;

        sigemptyset(&pipe_signal);
        sigaddset(&pipe_signal, SIGPIPE);
        sigpending(&pending);
        pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
        put = write(run->input, from, run->args->input_length - run->given);
        reason = errno;
        if (put < 0 && reason == EPIPE && !sigismember(&pending, SIGPIPE))
                sigtimedwait(&pipe_signal, NULL, &none);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (put > 0)
                run->given += (size_t)put;
        if ((put < 0 && reason != EAGAIN && reason != EINTR) || run->given == run->args->input_length)
                close_descriptor(&run->input);
}

/* The level that is waited for next; 0 where none would change anything. */
static int next_level(const struct run *run) {
        if (run->killed || !run->args->interrupt)
                return INTERRUPT_NONE;
        return run->args->grace_ms >= 0 && !run->asked ? INTERRUPT_FINISH : INTERRUPT_NOW;
}

/* Looks at the interrupt and at the time. Each of them may end the run. */
static void check_stop(struct run *run) {
        const struct run_args *args = run->args;
        int level = interrupt_level(args->interrupt);
        int64_t now = clock_now_ms();

        if (run->killed)
                return;
        if (level >= INTERRUPT_FINISH && !run->asked && args->grace_ms >= 0) {
                run->asked = true;
                if (args->grace_ms < run->give_up_ms - now)
                        run->give_up_ms = now + args->grace_ms;
                if (args->ask && args->grace_ms > 0)
                        process_signal(&run->process, args->ask);
        }
        if (level >= INTERRUPT_NOW)
                kill_run(run, RUN_INTERRUPTED);
        else if (now >= run->give_up_ms)
                kill_run(run, run->asked && now < args->deadline_ms ? RUN_INTERRUPTED : RUN_LATE);
}

static bool has_finished(const struct run *run) {
        if (!run->ended)
                return false;
        if (!run->args->wait_for_all || (run->output < 0 && run->errors < 0))
                return true;
        return run->killed && clock_now_ms() >= run->give_up_ms;
}

/*
 * One turn waits for the next thing that happens to it: bytes, room, its end, a level of the interrupt, or the time. Nothing is
 * looked at again and again.
 */
static void wait_for_next_event(struct run *run) {
        int level = next_level(run);
        struct pollfd polled[] = {
                { .fd = run->output, .events = POLLIN },
                { .fd = run->errors, .events = POLLIN },
                { .fd = run->input, .events = POLLOUT },
                { .fd = run->ended ? -1 : run->process.pidfd, .events = POLLIN },
                { .fd = level ? interrupt_descriptor(run->args->interrupt, level) : -1, .events = POLLIN },
        };
        int64_t left = run->give_up_ms - clock_now_ms();
        int timeout = left > LONGEST_POLL_MS ? LONGEST_POLL_MS : left > 0 ? (int)left : 0;

        if (run->killed && !run->ended)
                timeout = -1; /* the kernel ends it, which may take its time */
        if (poll(polled, sizeof(polled) / sizeof(polled[0]), timeout) < 0) {
                if (errno != EINTR)
                        abort();
                return;
        }
        if (polled[0].revents)
                read_from(run, &run->output, CHUNK);
        if (polled[1].revents)
                read_from(run, &run->errors, CHUNK);
        if (polled[2].revents)
                give_input(run);
        if (polled[3].revents)
                run->ended = true;
        if (!run->ended || run->args->wait_for_all)
                check_stop(run);
}

/* The end of standard error as one line that is safe on a terminal: controls become spaces, the rest is escaped. */
static void keep_said(struct run *run) {
        struct strbuf *tail = &run->tail;

        cut_to_end(tail, SAID_MAX);
        for (size_t i = 0; i < tail->length; i++) {
                if ((unsigned char)tail->data[i] < ' ' || tail->data[i] == '\x7f')
                        tail->data[i] = ' ';
        }
        while (tail->length > 0 && tail->data[tail->length - 1] == ' ')
                tail->data[--tail->length] = '\0';
        if (tail->length > 0) {
                const char *text = tail->data + strspn(tail->data, " ");

                /* The cut may have gone through a character. */
                while (((unsigned char)*text & 0xC0U) == 0x80U)
                        text++;
                text_append_safe(&run->result->said, text);
        }
}

/*
 * Pipes for the child's input and output: the child's ends are in args->descriptors, and released
 * by the process that started it.
 */
struct pipes {
        int input[2], output[2], errors[2];
};

static void release_pipes(struct pipes *pipes) {
        for (int i = 0; i < 2; i++) {
                close_descriptor(&pipes->input[i]);
                close_descriptor(&pipes->output[i]);
                close_descriptor(&pipes->errors[i]);
        }
}

static void give_descriptor(struct process_args *process, int ours, int as) {
        if (process->descriptor_count > PROCESS_NUMBER_MAX)
                abort();
        process->descriptors[process->descriptor_count++] = (struct process_descriptor){ ours, as };
}

static int start_child(struct run *run, struct error *err) {
        struct pipes pipes __attribute__((cleanup(release_pipes))) = { { -1, -1 }, { -1, -1 }, { -1, -1 } };
        const struct run_args *args = run->args;
        struct process_args process = args->process;

        if ((args->input_length > 0 && pipe2(pipes.input, O_CLOEXEC) < 0) ||
            pipe2(pipes.output, O_CLOEXEC) < 0 ||
            (args->errors == RUN_ERRORS_KEPT && pipe2(pipes.errors, O_CLOEXEC) < 0))
                return error_set(err, "cannot make a pipe: %s", strerror(errno));
        if (args->input_length > 0)
                give_descriptor(&process, pipes.input[0], STDIN_FILENO);
        give_descriptor(&process, pipes.output[1], STDOUT_FILENO);
        if (args->errors == RUN_ERRORS_KEPT)
                give_descriptor(&process, pipes.errors[1], STDERR_FILENO);
        else if (args->errors == RUN_ERRORS_INHERITED)
                give_descriptor(&process, STDERR_FILENO, STDERR_FILENO);
        else if (args->errors == RUN_ERRORS_AS_OUTPUT)
                give_descriptor(&process, pipes.output[1], STDERR_FILENO);
        if (process_start(&process, &run->process, err) < 0)
                return -1;
        run->input = pipes.input[1];
        run->output = pipes.output[0];
        run->errors = pipes.errors[0];
        pipes.input[1] = pipes.output[0] = pipes.errors[0] = -1;
        /* Its own ends still block, as every program expects of them. */
        for (int *end = (int[]){ run->input, run->output, run->errors, -2 }; *end != -2; end++) {
                if (*end >= 0)
                        fcntl(*end, F_SETFL, O_NONBLOCK);
        }
        return 0;
}

static void release_run(struct run *run) {
        process_end(&run->process);
        close_descriptor(&run->input);
        close_descriptor(&run->output);
        close_descriptor(&run->errors);
        strbuf_release(&run->tail);
}

int run_to_end(const struct run_args *args, struct run_result *ret, struct error *err) {
        struct run run __attribute__((cleanup(release_run))) = { .args = args,
                                                                 .result = ret,
                                                                 .tail = STRBUF_SECRET,
                                                                 .process = PROCESS_NONE,
                                                                 .input = -1,
                                                                 .output = -1,
                                                                 .errors = -1,
                                                                 .give_up_ms = args->deadline_ms };
        struct process_status status;

        *ret = (struct run_result){ .output = STRBUF_SECRET,
                                    .said = STRBUF_SECRET,
                                    .allowed_ms = args->deadline_ms - clock_now_ms(),
                                    .output_max = args->output_max };
        if (start_child(&run, err) < 0)
                return -1;
        while (!has_finished(&run))
                wait_for_next_event(&run);
        take_what_is_left(&run, &run.output);
        take_what_is_left(&run, &run.errors);
        status = process_reap(&run.process);
        if (args->keep_end)
                cut_to_end(&ret->output, args->output_max);
        keep_said(&run);
        if (!run.killed) {
                ret->end = status.signalled ? RUN_SIGNALLED : RUN_EXITED;
                ret->code = status.code;
        }
        return 0;
}

int run_check(const struct run_result *result, const char *name, struct error *err) {
        const char *said = strbuf_text(&result->said), *colon = *said ? ": " : "";

        switch (result->end) {
        case RUN_EXITED:
                return result->code == 0
                               ? 0
                               : error_set(err, "%s ended with %d%s%s", name, result->code, colon, said);
        case RUN_LATE:
                return error_set(err, "%s does not end within %lld s", name,
                                 (long long)(result->allowed_ms / 1000));
        case RUN_TALKATIVE:
                return error_set(err, "%s writes more than %zu bytes", name, result->output_max);
        case RUN_INTERRUPTED:
                return error_set_kind(err, ERROR_INTERRUPTED, "interrupted while waiting for %s", name);
        case RUN_SIGNALLED:
        default:
                return error_set(err, "%s was ended by signal %d%s%s", name, result->code, colon, said);
        }
}

void run_result_release(struct run_result *result) {
        strbuf_release(&result->output);
        strbuf_release(&result->said);
}
