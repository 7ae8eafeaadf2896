/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts: kernels by name. A context stays when its kernel has died, so that the next one has the next number and can say what
 * became of the last. A kernel speaks out of turn only where user code made it: then it is killed, since nothing that it says
 * could be believed any more.
 */
#include "runtime/serve/runtime_parts.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct context *context_get(struct runtime *runtime, const char *name) {
        struct context *context;

        for (size_t i = 0; i < runtime->context_count; i++) {
                if (strcmp(runtime->contexts[i].name, name) == 0)
                        return &runtime->contexts[i];
        }
        if (runtime->context_count == RUNTIME_CONTEXTS_MAX)
                return NULL;
        context = &runtime->contexts[runtime->context_count++];
        *context = (struct context){ .kernel = KERNEL_NONE,
                                     .kill_ms = INT64_MAX,
                                     .late = { .pipes = { -1, -1 } } };
        snprintf(context->name, sizeof(context->name), "%s", name);
        return context;
}

static bool is_passed_on(const char *variable) {
        return strncmp(variable, "AWS_", 4) != 0 && strncmp(variable, "BERTH_", 6) != 0;
}

/* Whether "NAME=VALUE" is of a name in the object. */
static bool is_set_in(const json_t *variables, const char *variable) {
        size_t length = strcspn(variable, "=");

        return variables && json_object_getn(variables, variable, length);
}

const char **context_environment(const json_t *variables, struct arena *arena) {
        size_t count = 0, room = variables ? json_object_size(variables) : 0;
        const char **words, *name;
        json_t *value;

        for (char **variable = environ; *variable; variable++)
                room++;
        words = arena_array(arena, room + 2, sizeof(*words));
        for (char **variable = environ; *variable; variable++) {
                if (is_passed_on(*variable) && !is_set_in(variables, *variable))
                        words[count++] = *variable;
        }
        json_object_foreach ((json_t *)variables, name, value) {
                words[count++] = arena_printf(arena, "%s=%s", name, json_string_value(value));
        }
        /* matplotlib would look for a screen first. */
        if (!getenv("MPLBACKEND") && !(variables && json_object_get(variables, "MPLBACKEND")))
                words[count++] = "MPLBACKEND=agg";
        return words;
}

const char *context_program_folders(void) {
        const char *folders = getenv("PATH");

        return folders && *folders ? folders : "/usr/local/bin:/usr/bin:/bin";
}

int context_start(struct runtime *runtime, struct context *context, int output, int errors,
                  struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct kernel_args args = { .environment = context_environment(NULL, arena),
                                    .output = output,
                                    .errors = errors,
                                    .memory_max = runtime->memory_max };

        if (!KERNEL_IS_DEAD(&context->kernel))
                return 0;
        args.python = process_find_program("python3", context_program_folders(), arena);
        if (!args.python)
                return error_set_kind(
                        err, ERROR_NOT_FOUND,
                        "there is no python3 here: code in Python needs an image that has it on the "
                        "PATH, 3.8 or newer");
        if (kernel_start(&args, &context->kernel, err) < 0)
                return -1;
        /* It goes on when what another one has started is killed. */
        descendants_add(&runtime->known, context->kernel.process.pid);
        context->generation++;
        context->fresh = true;
        context->explained = context->restarted = false;
        context->kill_ms = INT64_MAX;
        return 0;
}

void context_kill(struct runtime *runtime, struct context *context, const char *why) {
        if (KERNEL_IS_DEAD(&context->kernel))
                return;
        snprintf(context->lost, sizeof(context->lost), "%s", why);
        context->explained = true;
        close_descriptor(&context->kernel.socket);
        descendants_kill(&runtime->known, context->kernel.process.pid);
}

void context_add_outcome(json_t *outcomes, const struct context *context, int64_t kept, int64_t lost,
                         const char *reason) {
        json_t *outcome = json_checked(json_pack("{s:s, s:I, s:I, s:I}", "context", context->name,
                                                 "generation", (json_int_t)context->generation, "kept",
                                                 (json_int_t)(reason ? 0 : kept), "lost", (json_int_t)lost));

        json_put(outcome, "reason", reason ? json_string(reason) : json_null());
        json_add(outcomes, outcome);
}

void context_release(struct context *context) {
        json_decref(context->restored);
        json_decref(context->restored_lost);
        context->restored = context->restored_lost = NULL;
}

/* Why nothing can be asked of kernels now, or NULL. */
static const char *is_occupied(const struct runtime *runtime) {
        return runtime->taking.active      ? "a checkpoint is being taken"
               : runtime->restoring.active ? "a checkpoint is being restored"
                                           : NULL;
}

static void report_prepared(struct runtime *runtime, struct context *context, const json_t *missing,
                            const char *reason) {
        const struct report report = { .type = REPORT_PREPARED,
                                       .context = context->name,
                                       .generation = context->generation,
                                       .python = reason ? NULL : context->kernel.python,
                                       .missing = missing,
                                       .reason = reason };

        context->preparing = false;
        runtime_report(runtime, &report);
}

void context_prepare(struct runtime *runtime, const struct request *request) {
        struct context *context = context_get(runtime, request->context);
        json_t *head;
        struct error err;

        if (is_occupied(runtime)) {
                runtime_refuse(runtime, 0, is_occupied(runtime));
                return;
        }
        if (!context || context->preparing || kernel_backlog(&context->kernel) > RUNTIME_KERNEL_BACKLOG) {
                runtime_refuse(runtime, 0,
                               !context             ? "no more than 8 contexts"
                               : context->preparing ? "this context is being prepared already"
                                                    : "this context's kernel does not read what it is sent");
                return;
        }
        if (context_start(runtime, context, STDERR_FILENO, STDERR_FILENO, &err) < 0) {
                report_prepared(runtime, context, NULL, err.message);
                return;
        }
        context->preparing = true;
        head = json_checked(json_pack("{s:s}", "type", "prepare"));
        json_put(head, "modules",
                 request->modules ? json_deep_copy(request->modules) : json_checked(json_array()));
        kernel_send(&context->kernel, head, NULL, 0, NULL);
        json_decref(head);
}

/* A running execution is cut off with it; what it has left behind lives on. */
void context_restart(struct runtime *runtime, const struct request *request) {
        struct context *context = context_get(runtime, request->context);
        const struct report report = { .type = REPORT_RESTARTED, .context = request->context };

        if (!context || is_occupied(runtime)) {
                runtime_refuse(runtime, 0, context ? is_occupied(runtime) : "no more than 8 contexts");
                return;
        }
        if (!KERNEL_IS_DEAD(&context->kernel)) {
                snprintf(context->lost, sizeof(context->lost), "it was restarted by request");
                context->explained = context->restarted = true;
                ending_of_kernels(runtime, context);
                process_kill(&context->kernel.process);
                context_end(runtime, context);
        }
        runtime_report(runtime, &report);
}

/* It has said what it may not: only user code makes it do that. */
static void break_off(struct runtime *runtime, struct context *context, const char *why) {
        struct execution *execution = &runtime->execution;

        if (execution->n > 0 && execution->context == context)
                execution->broke = true;
        snprintf(context->lost, sizeof(context->lost), "it did not keep to its protocol: %.150s", why);
        context->explained = true;
        process_kill(&context->kernel.process);
        /* Nothing more is heard of it: its end comes as a signal. */
        close_descriptor(&context->kernel.socket);
}

/* -1: it may not say that now. */
static int heed(struct runtime *runtime, struct context *context, const struct kernel_word *word) {
        const struct execution *execution = &runtime->execution;
        bool runs = execution->n > 0 && execution->context == context;

        switch (word->type) {
        case WORD_READY:
                if (context->kernel.ready)
                        return -1;
                context->kernel.ready = true;
                snprintf(context->kernel.python, sizeof(context->kernel.python), "%s", word->python);
                return 0;
        case WORD_PREPARED:
                if (!context->preparing || !context->kernel.ready)
                        return -1;
                report_prepared(runtime, context, word->missing, NULL);
                return 0;
        case WORD_BEGUN:
                /*
                 * A kernel that has begun has read its request: otherwise further ones would pile
                 * up.
                 */
                if (!runs || execution->begun || word->n != execution->n ||
                    kernel_backlog(&context->kernel) > RUNTIME_KERNEL_BACKLOG)
                        return -1;
                execution_begun(runtime);
                return 0;
        case WORD_DISPLAY:
                if (!runs || !execution->begun || word->n != execution->n)
                        return -1;
                execution_show(runtime, word);
                return 0;
        case WORD_DONE:
                if (!runs || !execution->begun || word->n != execution->n)
                        return -1;
                execution_done(runtime, word);
                return 0;
        case WORD_TAKEN:
                if (runtime->taking.context != context)
                        return -1;
                checkpoint_take_done(runtime, word);
                return 0;
        case WORD_RESTORED:
                if (!context->restoring || !context->kernel.ready)
                        return -1;
                checkpoint_restore_done(runtime, context, word);
                return 0;
        }
        return -1;
}

static void hear_one(struct runtime *runtime, struct context *context) {
        struct message message MESSAGE_CLEANUP = MESSAGE_INIT;
        struct kernel_word word;
        struct error err = { 0 };
        int answer = kernel_receive(&context->kernel, &message, &err);

        if (answer == KERNEL_WAIT)
                return;
        if (answer == KERNEL_CLOSED) {
                context->kill_ms = clock_now_ms() + RUNTIME_CLOSED_MS;
                close_descriptor(&context->kernel.socket);
        } else if (answer < 0 || kernel_word_read(&message, &word, &err) < 0)
                break_off(runtime, context, err.message);
        else if (heed(runtime, context, &word) < 0)
                break_off(runtime, context, "it spoke out of turn");
}

/*
 * Only what one read has brought: the caller's loop makes sure that a kernel that goes on and on
 * delays no other.
 */
void context_hear(struct runtime *runtime, struct context *context) {
        do
                hear_one(runtime, context);
        while (context->kernel.socket >= 0 && kernel_has_ahead(&context->kernel));
}

void context_tick(struct context *context) {
        if (clock_now_ms() < context->kill_ms)
                return;
        snprintf(context->lost, sizeof(context->lost), "it closed its socket to the runtime");
        context->explained = true;
        context->kill_ms = INT64_MAX;
        process_kill(&context->kernel.process);
}

/* Its words before its death count: the socket bounds them. */
void context_end(struct runtime *runtime, struct context *context) {
        struct execution *execution = &runtime->execution;
        bool ran, was_ready;
        struct process_status status;

        while (context->kernel.socket >= 0 && !context->explained) {
                struct message message MESSAGE_CLEANUP = MESSAGE_INIT;
                struct kernel_word word;
                struct error err;

                if (kernel_receive(&context->kernel, &message, &err) != KERNEL_WHOLE ||
                    kernel_word_read(&message, &word, &err) < 0 || heed(runtime, context, &word) < 0)
                        break;
        }
        context->kill_ms = INT64_MAX;
        ran = execution->n > 0 && execution->context == context;
        was_ready = context->kernel.ready;
        status = kernel_reap(&context->kernel);
        if (!context->explained && status.signalled)
                snprintf(context->lost, sizeof(context->lost), "it was ended by signal %d", status.code);
        else if (!context->explained)
                snprintf(context->lost, sizeof(context->lost), "%s with code %d",
                         was_ready ? "it ended" : "Python did not start, and ended", status.code);
        context_release(context);
        if (context->preparing)
                report_prepared(runtime, context, NULL, context->lost);
        checkpoint_take_kernel_ended(runtime, context);
        checkpoint_restore_kernel_ended(runtime, context);
        if (ran)
                execution_kernel_ended(runtime, status, was_ready);
}
