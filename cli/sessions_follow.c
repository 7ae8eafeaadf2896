/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One execution from its first event to its result. Its stream is read on this thread; another one waits for Ctrl-C, and asks the
 * server to interrupt the execution while the stream goes on: what the code still says, and how it ends, comes by the stream.
 *
 * All that is printed was written by untrusted code, or by a server that is trusted little: output
 * goes through client/shown.h, and our own messages through the log, which escapes what it is
 * given.
 */
#include "base/digest.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/sessions.h"
#include "client/events.h"
#include "client/shown.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXIT_DEADLINE 124
#define EXIT_KILLED 137
#define EXIT_INTERRUPTED 130
#define NAMES_SHOWN 10

struct following {
        struct sessions *sessions;
        const char *id;
        json_int_t n;
        struct events events;
        struct shown output, errors;
        int unwritten; /* errno of what could not be written to standard output; from then on nothing is */
        json_t *result;
        struct interrupt over; /* the execution has ended, or is no longer followed */
        struct interrupt *interrupt;
};

/* --- what code said --- */

/* A reader who went away (`| head`) ends a program by SIGPIPE; here it is told to stop, and its end is waited for. */
static void print_bytes(struct following *following, bool errors, const char *bytes, size_t length) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        FILE *stream = errors ? stderr : stdout;

        if (following->unwritten && !errors)
                return;
        shown_append(errors ? &following->errors : &following->output, bytes, length, &text);
        if (fwrite(strbuf_text(&text), 1, text.length, stream) == text.length && fflush(stream) == 0)
                return;
        if (errors)
                return;
        following->unwritten = errno;
        if (errno == EPIPE)
                interrupt_raise_to(following->interrupt, INTERRUPT_FINISH);
}

static void end_lines(struct following *following) {
        struct strbuf output STRBUF_CLEANUP = STRBUF_INIT, errors STRBUF_CLEANUP = STRBUF_INIT;

        /* A file gets what was written and no byte more. */
        if (following->output.is_terminal && !following->unwritten) {
                shown_end_line(&following->output, &output);
                fputs(strbuf_text(&output), stdout);
                fflush(stdout);
        }
        if (following->errors.is_terminal) {
                shown_end_line(&following->errors, &errors);
                fputs(strbuf_text(&errors), stderr);
        }
}

/* {text} or, where the bytes are no UTF-8, {contentBase64}. */
static void print_output(struct following *following, bool errors, const json_t *data) {
        const json_t *text = json_object_get(data, "text"), *encoded = json_object_get(data, "contentBase64");
        ssize_t length;
        char *bytes;

        if (json_is_string(text)) {
                print_bytes(following, errors, json_string_value(text), json_string_length(text));
                return;
        }
        if (!json_is_string(encoded))
                return;
        bytes = malloc(json_string_length(encoded) + 1);
        if (!bytes)
                abort();
        length =
                digest_from_base64(json_string_value(encoded), json_string_length(encoded), (uint8_t *)bytes);
        if (length > 0)
                print_bytes(following, errors, bytes, (size_t)length);
        free(bytes);
}

static void report_gap(struct following *following, const char *stream, const json_t *gap) {
        json_int_t bytes = json_integer_or(gap, "bytes", 0);

        if (bytes <= 0)
                return;
        end_lines(following);
        log_warning("%" JSON_INTEGER_FORMAT " bytes of %s are not kept, and missing here", bytes,
                    strcmp(stream, "stderr") == 0 ? "standard error" : "standard output");
}

/* A text of its own, which ends with a line's end. */
static void print_block(struct following *following, bool errors, const char *text) {
        size_t length = strlen(text);

        if (!errors && following->output.inside_line)
                print_bytes(following, false, "\n", 1);
        if (errors && following->errors.inside_line)
                print_bytes(following, true, "\n", 1);
        print_bytes(following, errors, text, length);
        if (length > 0 && text[length - 1] != '\n')
                print_bytes(following, errors, "\n", 1);
}

/*
 * A figure is a file of the workspace, whose path is shown; a text is printed as it is. Any other
 * kind, such as HTML alone, is named. Of the last expression's value the text comes with the
 * result.
 */
static void print_display(struct following *following, const json_t *data) {
        const json_t *mime = json_object_get(data, "mime");
        const char *file = json_text(data, "file"), *type = NULL, *first = NULL,
                   *text = json_text(mime, "text/markdown");
        json_t *content;

        json_object_foreach ((json_t *)mime, type, content) {
                if (!first || text_begins_with(type, "image/"))
                        first = type;
        }
        if (!text)
                text = json_text(mime, "text/plain");
        if (file)
                log_info("figure: %s (%s)", file, first ? first : "of no type");
        else if (json_is_true(json_object_get(data, "main")))
                return;
        else if (text)
                print_block(following, false, text);
        else if (first)
                log_info("display: %s, which a terminal cannot show: --json has it", first);
}

/* --- what became of its variables --- */

static void append_names(const json_t *list, struct strbuf *to) {
        json_t *item;
        size_t i;

        json_array_foreach (list, i, item) {
                const char *name = json_is_string(item) ? json_string_value(item) : json_text(item, "name"),
                           *why = json_text(item, "why");

                if (i == NAMES_SHOWN) {
                        strbuf_printf(to, " and %zu more", json_array_size(list) - i);
                        break;
                }
                strbuf_printf(to, "%s%s", i ? ", " : "", name ? name : "?");
                if (why)
                        strbuf_printf(to, " (%s)", why);
        }
}

/* One line: a caller that believes its variables are there must not find out by a NameError. */
static void report_state(const json_t *state) {
        const char *was = json_text(state, "was"), *reason = json_text(state, "reason");
        struct strbuf names STRBUF_CLEANUP = STRBUF_INIT, lost STRBUF_CLEANUP = STRBUF_INIT;

        if (!was || (strcmp(was, "lost") != 0 && strcmp(was, "restored") != 0))
                return;
        append_names(json_object_get(state, "restored"), &names);
        append_names(json_object_get(state, "lost"), &lost);
        if (strcmp(was, "lost") == 0)
                log_warning("the session's variables are lost%s%s", reason ? ": " : "", reason ? reason : "");
        else
                log_warning("the session's variables are restored%s%s%s%s%s%s%s", reason ? " (" : "",
                            reason ? reason : "", reason ? ")" : "", names.length ? ": " : "",
                            strbuf_text(&names), lost.length ? "; lost: " : "", strbuf_text(&lost));
}

/* --- events --- */

static bool tell_event(void *context, const char *name, const char *text, size_t length) {
        struct following *following = context;
        json_t *data JSON_CLEANUP = json_loadb(text, length, JSON_ALLOW_NUL, NULL);
        bool quiet = following->sessions->options->json;

        if (!json_is_object(data))
                return true;
        if (strcmp(name, "done") == 0) {
                json_decref(following->result);
                following->result = json_incref(data);
                json_object_del(data, "event"); /* the result, as other answers have it */
        } else if (quiet) {
                return true;
        } else if (strcmp(name, "started") == 0) {
                report_state(json_object_get(data, "state"));
        } else if (strcmp(name, "stdout") == 0 || strcmp(name, "stderr") == 0) {
                print_output(following, strcmp(name, "stderr") == 0, data);
                report_gap(following, name, json_object_get(data, "gap"));
        } else if (strcmp(name, "gap") == 0 && json_text(data, "stream")) {
                report_gap(following, json_text(data, "stream"), data);
        } else if (strcmp(name, "display") == 0) {
                print_display(following, data);
        }
        return true;
}

static bool take_events(void *context, const char *bytes, size_t length) {
        struct following *following = context;

        return events_take(&following->events, bytes, length, tell_event, following);
}

/* --- Ctrl-C --- */

static void *interrupt_it(void *opaque) {
        struct following *following = opaque;
        struct pollfd waits[2] = {
                { .fd = interrupt_descriptor(following->interrupt, INTERRUPT_FINISH), .events = POLLIN },
                { .fd = interrupt_descriptor(&following->over, INTERRUPT_FINISH), .events = POLLIN },
        };
        struct strbuf path STRBUF_CLEANUP = STRBUF_INIT;
        json_t *body JSON_CLEANUP = json_checked(json_object());
        struct client_call call = { .method = "POST", .body = body, .interrupt = &following->over };
        struct error err;

        while (poll(waits, 2, -1) < 0 && errno == EINTR)
                continue;
        if (waits[1].revents)
                return NULL;
        strbuf_printf(&path, "/v1/sessions/%s/executions/%" JSON_INTEGER_FORMAT "/interrupt", following->id,
                      following->n);
        call.path = strbuf_text(&path);
        /* That it has ended meanwhile is no error, and its result is on its way. */
        if (client_ask(following->sessions->client, &call, NULL, &err) < 0)
                log_debug("cannot interrupt it: %s", err.message);
        else
                log_info("interrupting; press Ctrl-C again to stop waiting (the code goes on)");
        return NULL;
}

/* --- its end --- */

static void print_traceback(struct following *following, const json_t *error) {
        const json_t *lines = json_object_get(error, "traceback");
        const char *name = json_text(error, "name"), *value = json_text(error, "value");
        struct strbuf last STRBUF_CLEANUP = STRBUF_INIT;
        size_t count = json_array_size(lines);

        while (count > 0 && !*(json_string_value(json_array_get(lines, count - 1))
                                       ? json_string_value(json_array_get(lines, count - 1))
                                       : ""))
                count--;
        for (size_t i = 0; i + 1 < count; i++) {
                const char *line = json_string_value(json_array_get(lines, i));

                print_block(following, true, line ? line : "");
        }
        if (count > 0 && json_string_value(json_array_get(lines, count - 1)))
                strbuf_append(&last, json_string_value(json_array_get(lines, count - 1)));
        else
                strbuf_printf(&last, "%s: %s", name ? name : "error", value ? value : "");
        fputs(terminal_style(stderr, STYLE_RED), stderr);
        print_block(following, true, strbuf_text(&last));
        fputs(terminal_style(stderr, STYLE_PLAIN), stderr);
}

static void report_files(const json_t *files) {
        json_t *item;
        size_t i;

        json_array_foreach (json_object_get(files, "skipped"), i, item) {
                if (json_text(item, "path"))
                        log_warning("not kept: %s: %s", json_text(item, "path"),
                                    json_text(item, "reason") ? json_text(item, "reason") : "");
        }
        json_array_foreach (json_object_get(files, "conflict"), i, item) {
                if (json_is_string(item))
                        log_warning("changed by the code and from outside, and the code's is kept: %s",
                                    json_string_value(item));
        }
}

static void report_stream(const json_t *result, const char *name, const char *title) {
        const json_t *stream = json_object_get(result, name);

        if (json_is_true(json_object_get(stream, "truncated")))
                log_warning("%s is cut: %" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT " bytes are kept",
                            title, json_integer_or(stream, "bytesReturned", 0),
                            json_integer_or(stream, "bytesTotal", 0));
}

/* What standard output and error alone do not tell. */
static void report_result(struct following *following, const char *status) {
        const json_t *result = following->result, *value = json_object_get(result, "value"),
                     *error = json_object_get(result, "error");
        const char *detail = json_text(result, "detail"),
                   *ended = json_text(json_object_get(result, "state"), "ended");

        if (json_text(value, "text"))
                print_block(following, false, json_text(value, "text"));
        if (json_is_object(error))
                print_traceback(following, error);
        end_lines(following);
        report_stream(result, "stdout", "standard output");
        report_stream(result, "stderr", "standard error");
        report_files(json_object_get(result, "files"));
        if (strcmp(status, "timeout") == 0)
                log_error("ended at its deadline%s%s", detail ? ": " : "", detail ? detail : "");
        else if (strcmp(status, "memory") == 0)
                log_error("ended at the memory limit%s%s", detail ? ": " : "", detail ? detail : "");
        else if (strcmp(status, "interrupted") == 0)
                log_error("interrupted%s%s", detail ? ": " : "", detail ? detail : "");
        else if (strcmp(status, "killed") == 0)
                log_error("killed%s%s", detail ? ": " : "", detail ? detail : "");
        else if (strcmp(status, "ok") != 0 && strcmp(status, "error") != 0)
                log_error("it could not be run, or it is not known whether it ran%s%s", detail ? ": " : "",
                          detail ? detail : "");
        if (ended)
                log_warning("the kernel has ended, and its variables with it: %s", ended);
}

/* 0 for "ok" alone: an unknown status does not count as success. */
static int exit_code_of_result(const json_t *result, const char *status) {
        json_int_t code = json_integer_or(result, "exitCode", 0);

        if (strcmp(status, "ok") == 0)
                return EXIT_DONE;
        if (strcmp(status, "error") == 0)
                return code > 0 && code < 256 ? (int)code : EXIT_ERROR;
        if (strcmp(status, "timeout") == 0)
                return EXIT_DEADLINE;
        if (strcmp(status, "interrupted") == 0)
                return EXIT_INTERRUPTED;
        if (strcmp(status, "memory") == 0 || strcmp(status, "killed") == 0)
                return EXIT_KILLED;
        return EXIT_EXEC_FAILED;
}

/* A stream that ended without a result: a server that stops says so by that, and may still know how it ended. */
static int fail_unseen(struct following *following, const char *why, struct error *err) {
        struct sessions *sessions = following->sessions;

        end_lines(following);
        return error_set(err,
                         "%s: execution %" JSON_INTEGER_FORMAT
                         " of %s may still run. What becomes of it, once a server "
                         "runs: berth session history %s %" JSON_INTEGER_FORMAT "%s",
                         why, following->n, following->id, following->id, following->n, sessions->where);
}

static int follow_stream(struct following *following, struct error *err) {
        struct arena *arena = following->sessions->session.arena;
        const char *path = arena_printf(arena, "/v1/sessions/%s/executions/%" JSON_INTEGER_FORMAT,
                                        following->id, following->n);
        const struct client_call stream = {
                .method = "GET",
                .path = arena_printf(arena, "%s/events", path),
                .accept = "text/event-stream",
                .interrupt = following->interrupt,
                .sink = take_events,
                .context = following,
        };
        json_t *result JSON_CLEANUP = NULL;
        struct error ignored;

        if (client_ask(following->sessions->client, &stream, NULL, err) < 0) {
                if (following->result)
                        return 0;
                if (err->kind == ERROR_INTERRUPTED)
                        return fail_unseen(following, "not followed any more", err);
                return err->kind == ERROR_UNREACHABLE
                               ? fail_unseen(following, "the server ended before it did", err)
                               : -1;
        }
        if (!following->result &&
            sessions_ask(following->sessions, "GET", path, NULL, &result, &ignored) == 0 &&
            json_object_get(result, "stdout"))
                following->result = json_incref(result);
        return following->result ? 0 : fail_unseen(following, "the server ended before it did", err);
}

int sessions_follow(struct sessions *sessions, const char *id, json_int_t n, struct interrupt *interrupt,
                    bool interrupts, struct error *err) {
        struct following following = {
                .sessions = sessions,
                .id = id,
                .n = n,
                .events = EVENTS_INIT,
                .output = { .is_terminal = isatty(STDOUT_FILENO) },
                .errors = { .is_terminal = isatty(STDERR_FILENO) },
                .interrupt = interrupt,
        };
        const char *status;
        pthread_t watcher;
        int code;

        if (interrupt_init(&following.over, err) < 0)
                return -1;
        if (interrupts && pthread_create(&watcher, NULL, interrupt_it, &following) != 0)
                abort();
        code = follow_stream(&following, err);
        /* A server that hangs must not hold up who wants to leave: what is being asked is dropped. */
        interrupt_raise_to(&following.over, INTERRUPT_NOW);
        if (interrupts)
                pthread_join(watcher, NULL);
        status = json_text(following.result, "status");
        if (code == 0) {
                code = exit_code_of_result(following.result, status ? status : "");
                if (sessions->options->json)
                        print_json(json_incref(following.result));
                else
                        report_result(&following, status ? status : "");
        }
        /*
         * A full disk must not look like success. A reader that closed the pipe expects no error.
         */
        if (code >= 0 && following.unwritten && following.unwritten != EPIPE)
                code = error_set(err, "cannot write what the code said: %s", strerror(following.unwritten));
        json_decref(following.result);
        events_release(&following.events);
        interrupt_dispose(&following.over);
        return code;
}
