/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code in a fresh sandbox. The program's own exit code is passed on; 124 is the deadline, 137 the memory limit, 128 + N
 * signal N to Berth, 125 that it could not be run, each said on standard error.
 */
#include "base/clock.h"
#include "base/files.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "providers/exec.h"
#include "runtime/protocol/request.h"

#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CODE_MAX ((size_t)16 * 1024 * 1024)

/* The code and what it is called, with the operands that are left for the program. */
struct program {
        struct strbuf code;
        const char *name;
        const char *language;
        const char *const *arguments;
        size_t argument_count;
        bool from_input;
};

static int read_stdin(struct strbuf *ret, struct error *err) {
        int result = descriptor_read(STDIN_FILENO, CODE_MAX, ret);

        if (result < 0)
                return error_set(err, "cannot read standard input: %s", strerror(errno));
        return result ? error_set(err, "the code on standard input is larger than 16 MiB") : 0;
}

/* What tracebacks say: the file's own name where that is a plain one. */
static const char *plain_name(const char *path, struct arena *arena) {
        const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
        size_t length = strlen(name);

        if (length == 0 || length > 128 || name[0] == '.' ||
            strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != length)
                return NULL;
        return arena_strdup(arena, name);
}

static int read_program(const struct options *options, struct arena *arena, struct program *ret,
                        struct error *err) {
        const char *file = options->code || options->operand_count == 0 ? NULL : options->operands[0];

        if (!options->code && !file)
                return error_set(err, "berth exec needs code: -c CODE, a FILE, or - for standard input");
        ret->language = options->language                     ? options->language
                        : file && text_ends_with(file, ".sh") ? "sh"
                                                              : "python";
        if (request_language(ret->language) < 0)
                return error_set(err, "--lang takes python, sh or bash, not \"%s\"", ret->language);
        ret->name = strcmp(ret->language, "python") == 0 ? "main.py" : "main.sh";
        ret->arguments = options->operands + (file ? 1 : 0);
        ret->argument_count = options->operand_count - (file ? 1 : 0);
        if (options->code) {
                strbuf_append(&ret->code, options->code);
                return 0;
        }
        ret->from_input = strcmp(file, "-") == 0;
        if (ret->from_input)
                return read_stdin(&ret->code, err);
        if (plain_name(file, arena))
                ret->name = plain_name(file, arena);
        return file_read(file, CODE_MAX, &ret->code, err);
}

static void read_files(const struct options *options, struct arena *arena, struct exec_request *request) {
        struct exec_file *files = arena_array(arena, options->file_count + 1, sizeof(*files));

        for (size_t i = 0; i < options->file_count; i++) {
                const char *equals = strchr(options->files[i], '=');

                files[i].name = arena_strndup(arena, options->files[i], (size_t)(equals - options->files[i]));
                files[i].path = equals + 1;
        }
        request->files = files;
        request->file_count = options->file_count;
}

/* NULL without a terminal, or where it belongs to another process's foreground. */
static int usable_input(const struct program *program) {
        if (program->from_input || (isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) != getpgrp()))
                return -1;
        signal(SIGTTIN, SIG_IGN);
        return STDIN_FILENO;
}

/* What a reader of the program's output alone would not know. */
static void report_result(const struct exec_result *result) {
        for (size_t i = 0; i < result->withheld_count; i++)
                log_warning(
                        "the environment's variable %s is not given to the code: names that begin with AWS_ or "
                        "BERTH_ never are",
                        result->withheld[i]);
        for (size_t i = 0; i < result->elsewhere_count; i++)
                log_warning(
                        "the environment's variable %s is not set: its text is kept in AWS, and not fetched here",
                        result->elsewhere[i]);
        for (size_t i = 0; i < result->degraded_count; i++)
                log_warning("%s", result->degraded[i]);
        for (size_t i = 0; i < result->file_count; i++) {
                if (result->files[i].reason)
                        log_warning("not brought back: %s: %s", result->files[i].name,
                                    result->files[i].reason);
        }
        if (result->reason == EXEC_DEADLINE)
                log_error("killed at the deadline of %lld s", (long long)result->limits.timeout_seconds);
        else if (result->reason == EXEC_MEMORY)
                log_error(
                        "killed at the memory limit of %lld MB (files in /workspace and /tmp count; so do more than 4,096 sockets or locks of files)",
                        (long long)result->limits.memory_mb);
        else if (result->reason == EXEC_INTERRUPTED)
                log_error("interrupted: everything in the sandbox was killed");
}

struct ahead {
        const struct provider_ops *ops; /* NULL: nothing was started */
        struct exec_ahead *started;
};

static void end_ahead(struct ahead *ahead) {
        if (ahead->ops)
                ahead->ops->exec_ahead_end(ahead->started);
}

/*
 * The manifests name the provider, and this start is made before they are loaded: the provider that
 * can run code at all begins. If the Stack then names another, or is full of mistakes, the start
 * was in vain. A launcher has workers of its own.
 */
static void start_ahead(const struct options *options, struct arena *arena, struct ahead *ret) {
        for (size_t i = 0; i < session_registry.count && !ret->ops && !options->launcher; i++) {
                const struct provider_ops *ops = session_registry.providers[i];

                if (!ops->exec_ahead || (options->provider && strcmp(options->provider, ops->name) != 0))
                        continue;
                ret->ops = ops;
                ret->started = ops->exec_ahead(arena);
        }
}

/*
 * From the command line to the end of the run. What can be wrong with the arguments alone is found before the manifests are
 * read; interrupts end this program at once until they are, and the run after that.
 */
static int run_program(const struct options *options, struct session *session, struct program *program,
                       struct exec_result *ret, struct error *err) {
        struct exec_request request = {
                .environment = options->environment,
                .agent = options->agent,
                .out = options->out,
                .out_over = options->out_over,
                .out_dot = options->out_dot,
                .out_exec = options->out_exec,
                .deadline_ms = (int64_t)options->timeout_s * 1000,
                .accept_degraded = options->accept_degraded,
                .launcher = options->launcher,
                .interrupt = interrupt_of_user(),
                .capture = options->json,
                .output = options->json ? -1 : STDOUT_FILENO,
                .errors = options->json ? -1 : STDERR_FILENO,
        };
        struct ahead ahead __attribute__((cleanup(end_ahead))) = { NULL, NULL };

        if (!options->environment && !options->agent)
                return error_set(err,
                                 "berth exec needs --env ENV, or --agent NAME for that agent's environment%s",
                                 options->operand_count > 1
                                         ? ": before FILE, since what stands behind it is the program's"
                                         : "");
        read_files(options, session->arena, &request);
        if (read_program(options, session->arena, program, err) < 0)
                return -1;
        start_ahead(options, session->arena, &ahead);
        /* Not before (cli/main.c), and before the manifests: what their patterns are matched with heeds it. */
        setlocale(LC_CTYPE, "");
        request.ahead = ahead.started;
        if (session_load(session, options, true, err) < 0)
                return -1;
        interrupt_install();
        interrupt_on_hangup();
        if (session_open_provider(session, options, err) < 0)
                return -1;
        if (!session->provider_ops->exec)
                return error_set(err, "the provider %s cannot run code from here; --provider local can",
                                 session->provider_ops->name);
        request.language = program->language;
        request.code_name = program->name;
        request.code = strbuf_text(&program->code);
        request.code_length = program->code.length;
        request.arguments = program->arguments;
        request.argument_count = program->argument_count;
        request.input = usable_input(program);
        return session->provider_ops->exec(session->provider, &request, session->arena, ret, err);
}

int verb_exec(const struct options *options, struct error *err) {
        struct session session SESSION_CLEANUP;
        struct program program = { .code = STRBUF_INIT };
        struct exec_result result;
        bool failed;
        int code;

        session_init(&session);
        failed = run_program(options, &session, &program, &result, err) < 0;
        interrupt_only_printing_left();
        if (failed) {
                log_error("%s", err->message);
                code = EXIT_EXEC_FAILED;
        } else {
                if (options->json)
                        print_json(exec_result_json(&result));
                report_result(&result);
                code = result.exit_code;
        }
        strbuf_release(&program.code);
        return code;
}
