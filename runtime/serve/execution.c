/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One execution, from the request to `done`.
 *
 * Output. Each execution has pipes of its own, so that what an earlier one has left behind cannot write into it. It is over when
 * its kernel says so, or its shell has ended; what is in the pipes then is its output. Later output is another matter (late.c).
 *
 * Stopping. A wish to stop (an interrupt, the deadline) is SIGINT for what the execution has started in its foreground. A kernel
 * gets it for this execution only once its user code runs: before, it would hit the kernel's own code. Until then it stops what keeps the
 * kernel from beginning: a task of an earlier execution. RUNTIME_GRACE_MS later everything that the
 * execution has started is killed, the kernel with it. What earlier executions have left behind is not touched.
 *
 * Honesty. An execution is `ok` only if the kernel said so itself, no stop had been requested, and
 * it lives; or if the shell ended with 0.
 */
#include "runtime/serve/runtime_parts.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/json.h"
#include "runtime/serve/picture.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

/* As much as one argument may have (MAX_ARG_STRLEN is 131072, with the end). */
#define SHELL_ARGUMENT_MAX 131071

/* --- output --- */

static void report_output(struct runtime *runtime, int64_t n, int stream, const char *bytes, size_t length,
                          int64_t *total) {
        const struct report report = {
                .type = REPORT_OUTPUT, .n = n, .is_stderr = stream == 1, .bytes = bytes, .length = length
        };

        *total += (int64_t)length;
        runtime_report(runtime, &report);
}

void execution_read(struct runtime *runtime, int stream) {
        char bytes[65536];
        ssize_t count = read(runtime->execution.pipes[stream], bytes, sizeof(bytes));

        if (count > 0)
                report_output(runtime, runtime->execution.n, stream, bytes, (size_t)count,
                              &runtime->execution.bytes[stream]);
        else if (count == 0)
                close_descriptor(&runtime->execution.pipes[stream]);
}

void execution_take_rest(struct runtime *runtime, int pipe, int64_t n, int stream, int64_t *total) {
        int left = 0;

        if (pipe < 0 || ioctl(pipe, FIONREAD, &left) < 0)
                return;
        while (left > 0) {
                char bytes[65536];
                size_t wanted = (size_t)left < sizeof(bytes) ? (size_t)left : sizeof(bytes);
                ssize_t count = read(pipe, bytes, wanted);

                if (count <= 0)
                        return;
                report_output(runtime, n, stream, bytes, (size_t)count, total);
                left -= (int)count;
        }
}

static void take_rest(struct runtime *runtime, int stream) {
        struct execution *execution = &runtime->execution;

        execution_take_rest(runtime, execution->pipes[stream], execution->n, stream,
                            &execution->bytes[stream]);
}

/*
 * A process may still write to it. The longest kept one goes where there are too many: who writes
 * to it then gets SIGPIPE.
 */
static void let_linger(struct runtime *runtime, int stream) {
        struct execution *execution = &runtime->execution;
        int *pipe = &execution->pipes[stream];

        if (*pipe < 0)
                return;
        if (execution->context) {
                execution->context->late.n = execution->n;
                execution->context->late.pipes[stream] = *pipe;
        }
        if (runtime->lingering_count == RUNTIME_LINGERING_MAX) {
                late_forget(runtime, runtime->lingering[0]);
                close(runtime->lingering[0]);
                memmove(runtime->lingering, runtime->lingering + 1,
                        --runtime->lingering_count * sizeof(runtime->lingering[0]));
        }
        runtime->lingering[runtime->lingering_count++] = *pipe;
        *pipe = -1;
}

static int make_pipe(int ret[2]) {
        int pair[2];

        if (pipe2(pair, O_CLOEXEC) < 0)
                return -1;
        if (fcntl(pair[0], F_SETFL, O_NONBLOCK) < 0) {
                close(pair[0]);
                close(pair[1]);
                return -1;
        }
        ret[0] = pair[0];
        ret[1] = pair[1];
        return 0;
}

void execution_foresee(struct runtime *runtime) {
        for (int i = 0; i < 2; i++) {
                if (runtime->spare[i][0] < 0)
                        (void)!make_pipe(runtime->spare[i]);
        }
}

static int take_pipes(struct runtime *runtime, int ret_theirs[2], struct error *err) {
        for (int i = 0; i < 2; i++) {
                int *spare = runtime->spare[i];

                if (spare[0] < 0 && make_pipe(spare) < 0)
                        return error_set(err, "no pipe for its output: %s", strerror(errno));
                runtime->execution.pipes[i] = spare[0];
                ret_theirs[i] = spare[1];
                spare[0] = spare[1] = -1;
        }
        return 0;
}

/* --- the end --- */

static void finish_execution(struct runtime *runtime, struct report *report) {
        struct execution *execution = &runtime->execution;

        for (int i = 0; i < 2; i++) {
                take_rest(runtime, i);
                let_linger(runtime, i);
        }
        runtime_look_around(runtime);
        runtime_look_at_mapped(runtime);
        report->type = REPORT_DONE;
        report->n = execution->n;
        report->wall_ms = clock_now_ms() - execution->started_ms;
        report->stdout_bytes = execution->bytes[0];
        report->stderr_bytes = execution->bytes[1];
        report->displays_dropped = execution->dropped;
        report->left = runtime_left(runtime);
        *execution = (struct execution){ .pipes = { -1, -1 } };
        runtime_report(runtime, report);
        runtime->answered = true;
}

/* Berth itself could not do it: nothing of the code ran. */
static void fail_execution(struct runtime *runtime, const char *detail) {
        struct report report = { .status = REPORT_FAILED, .exit_code = -1, .detail = detail };

        finish_execution(runtime, &report);
}

/* What being asked to stop makes of an end; false without a request. */
static bool was_stopped(const struct execution *execution, struct report *report) {
        if (!execution->late && !execution->interrupted)
                return false;
        report->status = execution->late ? REPORT_TIMEOUT : REPORT_INTERRUPTED;
        report->exit_code = -1;
        return true;
}

void execution_done(struct runtime *runtime, const struct kernel_word *word) {
        static const enum report_status statuses[] = { [OUTCOME_OK] = REPORT_OK,
                                                       [OUTCOME_ERROR] = REPORT_ERROR,
                                                       [OUTCOME_MEMORY] = REPORT_MEMORY,
                                                       [OUTCOME_EXITS] = REPORT_ERROR };
        struct report report = { .status = statuses[word->outcome],
                                 .value = word->value,
                                 .error = word->error };

        report.exit_code = word->outcome == OUTCOME_OK ? 0 : word->outcome == OUTCOME_ERROR ? 1 : -1;
        /* exit() ends the execution, not the kernel. */
        if (word->outcome == OUTCOME_EXITS) {
                report.status = word->code == 0 ? REPORT_OK : REPORT_ERROR;
                report.exit_code = word->code;
        }
        (void)was_stopped(&runtime->execution, &report);
        finish_execution(runtime, &report);
}

/* A failed end: how the process ended, in words, and in the error. */
static void report_death(struct runtime *runtime, struct process_status status, bool was_ready,
                         struct report *report) {
        struct execution *execution = &runtime->execution;
        char text[512], *lost = execution->context->lost;

        if (execution->killed)
                snprintf(lost, sizeof(execution->context->lost), "it was killed: it did not stop %s",
                         execution->late ? "at its deadline" : "when it was interrupted");
        snprintf(text, sizeof(text), "the kernel has ended in the middle of the execution: %s", lost);
        report->ended = lost;
        if (was_stopped(execution, report)) {
                finish_execution(runtime, report);
                return;
        }
        if (!execution->begun) {
                report->status = execution->context->restarted ? REPORT_KILLED : REPORT_FAILED;
                report->exit_code = -1;
                report->detail =
                        execution->context->restarted
                                ? "none of the code ran: its kernel was restarted by request"
                        : was_ready ? "none of the code ran: its kernel was broken by what ran there before"
                        : status.code == 78 && !status.signalled ? "python3 is older than 3.8"
                                                                 : "python3 did not start: stderr says why";
        } else if (status.signalled || execution->broke || execution->context->restarted) {
                report->status = REPORT_KILLED;
                report->exit_code = -1;
        } else {
                /* Ended by itself in the middle, by os._exit() for one. A 0 would say that the code had run to its end. */
                report->status = REPORT_ERROR;
                report->exit_code = status.code > 0 ? status.code : -1;
        }
        if (execution->begun)
                report->error = (struct content_error){ .name = "KernelEnded", .value = text };
        finish_execution(runtime, report);
}

void execution_kernel_ended(struct runtime *runtime, struct process_status status, bool was_ready) {
        struct report report = { .status = REPORT_ERROR, .exit_code = -1 };

        report_death(runtime, status, was_ready, &report);
}

void execution_shell_ended(struct runtime *runtime, struct process_status status) {
        struct report report = { .status = status.code == 0 ? REPORT_OK : REPORT_ERROR,
                                 .exit_code = status.code };
        char detail[64];

        if (status.signalled) {
                snprintf(detail, sizeof(detail), "sh was ended by signal %d", status.code);
                report.status = REPORT_KILLED;
                report.exit_code = -1;
                report.detail = detail;
        }
        (void)was_stopped(&runtime->execution, &report);
        finish_execution(runtime, &report);
}

/* --- stopping --- */

/*
 * To the processes that it has started and that stand in the foreground: a daemon has a session of
 * its own.
 */
static void send_interrupt(struct runtime *runtime) {
        struct execution *execution = &runtime->execution;
        pid_t leader = execution->context ? execution->context->kernel.process.pid : execution->shell.pid;

        execution->wants_interrupt = false;
        (void)descendants_signal(&runtime->known, leader, leader, SIGINT);
}

static void ask_to_stop(struct runtime *runtime) {
        struct execution *execution = &runtime->execution;

        if (execution->kill_ms != INT64_MAX)
                return;
        execution->kill_ms = clock_now_ms() + RUNTIME_GRACE_MS;
        execution->again_ms = execution->kill_ms - RUNTIME_GRACE_MS + RUNTIME_AGAIN_MS;
        execution->wants_interrupt = true;
        if (execution->begun)
                send_interrupt(runtime);
        else if (execution->context)
                kernel_interrupt(&execution->context->kernel);
}

void execution_interrupt(struct runtime *runtime, int64_t n) {
        struct execution *execution = &runtime->execution;

        if (runtime->command.n > 0 && runtime->command.n == n) {
                command_stop(runtime);
                return;
        }
        if (execution->n == 0 || execution->n != n) {
                runtime_refuse(runtime, n, "this execution does not run");
                return;
        }
        if (!execution->late)
                execution->interrupted = true;
        ask_to_stop(runtime);
}

void execution_begun(struct runtime *runtime) {
        runtime->execution.begun = true;
        /* The kernel has its new pipes: nothing more of its own comes over the old ones. */
        late_tell(runtime, runtime->execution.context);
        if (runtime->execution.wants_interrupt)
                send_interrupt(runtime);
}

int64_t execution_next_ms(const struct runtime *runtime) {
        const struct execution *execution = &runtime->execution;
        int64_t next;

        if (execution->n == 0)
                return INT64_MAX;
        next = execution->deadline_ms < execution->kill_ms ? execution->deadline_ms : execution->kill_ms;
        return execution->again_ms < next ? execution->again_ms : next;
}

void execution_tick(struct runtime *runtime) {
        struct execution *execution = &runtime->execution;
        int64_t now = clock_now_ms();

        if (execution->n == 0)
                return;
        if (now >= execution->deadline_ms) {
                execution->late = !execution->interrupted;
                execution->deadline_ms = INT64_MAX;
                ask_to_stop(runtime);
        }
        if (now >= execution->again_ms) {
                execution->again_ms = INT64_MAX;
                if (execution->begun)
                        send_interrupt(runtime);
                else if (execution->context)
                        kernel_interrupt(&execution->context->kernel);
        }
        if (now >= execution->kill_ms) {
                execution->killed = true;
                descendants_kill(&runtime->known, execution->context ? execution->context->kernel.process.pid
                                                                     : execution->shell.pid);
                /*
                 * Its end comes as a signal. If a process got away, or hangs in the machine's
                 * kernel: again.
                 */
                execution->kill_ms = now + 500;
        }
}

/* --- displays --- */

void execution_show(struct runtime *runtime, const struct kernel_word *word) {
        struct execution *execution = &runtime->execution;
        struct report report = {
                .type = REPORT_DISPLAY, .n = execution->n, .is_main = word->is_main, .display = word->display
        };
        char file[CONTENT_NAME_MAX];
        size_t bytes = 0;

        for (size_t i = 0; i < word->display.count; i++)
                bytes += word->display.parts[i].length;
        if (execution->displays == RUNTIME_DISPLAYS_MAX ||
            bytes > RUNTIME_DISPLAY_BYTES_MAX - execution->display_bytes) {
                execution->dropped++;
                return;
        }
        execution->displays++;
        execution->display_bytes += bytes;
        if (picture_write(runtime->folder, execution->n, execution->displays, &word->display, file,
                          sizeof(file)))
                report.file = file;
        /* Where the streams stand when it is shown: what was printed before comes before. */
        take_rest(runtime, 0);
        take_rest(runtime, 1);
        runtime_report(runtime, &report);
}

/* --- the start --- */

/* Bytes in an anonymous file, from their beginning. */
static int in_memory(const char *name, const char *bytes, size_t length, struct error *err) {
        int file = memfd_create(name, MFD_CLOEXEC);

        if (file < 0 || descriptor_write(file, bytes, length) < 0 || lseek(file, 0, SEEK_SET) < 0) {
                (void)error_set(err, "no memory for its %s: %s", name, strerror(errno));
                close_descriptor(&file);
        }
        return file;
}

/* Each image that runs code has /bin/sh. NULL: it has no bash. */
static const char *shell_program(enum request_language language, struct arena *arena) {
        return language == REQUEST_SHELL ? "/bin/sh"
                                         : process_find_program("bash", context_program_folders(), arena);
}

/* Code that is too long for an argument is read from a file that has no name. */
static int start_shell(struct runtime *runtime, const struct request *request, const int *pipes,
                       struct error *err) {
        int input DESCRIPTOR_CLEANUP = -1, code DESCRIPTOR_CLEANUP = -1;
        bool long_code = request->code_length > SHELL_ARGUMENT_MAX;
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *const words[] = { request_language_name(request->language), "-c",
                                      long_code ? ". /proc/self/fd/3"
                                                : arena_strndup(arena, request->code, request->code_length),
                                      NULL };
        struct process_args args = { .arguments = words,
                                     .program = shell_program(request->language, arena),
                                     .environment = context_environment(request->variables, arena),
                                     .group = PROCESS_OWN_SESSION,
                                     .descriptors = { { pipes[0], 1 }, { pipes[1], 2 } },
                                     .descriptor_count = 2 };

        if (!args.program)
                return error_set_kind(err, ERROR_NOT_FOUND,
                                      "there is no bash here: use sh, or an image that has bash on the PATH");
        if (request->input) {
                input = in_memory("standard input", request->input, request->input_length, err);
                if (input < 0)
                        return -1;
                args.descriptors[args.descriptor_count++] = (struct process_descriptor){ input, 0 };
        }
        if (long_code) {
                code = in_memory("code", request->code, request->code_length, err);
                if (code < 0)
                        return -1;
                args.descriptors[args.descriptor_count++] = (struct process_descriptor){ code, 3 };
        }
        if (kernel_start_process(&args, runtime->memory_max, &runtime->execution.shell, err) < 0)
                return error_context(err, "this image's shell does not start");
        runtime->execution.begun = true;
        return 0;
}

static void report_started(struct runtime *runtime, const struct request *request, enum report_was was) {
        struct context *context = runtime->execution.context;
        bool has_reason = was == REPORT_LOST || (was == REPORT_WAS_RESTORED && context->lost[0]);
        const struct report report = { .type = REPORT_STARTED,
                                       .n = request->n,
                                       .context = request->context,
                                       .generation = context ? context->generation : 0,
                                       .was = was,
                                       .reason = has_reason ? context->lost : NULL,
                                       .restored = context ? context->restored : NULL,
                                       .lost = context ? context->restored_lost : NULL };

        runtime_report(runtime, &report);
        if (context) {
                context->fresh = false;
                context_release(context);
        }
}

static void tell_kernel(struct runtime *runtime, const struct request *request, const int *pipes) {
        json_t *head =
                json_checked(json_pack("{s:s, s:I, s:I}", "type", "execute", "n", (json_int_t)request->n,
                                       "codeBytes", (json_int_t)request->code_length));

        json_put(head, "stdin", json_boolean(request->input != NULL));
        json_put(head, "variables",
                 request->variables ? json_deep_copy(request->variables) : json_checked(json_object()));
        /* Code and standard input lie one behind the other in the request, too. */
        kernel_send(&runtime->execution.context->kernel, head, request->code,
                    request->code_length + request->input_length, pipes);
        json_decref(head);
}

void execution_start(struct runtime *runtime, const struct request *request) {
        struct execution *execution = &runtime->execution;
        bool is_python = request->language == REQUEST_PYTHON;
        struct context *context = is_python ? context_get(runtime, request->context) : NULL;
        int theirs[2] = { -1, -1 };
        enum report_was was = REPORT_KEPT;
        struct error err;
        int result;

        if (execution->n > 0 || runtime->taking.active || runtime->restoring.active ||
            (is_python && !context)) {
                runtime_refuse(runtime, request->n,
                               execution->n > 0            ? "another execution runs"
                               : runtime->taking.active    ? "a checkpoint is being taken"
                               : runtime->restoring.active ? "a checkpoint is being restored"
                                                           : "no more than 8 contexts");
                return;
        }
        *execution = (struct execution){ .n = request->n,
                                         .language = request->language,
                                         .context = context,
                                         .shell = PROCESS_NONE,
                                         .pipes = { -1, -1 },
                                         .started_ms = clock_now_ms(),
                                         .deadline_ms = INT64_MAX,
                                         .again_ms = INT64_MAX,
                                         .kill_ms = INT64_MAX };
        if (request->timeout_ms > 0)
                execution->deadline_ms = execution->started_ms + request->timeout_ms;
        result = take_pipes(runtime, theirs, &err);
        if (result == 0 && is_python)
                result = context_start(runtime, context, theirs[0], theirs[1], &err);
        if (context && context->fresh)
                was = context->restored          ? REPORT_WAS_RESTORED
                      : context->generation == 1 ? REPORT_NEW
                                                 : REPORT_LOST;
        if (result == 0)
                report_started(runtime, request, was);
        if (result == 0 && !is_python)
                result = start_shell(runtime, request, theirs, &err);
        if (result == 0 && is_python)
                tell_kernel(runtime, request, theirs); /* the pipes are its own from here on */
        else
                for (int i = 0; i < 2; i++)
                        close_descriptor(&theirs[i]);
        if (result < 0)
                fail_execution(runtime, err.message);
}
