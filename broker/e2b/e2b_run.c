/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A display is told as it comes, but for the last expression's: its text is in the result alone, so
 * it waits for that. A client that stops waiting closes the connection, which interrupts the code;
 * the line that is sent each 5 s lets a proxy in between notice that.
 */
#include "broker/e2b/e2b_run.h"

#include "base/clock.h"
#include "base/digest.h"
#include "base/files.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "base/text_utf8.h"
#include "broker/e2b/e2b_call.h"
#include "broker/e2b/e2b_contexts.h"
#include "broker/request/answers.h"
#include "broker/request/events.h"

#include <stdlib.h>
#include <string.h>

#define QUIET_MS 5000
#define NS_PER_MS 1000000
#define LOST_NAMES_MAX 20 /* that are named in one line */

struct run {
        int64_t n;
        json_t *main; /* the last expression's forms, {TYPE: text}; NULL: none came */
};

/* --- lines --- */

/* Gives the reference away. */
static void write_line(struct strbuf *to, json_t *line) {
        char *text TEXT_CLEANUP = json_compact(json_checked(line));

        json_decref(line);
        strbuf_append(to, text);
        strbuf_append_char(to, '\n');
}

static void write_output(struct strbuf *to, const char *stream, json_t *text) {
        write_line(to, json_pack("{s:s, s:o, s:I}", "type", stream, "text", text, "timestamp",
                                 (json_int_t)(clock_wall_ms() * NS_PER_MS)));
}

/* Output that is not UTF-8, as text: invalid bytes become U+FFFD. */
static json_t *text_of_base64(const json_t *base64) {
        size_t length = json_string_length(base64), bad;
        char *bytes TEXT_CLEANUP = malloc(length + 1);
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        ssize_t count;
        const char *at;

        if (!bytes)
                abort();
        count = digest_from_base64(json_string_value(base64), length, (uint8_t *)bytes);
        at = bytes;
        for (size_t left = count > 0 ? (size_t)count : 0; left > 0;) {
                bool whole = text_is_utf8(at, left, &bad);
                size_t fine = whole ? left : bad;

                strbuf_append_bytes(&text, at, fine);
                if (!whole) {
                        strbuf_append(&text, "\xef\xbf\xbd");
                        fine++;
                }
                at += fine;
                left -= fine;
        }
        return json_checked(json_stringn(strbuf_text(&text), text.length));
}

static void write_stream(struct strbuf *to, const char *stream, const json_t *data) {
        json_t *text = json_object_get(data, "text");

        write_output(to, stream,
                     text ? json_incref(text) : text_of_base64(json_object_get(data, "contentBase64")));
}

/* The SDK knows these forms by names of its own; all others are extra. */
static const char *name_of(const char *type) {
        static const char *const names[][2] = {
                { "text/plain", "text" },        { "text/html", "html" },
                { "text/markdown", "markdown" }, { "image/svg+xml", "svg" },
                { "image/png", "png" },          { "image/jpeg", "jpeg" },
                { "application/pdf", "pdf" },    { "text/latex", "latex" },
                { "application/json", "json" },  { "application/javascript", "javascript" },
        };

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                if (strcmp(type, names[i][0]) == 0)
                        return names[i][1];
        }
        return NULL;
}

/* JSON that a sandbox wrote is parsed only where it nests no deeper than a thread can bear. */
static json_t *value_of(const char *name, json_t *text) {
        const char *bytes = json_string_value(text);
        size_t length = json_string_length(text);
        json_t *parsed = NULL;

        if (strcmp(name, "json") == 0 && bytes) {
                struct json_extent extent = json_measure(bytes, length);

                if (extent.depth <= 64 && extent.values <= BODY_VALUES_MAX)
                        parsed = json_loadb(bytes, length, JSON_REJECT_DUPLICATES, NULL);
        }
        return parsed ? parsed : json_incref(text);
}

static void write_result(struct strbuf *to, const json_t *mime, const json_t *repr, bool main) {
        json_t *line = json_checked(json_pack("{s:s, s:b}", "type", "result", "is_main_result", main)),
               *extra = json_checked(json_object()), *text;
        const char *type;

        json_object_foreach ((json_t *)(uintptr_t)mime, type, text) {
                const char *name = name_of(type);

                if (name)
                        json_put(line, name, value_of(name, text));
                else
                        json_put(extra, type, json_incref(text));
        }
        if (repr)
                json_put(line, "text", json_incref((json_t *)(uintptr_t)repr));
        if (json_object_size(extra) > 0)
                json_put(line, "extra", json_incref(extra));
        json_decref(extra);
        write_line(to, line);
}

static json_t *traceback_of(const json_t *error) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        const json_t *line;
        size_t index;

        json_array_foreach (json_object_get(error, "traceback"), index, line) {
                strbuf_append_bytes(&text, json_string_value(line), json_string_length(line));
                if (text.length > 0 && text.data[text.length - 1] != '\n')
                        strbuf_append_char(&text, '\n');
        }
        return json_checked(json_stringn(strbuf_text(&text), text.length));
}

static void write_error(struct strbuf *to, json_t *name, json_t *value, json_t *traceback) {
        write_line(to, json_pack("{s:s, s:o, s:o, s:o}", "type", "error", "name", name, "value", value,
                                 "traceback", traceback));
}

/* What no exception says: the name is Python's for the like. */
static const char *name_of_status(const char *status) {
        static const char *const names[][2] = { { "timeout", "TimeoutError" },
                                                { "memory", "MemoryError" },
                                                { "interrupted", "KeyboardInterrupt" },
                                                { "error", "SystemExit" } };

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                if (strcmp(status, names[i][0]) == 0)
                        return names[i][1];
        }
        return "ExecutionError";
}

static void write_failure(struct strbuf *to, const json_t *result, const char *status, struct arena *arena) {
        const json_t *error = json_object_get(result, "error"), *code = json_object_get(result, "exitCode");
        const char *detail = json_text(result, "detail");

        if (json_is_object(error))
                write_error(to, json_incref(json_object_get(error, "name")),
                            json_incref(json_object_get(error, "value")), traceback_of(error));
        else
                write_error(to, json_from_text(name_of_status(status)),
                            json_from_text(json_is_integer(code) ? arena_printf(arena, "exit code %d",
                                                                                (int)json_integer_value(code))
                                           : detail              ? detail
                                                                 : status),
                            json_from_text(""));
}

static void write_end(struct strbuf *to, int64_t n) {
        write_line(to,
                   json_pack("{s:s, s:I}", "type", "number_of_executions", "execution_count", (json_int_t)n));
        write_line(to, json_pack("{s:s}", "type", "end_of_execution"));
}

/* --- events --- */

/* A line of names that did not come back with the others, each with the reason. */
static void write_lost_names(struct strbuf *text, const json_t *lost) {
        const json_t *name;
        size_t index;

        json_array_foreach (lost, index, name) {
                const char *what = json_text(name, "name"), *why = json_text(name, "why");

                if (index == LOST_NAMES_MAX) {
                        strbuf_printf(text, "; and %zu more", json_array_size(lost) - index);
                        break;
                }
                strbuf_printf(text, "%s%s", index ? "; " : "berth: variables from before that are lost: ",
                              what ? what : "?");
                if (why)
                        strbuf_printf(text, " (%s)", why);
        }
        if (index > 0)
                strbuf_append_char(text, '\n');
}

/* A kernel that has lost variables, all or some, says so where a person looks. */
static void write_state(struct strbuf *to, const json_t *state) {
        const char *was = json_text(state, "was"), *reason = json_text(state, "reason");
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        if (was && strcmp(was, "lost") == 0)
                strbuf_printf(&text, "berth: the variables from before are lost%s%s\n", reason ? ": " : "",
                              reason ? reason : "");
        else if (was && strcmp(was, "restored") == 0 && reason && strcmp(reason, ENGINE_WHY_PARKED) != 0)
                strbuf_printf(&text, "berth: %s\n", reason);
        write_lost_names(&text, json_object_get(state, "lost"));
        if (text.length > 0)
                write_output(to, "stderr", json_from_text(strbuf_text(&text)));
}

/* The protocol has no word for output that is missing: it is said where a person looks. */
static void write_gap(struct strbuf *to, const char *stream, const json_t *gap) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        strbuf_printf(&text, "berth: %" JSON_INTEGER_FORMAT " bytes of %s are left out here\n",
                      json_integer_or(gap, "bytes", 0), stream);
        write_output(to, "stderr", json_from_text(strbuf_text(&text)));
}

static void write_done(struct run *run, struct server_request *request, const json_t *result,
                       struct strbuf *to) {
        const json_t *value = json_object_get(result, "value");
        const char *status = json_text(result, "status");

        if (json_is_object(value) || run->main)
                write_result(to, run->main, json_object_get(value, "text"), true);
        if (!status || strcmp(status, "ok") != 0)
                write_failure(to, result, status ? status : "failed", request->arena);
        write_end(to, run->n);
}

static bool write_event(void *context, struct server_request *request, const struct engine_event *event,
                        struct strbuf *to) {
        json_t *data JSON_CLEANUP = event->data;
        struct run *run = context;

        if (strcmp(event->name, "stdout") == 0 || strcmp(event->name, "stderr") == 0) {
                write_stream(to, event->name, data);
        } else if (strcmp(event->name, "display") == 0) {
                json_t *mime = json_object_get(data, "mime");

                if (json_is_true(json_object_get(data, "main"))) {
                        json_decref(run->main);
                        run->main = json_incref(mime);
                } else {
                        write_result(to, mime, NULL, false);
                }
        } else if (strcmp(event->name, "gap") == 0) {
                write_gap(to, json_text(data, "stream"), data);
        } else if (strcmp(event->name, "started") == 0) {
                write_state(to, json_object_get(data, "state"));
        } else if (strcmp(event->name, "done") == 0) {
                write_done(run, request, data, to);
        }
        return call_carry(request, to->length);
}

static void write_quiet(void *context, struct strbuf *to) {
        (void)context;
        write_line(to, json_pack("{s:s}", "type", "keepalive"));
}

static void write_stop(void *context, struct strbuf *to) {
        const struct run *run = context;

        write_error(to, json_from_text("ExecutionError"),
                    json_from_text("the server stops: the sandbox stays, ask again once the server is back"),
                    json_from_text(""));
        write_end(to, run->n);
}

static void end_run(void *context) {
        struct run *run = context;

        json_decref(run->main);
        run->main = NULL;
}

/* --- what is run --- */

/* False where the request was answered. */
static bool choose(struct server_request *request, const json_t *body, struct e2b_context *ret) {
        const char *id = json_text(body, "context_id"), *language = json_text(body, "language");
        struct call *call = call_of(request);
        json_t *session JSON_CLEANUP = NULL;
        struct problem problem;

        if (id && language)
                return call_refuse_value(request, "context_id and language cannot both be given");
        if (language && !e2b_contexts_language(language))
                return call_refuse_value(request, "language must be python or bash");
        if (engine_show(call->engine, &call->caller, e2b_call_sandbox(request), &session, &problem) < 0)
                return call_refuse(request, &problem);
        if (!e2b_contexts_find(session, id, request->arena, ret)) {
                e2b_answer_error(request, 404, "the sandbox has no such context");
                return false;
        }
        if (language)
                ret->language = language;
        return true;
}

/* Each run of a shell begins in the workspace: one of a context goes to its folder first. */
static const char *in_folder(const char *folder, const char *code, struct arena *arena) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        if (strcmp(folder, E2B_FOLDER) == 0)
                return code;
        strbuf_append(&text, "cd -- '");
        for (; *folder; folder++) {
                if (*folder == '\'')
                        strbuf_append(&text, "'\\''");
                else
                        strbuf_append_char(&text, *folder);
        }
        strbuf_append(&text, "' || exit; ");
        strbuf_append(&text, code);
        return arena_strdup(arena, strbuf_text(&text));
}

void e2b_run_answer(struct server_request *request) {
        static const struct e2b_member members[] = {
                { "code", JSON_STRING, true },      { "context_id", JSON_STRING, false },
                { "language", JSON_STRING, false }, { "env_vars", JSON_OBJECT, false },
                { NULL, JSON_NULL, false },
        };
        struct call *call = call_of(request);
        const json_t *body = e2b_call_body(request, members), *code = json_object_get(body, "code");
        struct run *run = arena_alloc(request->arena, sizeof(*run));
        struct engine_follower *follower;
        struct e2b_context context = E2B_CONTEXT_MAIN;
        struct engine_code wish;
        struct problem problem;

        if (!body || !choose(request, body, &context))
                return;
        *run = (struct run){ 0 };
        wish = (struct engine_code){ .code = json_string_value(code),
                                     .code_length = json_string_length(code),
                                     .language = e2b_contexts_language(context.language),
                                     .context = context.kernel,
                                     .variables = call_object(body, "env_vars"),
                                     .timeout_seconds = ENGINE_TIMEOUT_MAX,
                                     .interrupt_on_disconnect = true };
        if (strcmp(wish.language, "python") != 0 && strlen(wish.code) == wish.code_length) {
                wish.code = in_folder(context.folder, wish.code, request->arena);
                wish.code_length = strlen(wish.code);
        }
        if (engine_execute(call->engine, &call->caller, e2b_call_sandbox(request), &wish, &run->n, &follower,
                           &problem) < 0)
                answers_refusal(request, &problem);
        else
                events_answer_as(request, follower,
                                 &(const struct events_form){ .context = run,
                                                              .type = "application/x-ndjson",
                                                              .write = write_event,
                                                              .quiet = write_quiet,
                                                              .quiet_ms = QUIET_MS,
                                                              .stop = write_stop,
                                                              .end = end_run });
}
