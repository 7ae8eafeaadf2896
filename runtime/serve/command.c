/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command: the program that a container's sandbox is there for. One at a time, beside executions, without a deadline and without the
 * limit that executions have on the data of one process: a database maps what it likes, and the sandbox's own limit holds.
 *
 * It is among the processes that were there before any execution, so an execution that is killed takes neither it nor what it has
 * started along. It is over when its own process has ended; what it has left behind lives on until the sandbox goes.
 */
#include "runtime/serve/runtime_parts.h"

#include "base/clock.h"
#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int make_output_pipes(struct command *command, int ret_theirs[2], struct error *err) {
        for (int i = 0; i < 2; i++) {
                int pair[2];

                if (pipe2(pair, O_CLOEXEC) < 0)
                        return error_set(err, "no pipe for its output: %s", strerror(errno));
                command->pipes[i] = pair[0];
                ret_theirs[i] = pair[1];
                if (fcntl(pair[0], F_SETFL, O_NONBLOCK) < 0)
                        return error_set(err, "no pipe for its output: %s", strerror(errno));
        }
        return 0;
}

static void finish_command(struct runtime *runtime, struct report *report) {
        struct command *command = &runtime->command;

        for (int i = 0; i < 2; i++) {
                execution_take_rest(runtime, command->pipes[i], command->n, i, &command->bytes[i]);
                close_descriptor(&command->pipes[i]);
        }
        report->type = REPORT_DONE;
        report->n = command->n;
        report->wall_ms = clock_now_ms() - command->started_ms;
        report->stdout_bytes = command->bytes[0];
        report->stderr_bytes = command->bytes[1];
        *command = (struct command){ .process = PROCESS_NONE, .pipes = { -1, -1 } };
        runtime_report(runtime, report);
}

static int start_command(struct runtime *runtime, const struct request *request, struct error *err) {
        struct command *command = &runtime->command;
        struct arena *arena ARENA_CLEANUP = arena_new();
        size_t count = json_array_size(request->arguments);
        const char **words = arena_array(arena, count + 1, sizeof(*words));
        const char *path = NULL;
        struct process_args args = { .arguments = words,
                                     .environment = context_environment(request->variables, arena),
                                     .group = PROCESS_OWN_SESSION,
                                     .descriptor_count = 2 };
        int theirs[2] = { -1, -1 }, result;

        for (size_t i = 0; i < count; i++)
                words[i] = json_string_value(json_array_get(request->arguments, i));
        words[count] = NULL;
        if (!words[0])
                return error_set(err, "there is no program");
        for (const char *const *text = args.environment; *text; text++)
                path = strncmp(*text, "PATH=", 5) == 0 ? *text + 5 : path;
        args.program =
                strchr(words[0], '/') ? words[0] : process_find_program(words[0], path ? path : "", arena);
        if (!args.program)
                return error_set(err, "there is no program %s in %s", words[0],
                                 path ? path : "PATH, which is empty");
        result = make_output_pipes(command, theirs, err);
        if (result == 0) {
                args.descriptors[0] = (struct process_descriptor){ theirs[0], 1 };
                args.descriptors[1] = (struct process_descriptor){ theirs[1], 2 };
                result = kernel_start_process(&args, 0, &command->process, err);
        }
        for (int i = 0; i < 2; i++)
                close_descriptor(&theirs[i]);
        return result;
}

void command_start(struct runtime *runtime, const struct request *request) {
        const struct report started = { .type = REPORT_STARTED, .n = request->n, .context = "main" };
        struct error err;

        if (runtime->command.n > 0) {
                runtime_refuse(runtime, request->n, "another command runs");
                return;
        }
        runtime->command = (struct command){
                .n = request->n, .process = PROCESS_NONE, .pipes = { -1, -1 }, .started_ms = clock_now_ms()
        };
        if (start_command(runtime, request, &err) < 0) {
                struct report report = { .status = REPORT_FAILED, .exit_code = -1, .detail = err.message };

                finish_command(runtime, &report);
                return;
        }
        descendants_add(&runtime->known, runtime->command.process.pid);
        runtime_report(runtime, &started);
}

void command_stop(const struct runtime *runtime) {
        if (runtime->command.process.pid > 0)
                (void)kill(-runtime->command.process.pid, SIGTERM);
}

void command_read(struct runtime *runtime, int stream) {
        struct command *command = &runtime->command;
        char bytes[65536];
        ssize_t count = read(command->pipes[stream], bytes, sizeof(bytes));
        const struct report report = { .type = REPORT_OUTPUT,
                                       .n = command->n,
                                       .is_stderr = stream == 1,
                                       .bytes = bytes,
                                       .length = count > 0 ? (size_t)count : 0 };

        if (count == 0)
                close_descriptor(&command->pipes[stream]);
        if (count <= 0)
                return;
        command->bytes[stream] += count;
        runtime_report(runtime, &report);
}

void command_ended(struct runtime *runtime, struct process_status status) {
        struct report report = { .status = status.code == 0 ? REPORT_OK : REPORT_ERROR,
                                 .exit_code = status.code };
        char detail[64];

        if (status.signalled) {
                snprintf(detail, sizeof(detail), "it was ended by signal %d", status.code);
                report.status = REPORT_KILLED;
                report.exit_code = -1;
                report.detail = detail;
        }
        finish_command(runtime, &report);
}
