/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One loop and one thread: whatever happens is an event of poll(2), and nothing waits for anything else. What the caller does not
 * take is kept up to a bound; beyond it output is not read, so that
 * who prints waits, and deadlines go on.
 *
 * User code has our user and could send us signals: all that can be ignored are. It cannot look into us (not dumpable: /proc/PID
 * is root's), nor reach the caller, whose descriptors are closed in every child.
 */
#include "runtime/serve/runtime_parts.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/json.h"
#include "runtime/serve/mapped.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAPPED_LOOK_MS 1000
/*
 * The pause behind a look is MAPPED_PAUSES times as long as the look, which many processes with
 * many mappings make long.
 */
#define MAPPED_PAUSES 20

void runtime_report(struct runtime *runtime, const struct report *report) {
        report_write(report, &runtime->unsent);
        runtime->hold_until_ms = report->type == REPORT_STARTED ? clock_now_ms() + RUNTIME_HOLD_MS : 0;
}

void runtime_refuse(struct runtime *runtime, int64_t n, const char *reason) {
        const struct report report = { .type = REPORT_REFUSED, .n = n, .reason = reason };

        runtime_report(runtime, &report);
}

static struct context *context_of(struct runtime *runtime, pid_t pid) {
        for (size_t i = 0; i < runtime->context_count; i++) {
                if (runtime->contexts[i].kernel.process.pid == pid)
                        return &runtime->contexts[i];
        }
        return NULL;
}

static bool is_kernel(void *runtime, pid_t pid) {
        return context_of(runtime, pid) != NULL;
}

/*
 * The number first: who begins while the others are looked for changes it. They are looked for twice before that is believed: one whose
 * parent dies just then may not be found to be ours.
 */
void runtime_look_around(struct runtime *runtime) {
        pid_t newest = descendants_newest(runtime->loadavg);
        bool same = newest > 0 && newest == runtime->newest;

        if (same && runtime->settled) {
                descendants_forget_dead(&runtime->known, is_kernel, runtime);
                return;
        }
        runtime->newest = newest;
        runtime->settled = same;
        descendants_release(&runtime->known);
        descendants_find(&runtime->known);
}

int64_t runtime_left(const struct runtime *runtime) {
        int64_t left = (int64_t)runtime->known.count;

        for (size_t i = 0; i < runtime->known.count; i++) {
                for (size_t k = 0; k < runtime->context_count; k++)
                        left -= runtime->known.items[i].pid == runtime->contexts[k].kernel.process.pid;
        }
        return left;
}

/* Once all that lives is known. A kernel that has mapped no file may have a thread that does, but is not worth a look each second. */
void runtime_look_at_mapped(struct runtime *runtime) {
        int64_t began_ms = clock_now_ms();
        bool any = mapped_touch(&runtime->known, runtime->folder);
        int64_t now_ms = clock_now_ms(), pause_ms = (now_ms - began_ms) * MAPPED_PAUSES;

        pause_ms = pause_ms > MAPPED_LOOK_MS ? pause_ms : MAPPED_LOOK_MS;
        runtime->mapped_ms = any || runtime_left(runtime) > 0 ? now_ms + pause_ms : INT64_MAX;
}

/* Between executions what was left behind writes on. While one runs its end is early enough. */
static void look_at_mapped_again(struct runtime *runtime) {
        if (clock_now_ms() < runtime->mapped_ms)
                return;
        runtime->mapped_ms = INT64_MAX;
        if (runtime->execution.n > 0)
                return;
        runtime_look_around(runtime);
        runtime_look_at_mapped(runtime);
}

/* --- children --- */

/* Each that is dead: a kernel, the shell, or one that lost its parent and came to us. */
static void reap_children(struct runtime *runtime) {
        struct signalfd_siginfo ignored;

        while (read(runtime->signals, &ignored, sizeof(ignored)) > 0)
                ;
        for (;;) {
                siginfo_t info = { 0 };
                struct context *context;

                if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0)
                        return;
                context = context_of(runtime, info.si_pid);
                if (context)
                        context_end(runtime, context);
                else if (runtime->execution.n > 0 && runtime->execution.shell.pid == info.si_pid)
                        execution_shell_ended(runtime, process_reap(&runtime->execution.shell));
                else if (runtime->command.n > 0 && runtime->command.process.pid == info.si_pid)
                        command_ended(runtime, process_reap(&runtime->command.process));
                else
                        (void)waitid(P_PID, (id_t)info.si_pid, &info, WEXITED | WNOHANG);
        }
}

/* --- the caller --- */

static void report_state(struct runtime *runtime) {
        struct report report = { .type = REPORT_STATUS };
        json_t *contexts = json_checked(json_array());

        /* While something runs, what it has started is not left behind yet. */
        if (runtime->execution.n == 0)
                runtime_look_around(runtime);
        for (size_t i = 0; i < runtime->context_count; i++) {
                const struct context *context = &runtime->contexts[i];

                if (!KERNEL_IS_DEAD(&context->kernel))
                        json_add(contexts, json_pack("{s:s, s:I}", "context", context->name, "generation",
                                                     (json_int_t)context->generation));
        }
        report.contexts = contexts;
        report.left = runtime_left(runtime);
        runtime_report(runtime, &report);
        json_decref(contexts);
}

static void answer_request(struct runtime *runtime, const struct message *message) {
        struct request request;
        struct error err;

        if (request_read(message, &request, &err) < 0) {
                json_int_t n = json_integer_or(message->head, "n", 0);

                runtime_refuse(runtime, n > 0 ? n : 0, err.message);
                return;
        }
        switch (request.type) {
        case REQUEST_EXECUTE:
                /* A kernel that has died meanwhile must be seen as dead. */
                reap_children(runtime);
                execution_start(runtime, &request);
                return;
        case REQUEST_PREPARE:
                context_prepare(runtime, &request);
                return;
        case REQUEST_INTERRUPT:
                execution_interrupt(runtime, request.n);
                return;
        case REQUEST_RESTART:
                context_restart(runtime, &request);
                return;
        case REQUEST_STATUS:
                report_state(runtime);
                return;
        case REQUEST_CHECKPOINT:
                reap_children(runtime);
                checkpoint_take_start(runtime, &request);
                return;
        case REQUEST_RESTORE:
                checkpoint_restore_start(runtime, &request);
                return;
        case REQUEST_PIECE:
                checkpoint_restore_piece(runtime, &request);
                return;
        case REQUEST_RUN:
                command_start(runtime, &request);
                return;
        case REQUEST_END:
                runtime->ends = true;
                return;
        }
}

/* 1: go on. 0: the caller has closed between two messages. */
static int hear_caller(struct runtime *runtime, struct error *err) {
        char bytes[65536];
        ssize_t count = read(runtime->input, bytes, sizeof(bytes));
        size_t at = 0;

        if (count < 0)
                return errno == EINTR || errno == EAGAIN ? 1
                                                         : error_set(err, "cannot read: %s", strerror(errno));
        if (count == 0 && !message_reader_is_between(&runtime->requests))
                return error_set(err, "the caller closed in the middle of a message");
        if (count == 0)
                return 0;
        while (at < (size_t)count) {
                struct message message MESSAGE_CLEANUP = MESSAGE_INIT;
                size_t used;
                int whole = message_read(&runtime->requests, bytes + at, (size_t)count - at, &used, &message,
                                         err);

                if (whole < 0)
                        return -1;
                at += used;
                if (whole == MESSAGE_WHOLE)
                        answer_request(runtime, &message);
        }
        return 1;
}

/*
 * Sent bytes are removed from the front: a caller that is always a little behind never empties the
 * buffer, which would keep all that was ever printed. Bytes are moved only once more were sent than
 * are left.
 */
static void forget_what_was_sent(struct runtime *runtime) {
        size_t left = runtime->unsent.length - runtime->sent;

        if (runtime->sent < RUNTIME_BACKLOG || runtime->sent < left)
                return;
        memmove(runtime->unsent.data, runtime->unsent.data + runtime->sent, left);
        runtime->unsent.length = left;
        runtime->sent = 0;
}

/* -1: the caller has gone. */
static int tell_caller(struct runtime *runtime, struct error *err) {
        while (runtime->sent < runtime->unsent.length) {
                ssize_t count = write(runtime->output, runtime->unsent.data + runtime->sent,
                                      runtime->unsent.length - runtime->sent);

                if (count < 0 && errno == EINTR)
                        continue;
                if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
                        forget_what_was_sent(runtime);
                        return 0;
                }
                if (count < 0)
                        return error_set(err, "the caller does not listen: %s", strerror(errno));
                runtime->sent += (size_t)count;
        }
        /* A large one is given back: it was one display, and most are small. */
        if (runtime->unsent.capacity > 2 * RUNTIME_BACKLOG)
                strbuf_release(&runtime->unsent);
        strbuf_clear(&runtime->unsent);
        runtime->sent = 0;
        return 0;
}

static void read_lingering(struct runtime *runtime, const struct pollfd *polled, size_t polled_count) {
        size_t kept = 0;

        for (size_t i = 0; i < runtime->lingering_count; i++) {
                /* Those that came after the poll are looked at the next time. */
                if (i < polled_count && polled[i].revents && !late_read(runtime, runtime->lingering[i]))
                        close(runtime->lingering[i]);
                else
                        runtime->lingering[kept++] = runtime->lingering[i];
        }
        runtime->lingering_count = kept;
}

/* --- the loop --- */

static int milliseconds_left(const struct runtime *runtime) {
        int64_t next = execution_next_ms(runtime), left;

        for (size_t i = 0; i < runtime->context_count; i++) {
                if (runtime->contexts[i].kill_ms < next)
                        next = runtime->contexts[i].kill_ms;
        }
        if (runtime->taking.kill_ms < next)
                next = runtime->taking.kill_ms;
        if (runtime->restoring.until_ms < next)
                next = runtime->restoring.until_ms;
        if (runtime->hold_until_ms > 0 && runtime->hold_until_ms < next)
                next = runtime->hold_until_ms;
        if (runtime->mapped_ms < next)
                next = runtime->mapped_ms;
        if (next == INT64_MAX)
                return -1;
        left = next - clock_now_ms();
        return left < 0 ? 0 : left > 60000 ? 60000 : (int)left;
}

enum {
        POLL_INPUT,
        POLL_OUTPUT,
        POLL_SIGNALS,
        POLL_CHECKPOINT,
        POLL_PIPES,
        POLL_COMMAND = POLL_PIPES + 2,
        POLL_KERNELS = POLL_COMMAND + 2
};
#define POLL_LINGERING (POLL_KERNELS + RUNTIME_CONTEXTS_MAX)

/* A descriptor of -1 is ignored by poll(2). */
static void choose_what_to_watch(const struct runtime *runtime, struct pollfd *polled) {
        bool behind = runtime->unsent.length - runtime->sent > RUNTIME_BACKLOG;
        bool runs = runtime->execution.n > 0, holds = runtime->hold_until_ms > 0;

        polled[POLL_INPUT] =
                (struct pollfd){ behind || checkpoint_restore_is_behind(runtime) ? -1 : runtime->input,
                                 POLLIN, 0 };
        polled[POLL_CHECKPOINT] = (struct pollfd){ behind ? -1 : runtime->taking.pipe, POLLIN, 0 };
        polled[POLL_OUTPUT] =
                (struct pollfd){ runtime->output,
                                 !holds && runtime->unsent.length > runtime->sent ? POLLOUT : 0, 0 };
        polled[POLL_SIGNALS] = (struct pollfd){ runtime->signals, POLLIN, 0 };
        for (int i = 0; i < 2; i++)
                polled[POLL_PIPES + i] =
                        (struct pollfd){ behind || !runs ? -1 : runtime->execution.pipes[i], POLLIN, 0 };
        for (int i = 0; i < 2; i++)
                polled[POLL_COMMAND + i] =
                        (struct pollfd){ behind || runtime->command.n == 0 ? -1 : runtime->command.pipes[i],
                                         POLLIN, 0 };
        for (size_t i = 0; i < RUNTIME_CONTEXTS_MAX; i++) {
                const struct kernel *kernel =
                        i < runtime->context_count ? &runtime->contexts[i].kernel : NULL;
                short events = kernel && kernel_is_behind(kernel) ? POLLIN | POLLOUT : POLLIN;

                /* Read even so: what it may say in one execution is bounded, and its end must be heard. */
                polled[POLL_KERNELS + i] = (struct pollfd){ kernel ? kernel->socket : -1, events, 0 };
        }
        for (size_t i = 0; i < runtime->lingering_count; i++)
                polled[POLL_LINGERING + i] = (struct pollfd){ holds ? -1 : runtime->lingering[i], POLLIN, 0 };
}

/*
 * Once an answer has left, the process that it wakes goes first: on the same processor it would
 * stand behind us. A wait of a fraction of a millisecond would do the same, but the clock that ends
 * it has to be set, which takes 20 us in a virtual machine.
 */
static void prepare_for_next(struct runtime *runtime) {
        runtime->answered = false;
        (void)sched_yield();
        if (runtime->execution.n == 0)
                execution_foresee(runtime);
}

static int serve_once(struct runtime *runtime, struct error *err) {
        struct pollfd polled[POLL_LINGERING + RUNTIME_LINGERING_MAX];
        size_t lingering = runtime->lingering_count;
        int events;

        choose_what_to_watch(runtime, polled);
        events = poll(polled, (nfds_t)(POLL_LINGERING + lingering), milliseconds_left(runtime));
        if (events < 0 && errno != EINTR)
                return error_set(err, "cannot wait: %s", strerror(errno));
        if (polled[POLL_OUTPUT].revents & (POLLERR | POLLHUP | POLLNVAL))
                return 0;
        if (polled[POLL_OUTPUT].revents && tell_caller(runtime, err) < 0)
                return -1;
        /* The caller's requests come first. */
        if (!polled[POLL_INPUT].revents)
                read_lingering(runtime, polled + POLL_LINGERING, lingering);
        for (int i = 0; i < 2; i++) {
                if (polled[POLL_PIPES + i].revents &&
                    runtime->execution.pipes[i] == polled[POLL_PIPES + i].fd)
                        execution_read(runtime, i);
                if (polled[POLL_COMMAND + i].revents && polled[POLL_COMMAND + i].fd >= 0 &&
                    runtime->command.pipes[i] == polled[POLL_COMMAND + i].fd)
                        command_read(runtime, i);
        }
        for (size_t i = 0; i < runtime->context_count; i++) {
                struct context *context = &runtime->contexts[i];
                const struct pollfd *seen = &polled[POLL_KERNELS + i];

                if (!seen->revents || seen->fd < 0 || context->kernel.socket != seen->fd)
                        continue;
                if (seen->revents & POLLOUT)
                        kernel_send_more(&context->kernel);
                if (seen->revents & (POLLIN | POLLHUP | POLLERR))
                        context_hear(runtime, context);
        }
        if (polled[POLL_CHECKPOINT].revents && runtime->taking.pipe == polled[POLL_CHECKPOINT].fd)
                checkpoint_take_read(runtime);
        if (polled[POLL_SIGNALS].revents)
                reap_children(runtime);
        execution_tick(runtime);
        checkpoint_take_tick(runtime);
        checkpoint_restore_tick(runtime);
        look_at_mapped_again(runtime);
        for (size_t i = 0; i < runtime->context_count; i++)
                context_tick(&runtime->contexts[i]);
        if (runtime->hold_until_ms > 0 && clock_now_ms() >= runtime->hold_until_ms)
                runtime->hold_until_ms = 0;
        /* Answers leave with the turn of the loop that made them, as far as they are taken. */
        if (runtime->hold_until_ms == 0 && runtime->unsent.length > runtime->sent &&
            tell_caller(runtime, err) < 0)
                return -1;
        if (runtime->answered)
                prepare_for_next(runtime);
        return polled[POLL_INPUT].revents ? hear_caller(runtime, err) : 1;
}

static int get_ready(struct runtime *runtime, struct error *err) {
        sigset_t children;

        /* Of the rest, user code could send us any; those that stand for our own faults stay as they are. */
        static const int ignored[] = { SIGHUP,    SIGINT,  SIGQUIT, SIGPIPE, SIGALRM, SIGTERM,
                                       SIGUSR1,   SIGUSR2, SIGTSTP, SIGTTIN, SIGTTOU, SIGXCPU,
                                       SIGVTALRM, SIGPROF, SIGIO,   SIGPWR };

        for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
                (void)signal(ignored[i], SIG_IGN);
        for (int number = SIGRTMIN; number <= SIGRTMAX; number++)
                (void)signal(number, SIG_IGN);
        if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
                return error_set(err, "cannot shut itself away: %s", strerror(errno));
        sigemptyset(&children);
        sigaddset(&children, SIGCHLD);
        sigprocmask(SIG_BLOCK, &children, NULL);
        runtime->signals = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
        runtime->folder = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        runtime->loadavg = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
        if (runtime->signals < 0 || runtime->folder < 0 || fcntl(runtime->input, F_SETFL, O_NONBLOCK) < 0 ||
            fcntl(runtime->output, F_SETFL, O_NONBLOCK) < 0)
                return error_set(err, "cannot begin: %s", strerror(errno));
        return 0;
}

static void end_everything(struct runtime *runtime) {
        static const struct descendants none = { 0 };

        ending_of_kernels(runtime, NULL);
        descendants_kill(&none, 0);
        runtime->execution.n = runtime->command.n = 0;
        for (size_t i = 0; i < runtime->context_count; i++) {
                if (!KERNEL_IS_DEAD(&runtime->contexts[i].kernel)) {
                        process_kill(&runtime->contexts[i].kernel.process);
                        (void)kernel_reap(&runtime->contexts[i].kernel);
                }
                context_release(&runtime->contexts[i]);
                late_release(&runtime->contexts[i].late);
        }
        for (int i = 0; i < 2; i++) {
                close_descriptor(&runtime->execution.pipes[i]);
                close_descriptor(&runtime->command.pipes[i]);
                close_descriptor(&runtime->spare[i][0]);
                close_descriptor(&runtime->spare[i][1]);
        }
        while (runtime->lingering_count > 0)
                close(runtime->lingering[--runtime->lingering_count]);
        process_end(&runtime->execution.shell);
        process_end(&runtime->command.process);
        close_descriptor(&runtime->taking.pipe);
        message_reader_release(&runtime->taking.reader);
        json_decref(runtime->taking.contexts);
        checkpoint_reader_release(&runtime->restoring.reader);
        json_decref(runtime->restoring.contexts);
        descendants_release(&runtime->known);
        message_reader_release(&runtime->requests);
        strbuf_release(&runtime->unsent);
        close_descriptor(&runtime->signals);
        close_descriptor(&runtime->folder);
        close_descriptor(&runtime->loadavg);
        close_descriptor(&runtime->input);
        close_descriptor(&runtime->output);
}

int runtime_serve(const struct runtime_options *options, struct error *err) {
        struct runtime runtime = { .input = options->input,
                                   .output = options->output,
                                   .memory_max = options->memory_max,
                                   .mapped_ms = INT64_MAX,
                                   .signals = -1,
                                   .folder = -1,
                                   .loadavg = -1,
                                   .execution = { .shell = PROCESS_NONE, .pipes = { -1, -1 } },
                                   .command = { .process = PROCESS_NONE, .pipes = { -1, -1 } },
                                   .spare = { { -1, -1 }, { -1, -1 } },
                                   .taking = { .pipe = -1, .kill_ms = INT64_MAX },
                                   .restoring = { .until_ms = INT64_MAX } };
        const struct report hello = { .type = REPORT_HELLO,
                                      .protocol = REPORT_PROTOCOL,
                                      .version = BERTH_VERSION };
        int result = get_ready(&runtime, err);

        if (result == 0) {
                runtime_report(&runtime, &hello);
                result = 1;
        }
        while (result > 0 && !runtime.ends)
                result = serve_once(&runtime, err);
        end_everything(&runtime);
        return result < 0 ? -1 : 0;
}
