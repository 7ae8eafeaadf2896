/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sessions of a running server, asked over its socket. What runs code or moves files has a file of its own (sessions_run.c,
 * sessions_files.c); here are the table of commands, and what shows and ends sessions.
 */
#include "base/clock.h"
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

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MANY 1000
#define LABEL_COLUMN 15
#define EXECUTION_COLUMNS 38 /* of a line of history, before what it came to */

static const char *or_dash(const char *text) {
        return text ? text : "-";
}

/* --- shown --- */

static int print_or_json(const struct sessions *sessions, json_t *json, void (*print)(const json_t *json)) {
        if (sessions->options->json)
                print_json(json);
        else {
                print(json);
                json_decref(json);
        }
        return EXIT_DONE;
}

static void print_member(const char *label, const char *text) {
        printf("  %-*s ", LABEL_COLUMN - 3, label);
        terminal_print_wrapped(stdout, or_dash(text), LABEL_COLUMN, LABEL_COLUMN);
}

/* "in 3 min", "3 min ago" with the time itself. */
static void print_time(const char *label, const char *time) {
        int64_t time_ms = clock_parse(time), now_ms = clock_wall_ms();
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        char span[32];

        clock_format_span(time_ms > now_ms ? time_ms - now_ms : now_ms - time_ms, span, sizeof(span));
        if (time_ms >= 0)
                strbuf_printf(&text, "%s (%s%s%s)", time, time_ms > now_ms ? "in " : "", span,
                              time_ms > now_ms ? "" : " ago");
        print_member(label, time_ms < 0 ? "-" : strbuf_text(&text));
}

static void print_session(const json_t *session) {
        struct strbuf labels STRBUF_CLEANUP = STRBUF_INIT;
        char status[64] = "";
        const char *name;
        json_t *value;

        json_object_foreach (json_object_get(session, "labels"), name, value)
                strbuf_printf(&labels, "%s%s=%s", labels.length ? ", " : "", name,
                              json_string_value(value) ? json_string_value(value) : "");
        printf("%s", terminal_style(stdout, STYLE_BOLD));
        terminal_print_safe(stdout, or_dash(json_text(session, "id")));
        printf("%s\n", terminal_style(stdout, STYLE_PLAIN));
        if (json_integer_or(session, "queuePosition", 0) > 0)
                snprintf(status, sizeof(status), "queued, number %lld in line",
                         (long long)json_integer_or(session, "queuePosition", 0));
        print_member("status", status[0] ? status : json_text(session, "status"));
        print_member("environment", json_text(session, "environment"));
        if (json_text(session, "agent"))
                print_member("agent", json_text(session, "agent"));
        if (json_text(session, "conversation"))
                print_member("conversation", json_text(session, "conversation"));
        print_member("owner", json_text(session, "owner"));
        if (labels.length)
                print_member("labels", strbuf_text(&labels));
        print_time("created", json_text(session, "createdAt"));
        print_time("last active", json_text(session, "lastActiveAt"));
        print_time("ends", json_text(session, "expiresAt"));
}

static void span_of(const char *time, bool ahead, char *buffer, size_t size) {
        int64_t time_ms = clock_parse(time), now_ms = clock_wall_ms();

        if (time_ms < 0)
                snprintf(buffer, size, "-");
        else
                clock_format_span(ahead ? time_ms - now_ms : now_ms - time_ms, buffer, size);
}

/* A client on the socket may list every owner's sessions, and do nothing else with them. */
static bool is_of_others(const json_t *session) {
        const char *owner = json_text(session, "owner");
        char own[32];

        snprintf(own, sizeof(own), "uid:%u", (unsigned)geteuid());
        return owner && strcmp(owner, own) != 0;
}

/* The id has 28 columns, and the line 80; a long name of an environment comes last, where nothing stands behind it. */
static void print_session_row(const json_t *session) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        char active[32], left[32];
        int used = CLIENT_ID_LENGTH + 2 + 8 + 2 + 7 + 2 + 7 + 2;

        span_of(json_text(session, "lastActiveAt"), false, active, sizeof(active));
        span_of(json_text(session, "expiresAt"), true, left, sizeof(left));
        terminal_print_safe(stdout, or_dash(json_text(session, "id")));
        printf("  ");
        strbuf_printf(&text, "%.8s", or_dash(json_text(session, "status")));
        terminal_print_safe(stdout, strbuf_text(&text));
        printf("%*s  %-7s  %-7s  ", 8 - text_columns(strbuf_text(&text), text.length), "", active, left);
        strbuf_clear(&text);
        strbuf_append(&text, or_dash(json_text(session, "environment")));
        if (json_text(session, "agent"))
                strbuf_printf(&text, ", agent %s", json_text(session, "agent"));
        if (json_text(session, "conversation"))
                strbuf_printf(&text, ", conversation %s", json_text(session, "conversation"));
        if (is_of_others(session))
                strbuf_printf(&text, ", of %s", json_text(session, "owner"));
        terminal_print_line(stdout, strbuf_text(&text), used, used);
}

static void print_sessions(const json_t *list) {
        json_t *session;
        size_t i;

        if (json_array_size(list) == 0) {
                fputs("No session lives.\n", stderr);
                return;
        }
        printf("%s%-*s  %-8s  %-7s  %-7s  %s%s\n", terminal_style(stdout, STYLE_BOLD), CLIENT_ID_LENGTH,
               "SESSION", "STATUS", "ACTIVE", "ENDS IN", "ENVIRONMENT", terminal_style(stdout, STYLE_PLAIN));
        json_array_foreach (list, i, session)
                print_session_row(session);
}

/* The code's first line, and what went wrong with it. */
static const char *gist_of(const json_t *execution, struct strbuf *text) {
        const char *code = json_text(execution, "code"), *detail = json_text(execution, "detail"),
                   *wrong = json_text(json_object_get(execution, "error"), "name");

        code = code ? code + strspn(code, " \t\r\n") : "";
        strbuf_append_bytes(text, code, strcspn(code, "\r\n"));
        wrong = wrong ? wrong : detail;
        if (wrong)
                strbuf_printf(text, "%s-> %s", text->length ? " " : "", wrong);
        return strbuf_text(text);
}

static void print_executions(const json_t *list) {
        json_t *execution;
        size_t i;

        if (json_array_size(list) == 0) {
                fputs("Nothing was run in it yet.\n", stderr);
                return;
        }
        printf("%s%5s  %-11s  %4s  %9s  %s%s\n", terminal_style(stdout, STYLE_BOLD), "N", "STATUS", "EXIT",
               "TIME", "CODE", terminal_style(stdout, STYLE_PLAIN));
        json_array_foreach (list, i, execution) {
                const char *status = or_dash(json_text(execution, "status"));
                struct strbuf gist STRBUF_CLEANUP = STRBUF_INIT;
                char exit_code[24] = "-", wall[40] = "-";
                const json_t *usage = json_object_get(execution, "usage");

                if (json_is_integer(json_object_get(execution, "exitCode")))
                        snprintf(exit_code, sizeof(exit_code), "%" JSON_INTEGER_FORMAT,
                                 json_integer_or(execution, "exitCode", 0));
                if (json_is_integer(json_object_get(usage, "wallMs")))
                        snprintf(wall, sizeof(wall), "%" JSON_INTEGER_FORMAT " ms",
                                 json_integer_or(usage, "wallMs", 0));
                printf("%5" JSON_INTEGER_FORMAT "  ", json_integer_or(execution, "n", 0));
                terminal_print_safe(stdout, status);
                printf("%*s  %4s  %9s  ", strlen(status) < 11 ? (int)(11 - strlen(status)) : 0, "", exit_code,
                       wall);
                terminal_print_line(stdout, gist_of(execution, &gist), EXECUTION_COLUMNS, EXECUTION_COLUMNS);
        }
}

/* --- commands --- */

static int run_create(struct sessions *sessions, const char *const *operands, size_t count,
                      struct error *err) {
        json_t *session;
        bool made;

        (void)operands;
        (void)count;
        if (sessions_create(sessions, &session, &made, err) < 0)
                return -1;
        if (sessions->options->json) {
                print_json(session);
                return EXIT_DONE;
        }
        /* Alone on its line, for S=$(berth session create). */
        puts(json_text(session, "id"));
        json_decref(session);
        return EXIT_DONE;
}

static int run_list(struct sessions *sessions, const char *const *operands, size_t count, struct error *err) {
        const struct options *options = sessions->options;
        struct strbuf query STRBUF_CLEANUP = STRBUF_INIT;
        json_t *list;

        (void)operands;
        (void)count;
        sessions_append_filter(&query, "status", options->status);
        sessions_append_filter(&query, "environment", options->environment);
        sessions_append_filter(&query, "agent", options->agent);
        for (size_t i = 0; i < options->label_count; i++)
                sessions_append_filter(&query, "label", options->labels[i]);
        if (sessions_list(sessions, "/v1/sessions", strbuf_text(&query), &list, err) < 0)
                return -1;
        return print_or_json(sessions, list, print_sessions);
}

static const char *session_path(struct sessions *sessions, const char *id, const char *rest) {
        return arena_printf(sessions->session.arena, "/v1/sessions/%s%s", id, rest);
}

static int run_show(struct sessions *sessions, const char *const *operands, size_t count, struct error *err) {
        json_t *session;

        (void)count;
        if (sessions_ask(sessions, "GET", session_path(sessions, operands[0], ""), NULL, &session, err) < 0)
                return -1;
        return print_or_json(sessions, session, print_session);
}

/* What the server answers by a status alone: nothing is printed, as with any command that did what it was told. */
static int run_post(struct sessions *sessions, const char *path, json_t *body, struct error *err) {
        return sessions_ask(sessions, "POST", path, body, NULL, err) < 0 ? -1 : EXIT_DONE;
}

static json_int_t parse_positive(const char *text) {
        char *end;
        long long number = strtoll(text, &end, 10);

        return *text >= '1' && *text <= '9' && *end == '\0' ? (json_int_t)number : 0;
}

static int find_number(const char *text, json_int_t *ret, struct error *err) {
        *ret = parse_positive(text);
        return *ret > 0 ? 0
                        : error_set(err, "\"%s\" is no execution's number: berth session history lists them",
                                    text);
}

/* Without a number: what runs, and what waits behind it. */
static int run_interrupt(struct sessions *sessions, const char *const *operands, size_t count,
                         struct error *err) {
        json_t *list JSON_CLEANUP = NULL, *execution;
        size_t found = 0, i;
        json_int_t n = 0;

        if (count > 1 && find_number(operands[1], &n, err) < 0)
                return -1;
        if (n > 0)
                return run_post(sessions,
                                arena_printf(sessions->session.arena,
                                             "/v1/sessions/%s/executions/%" JSON_INTEGER_FORMAT "/interrupt",
                                             operands[0], n),
                                json_object(), err);
        if (sessions_list(sessions, session_path(sessions, operands[0], "/executions"), "", &list, err) < 0)
                return -1;
        /* From the last one on: one that waits must not begin in between. */
        for (i = json_array_size(list); i-- > 0;) {
                const char *status;

                execution = json_array_get(list, i);
                status = json_text(execution, "status");
                if (!status || (strcmp(status, "running") != 0 && strcmp(status, "queued") != 0))
                        continue;
                found++;
                if (run_post(sessions,
                             arena_printf(sessions->session.arena,
                                          "/v1/sessions/%s/executions/%" JSON_INTEGER_FORMAT "/interrupt",
                                          operands[0], json_integer_or(execution, "n", 0)),
                             json_object(), err) < 0)
                        return -1;
        }
        return found ? EXIT_DONE : error_set(err, "nothing runs in %s", operands[0]);
}

static int run_restart(struct sessions *sessions, const char *const *operands, size_t count,
                       struct error *err) {
        json_t *body = json_checked(json_object());

        (void)count;
        json_set_text(body, "context", sessions->options->context);
        return run_post(sessions, session_path(sessions, operands[0], "/restart"), body, err);
}

static int run_park(struct sessions *sessions, const char *const *operands, size_t count, struct error *err) {
        (void)count;
        return run_post(sessions, session_path(sessions, operands[0], "/park"), json_object(), err);
}

static int run_end(struct sessions *sessions, const char *const *operands, size_t count, struct error *err) {
        for (size_t i = 0; i < count; i++) {
                if (sessions_check_id(operands[i], err) < 0 ||
                    sessions_ask(sessions, "DELETE", session_path(sessions, operands[i], ""), NULL, NULL,
                                 err) < 0)
                        return i ? error_context(err, "%s", operands[i]) : -1;
        }
        return EXIT_DONE;
}

/* One execution is told again from its first event on, or followed where it still runs; Ctrl-C leaves it to itself. */
static int run_history(struct sessions *sessions, const char *const *operands, size_t count,
                       struct error *err) {
        json_int_t n = 0;
        json_t *list;

        if (count > 1) {
                if (find_number(operands[1], &n, err) < 0)
                        return -1;
                interrupt_install_at_once();
                return sessions_follow(sessions, operands[0], n, interrupt_of_user(), false, err);
        }
        if (sessions_list(sessions, session_path(sessions, operands[0], "/executions"), "", &list, err) < 0)
                return -1;
        return print_or_json(sessions, list, print_executions);
}

static const struct command {
        const char *name;
        size_t least, most; /* operands behind its name */
        bool names_session; /* its first operand is one */
        int (*run)(struct sessions *sessions, const char *const *operands, size_t count, struct error *err);
} commands[] = {
        { "create", 0, 0, false, run_create },      { "list", 0, 0, false, run_list },
        { "show", 1, 1, true, run_show },           { "run", 0, 2, false, NULL },
        { "interrupt", 1, 2, true, run_interrupt }, { "restart", 1, 1, true, run_restart },
        { "park", 1, 1, true, run_park },           { "end", 1, MANY, true, run_end },
        { "history", 1, 2, true, run_history },     { "files", 2, MANY, false, sessions_files },
};
#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

static int check_use(const struct options *options, const struct command *command, struct error *err) {
        if (commands_check_operands("session", options, command->least, command->most, err) < 0)
                return -1;
        return command->names_session ? sessions_check_id(options->operands[1], err) : 0;
}

int verb_session(const struct options *options, struct error *err) {
        struct sessions sessions SESSIONS_CLEANUP = { 0 };
        const struct command *command;

        command = suggest_row("berth session", options->operands[0], commands, COMMAND_COUNT,
                              sizeof(*commands), err);
        if (!command)
                return -1;
        /* Its codes are a program's, and so 1 is not for its own failure. */
        if (!command->run) {
                if (check_use(options, command, err) == 0)
                        return sessions_run(options, options->operands + 1, options->operand_count - 1);
                log_error("%s", err->message);
                return EXIT_EXEC_FAILED;
        }
        if (check_use(options, command, err) < 0 || sessions_open(&sessions, options, err) < 0)
                return -1;
        return command->run(&sessions, options->operands + 1, options->operand_count - 1, err);
}
