/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The containers of a running server, asked over its socket. A container is named by its id, or by its name, where only one agent of the
 * caller's has one of that name.
 *
 * `run` and `exec` pass on how the program ended, as `berth exec` does; `run` follows what is printed, and stops the container when its user
 * says so.
 */
#include "base/clock.h"
#include "base/files.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "base/suggest.h"
#include "base/terminal.h"
#include "base/text_utf8.h"
#include "cli/commands.h"
#include "cli/sessions.h"
#include "cli/verbs.h"
#include "client/shown.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MANY 1000
#define PORT_MAX 65535

#define EXIT_DEADLINE 124
#define EXIT_INTERRUPTED 130
#define EXIT_KILLED 137

static const char *or_dash(const char *text) {
        return text ? text : "-";
}

/* --- which one --- */

static bool is_container_id(const char *text) {
        char as_session[CLIENT_ID_LENGTH + 1];

        if (strlen(text) != CLIENT_ID_LENGTH || text[0] != 'c')
                return false;
        memcpy(as_session, text, sizeof(as_session));
        as_session[0] = 's';
        return client_is_id(as_session);
}

static bool is_own_container(const json_t *container) {
        const char *owner = json_text(container, "owner");
        char own[32];

        snprintf(own, sizeof(own), "uid:%u", (unsigned)geteuid());
        return owner && strcmp(owner, own) == 0;
}

/* The path of the one that is named, with `rest` behind it. */
static int find_container(struct sessions *sessions, const char *named, const char *rest, const char **ret,
                          struct error *err) {
        struct arena *arena = sessions->session.arena;
        struct strbuf query STRBUF_CLEANUP = STRBUF_INIT;
        json_t *list JSON_CLEANUP = NULL, *container;
        const char *id = is_container_id(named) ? named : NULL;
        size_t index;

        if (!id) {
                sessions_append_filter(&query, "name", named);
                sessions_append_filter(&query, "agent", sessions->options->agent);
                if (sessions_list(sessions, "/v1/containers", strbuf_text(&query), &list, err) < 0)
                        return -1;
        }
        json_array_foreach (list, index, container) {
                const char *found = json_text(container, "id");

                if (!is_own_container(container) || !found || !is_container_id(found))
                        continue;
                if (id)
                        return error_set(err, "several agents have a container %s: say which with --agent",
                                         named);
                id = found;
        }
        if (!id)
                return error_set_kind(err, ERROR_NOT_FOUND,
                                      "there is no container %s: berth containers list shows those there are",
                                      named);
        *ret = arena_printf(arena, "/v1/containers/%s%s", id, rest);
        return 0;
}

/* --- shown --- */

static void print_container(const json_t *container) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        const char *time = json_text(container, "startedAt"), *reason = json_text(container, "reason");
        int64_t time_ms = clock_parse(time);
        int used = CLIENT_ID_LENGTH + 2 + 8 + 2 + 9 + 2 + 7 + 2;
        char span[32] = "-";

        if (time_ms >= 0)
                clock_format_span(clock_wall_ms() - time_ms, span, sizeof(span));
        terminal_print_safe(stdout, or_dash(json_text(container, "id")));
        strbuf_printf(&text, "  %-8.8s  %-9.9s  %-7s  ", or_dash(json_text(container, "status")),
                      or_dash(json_text(container, "type")), span);
        terminal_print_safe(stdout, strbuf_text(&text));
        strbuf_clear(&text);
        if (json_text(container, "name"))
                strbuf_printf(&text, "%s, ", json_text(container, "name"));
        strbuf_printf(&text, "agent %s", or_dash(json_text(container, "agent")));
        if (json_is_integer(json_object_get(container, "exitCode")))
                strbuf_printf(&text, ", exit code %lld",
                              (long long)json_integer_or(container, "exitCode", 0));
        if (reason && strcmp(reason, "exited") != 0 && strcmp(reason, "stopped") != 0)
                strbuf_printf(&text, ", %s", reason);
        if (!is_own_container(container))
                strbuf_printf(&text, ", of %s", or_dash(json_text(container, "owner")));
        terminal_print_line(stdout, strbuf_text(&text), used, used);
}

static int run_list(struct sessions *sessions, const char *const *operands, size_t count, struct error *err) {
        struct strbuf query STRBUF_CLEANUP = STRBUF_INIT;
        json_t *list, *container;
        size_t index;

        (void)operands;
        (void)count;
        sessions_append_filter(&query, "status", sessions->options->status);
        sessions_append_filter(&query, "agent", sessions->options->agent);
        sessions_append_filter(&query, "name", sessions->options->name);
        if (sessions_list(sessions, "/v1/containers", strbuf_text(&query), &list, err) < 0)
                return -1;
        if (sessions->options->json) {
                print_json(list);
                return EXIT_DONE;
        }
        if (json_array_size(list) == 0)
                fputs("There is no container.\n", stderr);
        else
                printf("%s%-*s  %-8s  %-9s  %-7s  %s%s\n", terminal_style(stdout, STYLE_BOLD),
                       CLIENT_ID_LENGTH, "CONTAINER", "STATUS", "TYPE", "STARTED", "NAME",
                       terminal_style(stdout, STYLE_PLAIN));
        json_array_foreach (list, index, container)
                print_container(container);
        json_decref(list);
        return EXIT_DONE;
}

/* --- what they use --- */

#define STATS_MS 2000

/* "37 %", "1.5 s", "12.3 MiB", or a dash. */
static void print_resources(const json_t *container) {
        const json_t *usage = json_object_get(container, "usage"),
                     *share = json_object_get(usage, "cpuPercent");
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        char cpu[24] = "-", percent[24] = "-", memory[24] = "-", peak[24] = "-";

        if (json_is_integer(share))
                snprintf(percent, sizeof(percent), "%lld %%", (long long)json_integer_value(share));
        if (json_is_object(usage)) {
                snprintf(cpu, sizeof(cpu), "%.1f s", (double)json_integer_or(usage, "cpuMs", 0) / 1000);
                snprintf(memory, sizeof(memory), "%.1f MiB",
                         (double)json_integer_or(usage, "memoryBytes", 0) / 1048576);
        }
        if (json_integer_or(usage, "peakMemoryBytes", 0) > 0)
                snprintf(peak, sizeof(peak), "%.1f MiB",
                         (double)json_integer_or(usage, "peakMemoryBytes", 0) / 1048576);
        strbuf_printf(&text, "%-*s  %-8.8s  %6s  %9s  %11s  %11s  ", CLIENT_ID_LENGTH,
                      or_dash(json_text(container, "id")), or_dash(json_text(container, "status")), percent,
                      cpu, memory, peak);
        if (json_text(container, "name"))
                strbuf_printf(&text, "%s, ", json_text(container, "name"));
        strbuf_printf(&text, "agent %s", or_dash(json_text(container, "agent")));
        terminal_print_line(stdout, strbuf_text(&text), 0, 0);
}

/* Those that run, or those that are named, as they are now. */
static int read_stats(struct sessions *sessions, const char *const *paths, size_t count, json_t **ret,
                      struct error *err) {
        struct strbuf query STRBUF_CLEANUP = STRBUF_INIT;
        json_t *list, *container;

        if (count == 0) {
                sessions_append_filter(&query, "status", "running");
                sessions_append_filter(&query, "agent", sessions->options->agent);
                return sessions_list(sessions, "/v1/containers", strbuf_text(&query), ret, err);
        }
        list = json_checked(json_array());
        for (size_t i = 0; i < count; i++) {
                if (sessions_ask(sessions, "GET", paths[i], NULL, &container, err) < 0) {
                        json_decref(list);
                        return -1;
                }
                json_add(list, container);
        }
        *ret = list;
        return 0;
}

static void print_stats(const json_t *list, bool again) {
        const json_t *container;
        size_t index;

        /* The table stands where it stood. */
        if (again && isatty(STDOUT_FILENO) == 1)
                fputs("\033[H\033[J", stdout);
        if (json_array_size(list) == 0)
                fputs("No container runs.\n", stderr);
        else
                printf("%s%-*s  %-8s  %6s  %9s  %11s  %11s  %s%s\n", terminal_style(stdout, STYLE_BOLD),
                       CLIENT_ID_LENGTH, "CONTAINER", "STATUS", "CPU", "CPU TIME", "MEMORY", "PEAK", "NAME",
                       terminal_style(stdout, STYLE_PLAIN));
        json_array_foreach (list, index, container)
                print_resources(container);
        (void)fflush(stdout);
}

static bool is_interrupted_within(int wait_ms) {
        struct pollfd polled = { .fd = interrupt_descriptor(interrupt_of_user(), INTERRUPT_NOW),
                                 .events = POLLIN };

        (void)poll(&polled, 1, wait_ms);
        return interrupt_level(interrupt_of_user()) != INTERRUPT_NONE;
}

static int run_stats(struct sessions *sessions, const char *const *operands, size_t count,
                     struct error *err) {
        const struct options *options = sessions->options;
        const char **paths = arena_array(sessions->session.arena, count + 1, sizeof(*paths));

        for (size_t i = 0; i < count; i++) {
                if (find_container(sessions, operands[i], "", &paths[i], err) < 0)
                        return -1;
        }
        if (options->follow)
                interrupt_install_at_once();
        for (bool again = false;; again = true) {
                json_t *list = NULL;

                if (read_stats(sessions, paths, count, &list, err) < 0)
                        return -1;
                if (options->json)
                        print_json(list);
                else {
                        print_stats(list, again || options->follow);
                        json_decref(list);
                }
                if (!options->follow || ferror(stdout) || is_interrupted_within(STATS_MS))
                        return EXIT_DONE;
        }
}

/* --- what one prints --- */

struct printing {
        struct strbuf line; /* of JSON, as far as it has come */
        struct shown output, errors;
        int failure;
};

static bool print_bytes(int descriptor, struct shown *shown, const char *bytes, size_t length) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        if (shown->is_terminal) {
                shown_append(shown, bytes, length, &text);
                bytes = strbuf_text(&text);
                length = text.length;
        }
        return descriptor_write(descriptor, bytes, length) == 0;
}

/* {at, stream, text, partial}: each where its stream belongs. */
static bool print_line(struct printing *printing, const char *text, size_t length) {
        /* The output may have a NUL in it. */
        json_t *line JSON_CLEANUP = json_loadb(text, length, JSON_ALLOW_NUL, NULL);
        const json_t *printed = json_object_get(line, "text");
        const char *stream = json_text(line, "stream");
        bool errors = !stream || strcmp(stream, "stdout") != 0;
        struct shown *shown = errors ? &printing->errors : &printing->output;
        int descriptor = errors ? STDERR_FILENO : STDOUT_FILENO;

        return !json_is_string(printed) ||
               (print_bytes(descriptor, shown, json_string_value(printed), json_string_length(printed)) &&
                (json_is_true(json_object_get(line, "partial")) || print_bytes(descriptor, shown, "\n", 1)));
}

static bool take_lines(void *context, const char *bytes, size_t length) {
        struct printing *printing = context;
        const char *newline;

        while (length > 0 && (newline = memchr(bytes, '\n', length))) {
                strbuf_append_bytes(&printing->line, bytes, (size_t)(newline - bytes));
                if (!print_line(printing, strbuf_text(&printing->line), printing->line.length)) {
                        printing->failure = errno;
                        return false;
                }
                strbuf_clear(&printing->line);
                length -= (size_t)(newline + 1 - bytes);
                bytes = newline + 1;
        }
        strbuf_append_bytes(&printing->line, bytes, length);
        return true;
}

static int print_log(struct sessions *sessions, const char *path, struct error *err) {
        struct printing printing = { .line = STRBUF_INIT };
        const struct client_call call = { .method = "GET",
                                          .path = path,
                                          .accept = "application/jsonl",
                                          .interrupt = interrupt_of_user(),
                                          .sink = take_lines,
                                          .context = &printing };
        int result;

        printing.output.is_terminal = isatty(STDOUT_FILENO) == 1;
        printing.errors.is_terminal = isatty(STDERR_FILENO) == 1;
        result = client_ask(sessions->client, &call, NULL, err);
        strbuf_release(&printing.line);
        if (result < 0 && printing.failure)
                return printing.failure == EPIPE ? EXIT_DONE
                                                 : error_set(err, "cannot write what it printed: %s",
                                                             strerror(printing.failure));
        return result;
}

static int run_logs(struct sessions *sessions, const char *const *operands, size_t count, struct error *err) {
        const struct options *options = sessions->options;
        struct strbuf query STRBUF_CLEANUP = STRBUF_INIT;
        const char *path;

        (void)count;
        if (options->follow)
                sessions_append_filter(&query, "follow", "true");
        sessions_append_filter(&query, "tail", options->tail);
        sessions_append_filter(&query, "since", options->since);
        if (find_container(sessions, operands[0],
                           arena_printf(sessions->session.arena, "/logs%s", strbuf_text(&query)), &path,
                           err) < 0)
                return -1;
        interrupt_install_at_once();
        return print_log(sessions, path, err) < 0 ? -1 : EXIT_DONE;
}

/* --- made --- */

static json_t *command_of(const char *const *operands, size_t count) {
        json_t *command = json_checked(json_array());

        for (size_t i = 0; i < count; i++)
                json_add(command, json_string(operands[i]));
        return command;
}

/* Code by -c, or a command behind the options. */
static int add_program(const struct options *options, const char *const *operands, size_t count, json_t *body,
                       struct error *err) {
        size_t ignored;

        if (!options->code == (count == 0))
                return error_set(err, "give a command, behind --, or code with -c: one of them");
        if (options->language && !options->code)
                return error_set(err, "--lang names the language of the code of -c, which is missing");
        for (size_t i = 0; i < count; i++) {
                if (!text_is_utf8(operands[i], strlen(operands[i]), &ignored))
                        return error_set(err, "the command is no UTF-8");
        }
        if (options->code && !text_is_utf8(options->code, strlen(options->code), &ignored))
                return error_set(err, "the code is no UTF-8");
        if (options->code)
                json_put(body, "code", json_string(options->code));
        else
                json_put(body, "command", command_of(operands, count));
        json_set_text(body, "language", options->language);
        if (options->variable_count > 0)
                json_put(body, "variables", sessions_pairs(options->variables, options->variable_count));
        return 0;
}

/* As a program's exit code: 124, 125, 130 and 137 are for what ended it instead. */
static int exit_code_of_container(const json_t *container) {
        const char *reason = json_text(container, "reason"), *detail = json_text(container, "detail");

        if (json_is_integer(json_object_get(container, "exitCode")))
                return (int)json_integer_or(container, "exitCode", 0);
        log_error("the container has ended: %s%s%s", reason ? reason : "nobody knows how", detail ? ": " : "",
                  detail ? detail : "");
        return !reason                                  ? EXIT_EXEC_FAILED
               : strcmp(reason, "deadline") == 0        ? EXIT_DEADLINE
               : strcmp(reason, "stopped") == 0         ? EXIT_INTERRUPTED
               : strcmp(reason, "could-not-start") == 0 ? EXIT_EXEC_FAILED
                                                        : EXIT_KILLED;
}

/* Prints the container's output to its end, and how it ended. An interrupt stops the container. */
static int follow_output(struct sessions *sessions, const char *id, struct error *err) {
        struct arena *arena = sessions->session.arena;
        const char *path = arena_printf(arena, "/v1/containers/%s", id);
        json_t *container JSON_CLEANUP = NULL;
        struct error interrupted = { 0 };

        interrupt_install_at_once();
        if (print_log(sessions, arena_printf(arena, "%s/logs?follow=true", path), &interrupted) < 0 &&
            interrupted.kind != ERROR_INTERRUPTED) {
                *err = interrupted;
                return -1;
        }
        if (interrupted.kind == ERROR_INTERRUPTED &&
            sessions_ask(sessions, "POST", arena_printf(arena, "%s/stop", path), json_object(), NULL, err) <
                    0)
                return -1;
        if (sessions_ask(sessions, "GET", path, NULL, &container, err) < 0)
                return -1;
        return exit_code_of_container(container);
}

/* 5432, or 5432:15432 with a port of this machine. */
static int add_ports(const struct options *options, json_t *body, struct error *err) {
        json_t *ports = options->port_count > 0 ? json_checked(json_array()) : NULL;

        for (size_t i = 0; i < options->port_count; i++) {
                char *end;
                long port = strtol(options->ports[i], &end, 10), exposed = *end == ':' ? -1 : 0;
                json_t *item = json_checked(json_object());

                if (*end == ':' && end[1] >= '0' && end[1] <= '9') {
                        exposed = strtol(end + 1, &end, 10);
                        json_put(item, "expose", json_integer(exposed));
                }
                json_put(item, "port", json_integer(port));
                json_add(ports, item);
                if (*end || options->ports[i][0] < '0' || options->ports[i][0] > '9' || port < 1 ||
                    port > PORT_MAX || exposed < 0 || exposed > PORT_MAX) {
                        json_decref(ports);
                        return error_set(err, "--port takes PORT or PORT:HOSTPORT, of 1 to %d, found %s",
                                         PORT_MAX, options->ports[i]);
                }
        }
        if (ports)
                json_put(body, "ports", ports);
        return 0;
}

static int run_run(struct sessions *sessions, const char *const *operands, size_t count, struct error *err) {
        const struct options *options = sessions->options;
        json_t *body = json_checked(json_object()), *container JSON_CLEANUP = NULL;
        const char *id;

        if (!options->agent || add_program(options, operands, count, body, err) < 0) {
                json_decref(body);
                return options->agent ? -1 : error_set(err, "say for which agent it is, with --agent");
        }
        json_set_text(body, "agent", options->agent);
        json_set_text(body, "name", options->name);
        json_set_text(body, "restart", options->restart);
        json_put(body, "type", json_string(options->service ? "service" : "temporary"));
        if (add_ports(options, body, err) < 0) {
                json_decref(body);
                return -1;
        }
        if (options->timeout_s)
                json_put(body, "timeoutSeconds", json_integer(options->timeout_s));
        if (sessions_ask(sessions, "POST", "/v1/containers", body, &container, err) < 0) {
                sessions_suggest(sessions, err);
                return -1;
        }
        id = json_text(container, "id");
        if (!id || !is_container_id(id))
                return error_set(err, "the server has answered without an id");
        if (options->json) {
                print_json(json_incref(container));
                return EXIT_DONE;
        }
        if (!options->service)
                return follow_output(sessions, id, err);
        /* Alone on its line, for C=$(berth containers run --service ...). */
        puts(id);
        return EXIT_DONE;
}

/* --- more that runs in one --- */

static bool print_stream(int descriptor, const json_t *result, const char *name) {
        const char *content = json_text(json_object_get(result, name), "content");
        struct shown shown = { .is_terminal = isatty(descriptor) == 1 };

        return !content || print_bytes(descriptor, &shown, content, strlen(content));
}

static int run_exec(struct sessions *sessions, const char *const *operands, size_t count, struct error *err) {
        const struct options *options = sessions->options;
        json_t *body = json_checked(json_object()), *result JSON_CLEANUP = NULL;
        struct shown shown = { .is_terminal = isatty(STDOUT_FILENO) == 1 };
        const char *path, *status, *text;

        if (find_container(sessions, operands[0], "/exec", &path, err) < 0 ||
            add_program(options, operands + 1, count - 1, body, err) < 0) {
                json_decref(body);
                return -1;
        }
        if (options->timeout_s)
                json_put(body, "timeoutSeconds", json_integer(options->timeout_s));
        if (sessions_input(body, err) < 0) {
                json_decref(body);
                return -1;
        }
        if (sessions_ask(sessions, "POST", path, body, &result, err) < 0)
                return -1;
        if (options->json) {
                print_json(json_incref(result));
                return EXIT_DONE;
        }
        if (!print_stream(STDOUT_FILENO, result, "stdout") || !print_stream(STDERR_FILENO, result, "stderr"))
                return error_set(err, "cannot write the result: %s", strerror(errno));
        text = json_text(json_object_get(result, "value"), "text");
        if (text && (!print_bytes(STDOUT_FILENO, &shown, text, strlen(text)) ||
                     !print_bytes(STDOUT_FILENO, &shown, "\n", 1)))
                return error_set(err, "cannot write the result: %s", strerror(errno));
        status = json_text(result, "status");
        if (json_text(result, "detail"))
                log_error("%s", json_text(result, "detail"));
        if (json_is_integer(json_object_get(result, "exitCode")))
                return (int)json_integer_or(result, "exitCode", 0);
        return status && strcmp(status, "timeout") == 0  ? EXIT_DEADLINE
               : status && strcmp(status, "failed") == 0 ? EXIT_EXEC_FAILED
                                                         : EXIT_KILLED;
}

/* --- stopped, started, removed --- */

static int order(struct sessions *sessions, const char *const *operands, size_t count, const char *method,
                 const char *rest, struct error *err) {
        for (size_t i = 0; i < count; i++) {
                json_t *body = strcmp(method, "POST") == 0 ? json_object() : NULL;
                const char *path;

                if (find_container(sessions, operands[i], rest, &path, err) < 0) {
                        json_decref(body);
                        return -1;
                }
                if (sessions_ask(sessions, method, path, body, NULL, err) < 0)
                        return error_context(err, "%s", operands[i]);
        }
        return EXIT_DONE;
}

static int run_stop(struct sessions *sessions, const char *const *operands, size_t count, struct error *err) {
        return order(sessions, operands, count, "POST", "/stop", err);
}

static int run_start(struct sessions *sessions, const char *const *operands, size_t count,
                     struct error *err) {
        return order(sessions, operands, count, "POST", "/start", err);
}

static int run_restart(struct sessions *sessions, const char *const *operands, size_t count,
                       struct error *err) {
        return order(sessions, operands, count, "POST", "/restart", err);
}

static int run_remove(struct sessions *sessions, const char *const *operands, size_t count,
                      struct error *err) {
        return order(sessions, operands, count, "DELETE", "", err);
}

/* --- the table --- */

static const struct command {
        const char *name;
        size_t least, most; /* operands behind its name */
        int (*run)(struct sessions *sessions, const char *const *operands, size_t count, struct error *err);
} commands[] = {
        { "list", 0, 0, run_list },          { "run", 0, MANY, run_run },   { "stats", 0, MANY, run_stats },
        { "logs", 1, 1, run_logs },          { "stop", 1, MANY, run_stop }, { "start", 1, MANY, run_start },
        { "restart", 1, MANY, run_restart }, { "rm", 1, MANY, run_remove }, { "exec", 1, MANY, run_exec },
};
#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

int verb_containers(const struct options *options, struct error *err) {
        struct sessions sessions SESSIONS_CLEANUP = { 0 };
        const struct command *command = NULL;
        int code;

        command = suggest_row("berth containers", options->operands[0], commands, COMMAND_COUNT,
                              sizeof(*commands), err);
        if (!command)
                return -1;
        code = commands_check_operands("containers", options, command->least, command->most, err) < 0 ||
                               sessions_open(&sessions, options, err) < 0
                       ? -1
                       : command->run(&sessions, options->operands + 1, options->operand_count - 1, err);
        /* Its codes are a program's, and so 1 is not for its own failure. */
        if (code < 0 && options->command->is_program) {
                log_error("%s", err->message);
                return EXIT_EXEC_FAILED;
        }
        return code;
}
