/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/protocol/report.h"

#include "base/json.h"

#include <stdlib.h>
#include <string.h>

static const char *const type_names[] = { [REPORT_HELLO] = "hello",
                                          [REPORT_STARTED] = "started",
                                          [REPORT_OUTPUT] = "output",
                                          [REPORT_DISPLAY] = "display",
                                          [REPORT_DONE] = "done",
                                          [REPORT_PREPARED] = "prepared",
                                          [REPORT_RESTARTED] = "restarted",
                                          [REPORT_STATUS] = "status",
                                          [REPORT_REFUSED] = "refused",
                                          [REPORT_PIECE] = "piece",
                                          [REPORT_CHECKPOINTED] = "checkpointed",
                                          [REPORT_RESTORED] = "restored" };
static const char *const status_names[] = { [REPORT_OK] = "ok",
                                            [REPORT_ERROR] = "error",
                                            [REPORT_TIMEOUT] = "timeout",
                                            [REPORT_MEMORY] = "memory",
                                            [REPORT_INTERRUPTED] = "interrupted",
                                            [REPORT_KILLED] = "killed",
                                            [REPORT_FAILED] = "failed" };
static const char *const was_names[] = { [REPORT_NEW] = "new",
                                         [REPORT_KEPT] = "kept",
                                         [REPORT_WAS_RESTORED] = "restored",
                                         [REPORT_LOST] = "lost" };
static const char *const stream_names[] = { "stdout", "stderr" };

const char *report_status_name(enum report_status status) {
        return status_names[status];
}

/* A text of bounded length, or null, which gives NULL. */
static int text_or_null(const json_t *json, size_t most, const char **ret) {
        if (json && !json_is_null(json) && (!json_is_string(json) || json_string_length(json) > most))
                return -1;
        *ret = json_string_value(json);
        return 0;
}

/* ".berth/displays/12-1.png": what runtime/serve/picture.c makes, and nothing that leads elsewhere. */
static bool is_display_file(const char *path) {
        static const char folder[] = ".berth/displays/";
        const char *name = path + sizeof(folder) - 1;

        return strncmp(path, folder, sizeof(folder) - 1) == 0 && *name && *name != '.' &&
               strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-.") == strlen(name);
}

static int read_started(json_t *head, struct report *report, struct error *err) {
        json_t *state = NULL, *was = NULL, *reason = NULL, *restored = NULL, *lost = NULL;
        const char *type;
        json_int_t n, generation;
        json_error_t said;
        int index;

        if (json_unpack_ex(head, &said, 0, "{s:s, s:I, s:s, s:o !}", "type", &type, "n", &n, "context",
                           &report->context, "state", &state) != 0)
                return error_set(err, "%s", said.text);
        report->n = n;
        if (json_is_null(state))
                return 0;
        if (json_unpack_ex(state, &said, 0, "{s:I, s:o, s:o, s?:o, s?:o !}", "generation", &generation, "was",
                           &was, "reason", &reason, "restored", &restored, "lost", &lost) != 0)
                return error_set(err, "%s", said.text);
        index = content_index(was_names, CONTENT_COUNT(was_names), json_string_value(was));
        if (index < 0 || generation < 1 || text_or_null(reason, CONTENT_REASON_MAX, &report->reason) < 0)
                return error_set(err, "invalid state");
        if ((index == REPORT_WAS_RESTORED) != (restored != NULL) || (restored != NULL) != (lost != NULL) ||
            (restored && (!content_is_names(restored) || !content_is_lost(lost))))
                return error_set(err, "invalid names of a state");
        report->restored = restored;
        report->lost = lost;
        report->was = (enum report_was)index;
        report->generation = generation;
        return 0;
}

static int read_output(const struct message *message, struct report *report, struct error *err) {
        json_t *stream = NULL;
        const char *type;
        json_int_t n;
        json_error_t said;
        int index;

        if (json_unpack_ex(message->head, &said, 0, "{s:s, s:I, s:o !}", "type", &type, "n", &n, "stream",
                           &stream) != 0)
                return error_set(err, "%s", said.text);
        index = content_index(stream_names, CONTENT_COUNT(stream_names), json_string_value(stream));
        if (index < 0 || message->body.length == 0)
                return error_set(err, "of no stream, or empty");
        report->n = n;
        report->is_stderr = index == 1;
        report->bytes = message->body.data;
        report->length = message->body.length;
        return 0;
}

static int read_piece(const struct message *message, struct report *report, struct error *err) {
        if (json_object_size(message->head) != 1 || message->body.length == 0)
                return error_set(err, "with other members, or empty");
        report->bytes = message->body.data;
        report->length = message->body.length;
        return 0;
}

static int read_display(const struct message *message, struct report *report, struct error *err) {
        json_t *parts = NULL, *file = NULL;
        const char *type;
        json_int_t n;
        json_error_t said;
        int is_main;

        if (json_unpack_ex(message->head, &said, 0, "{s:s, s:I, s:b, s:o, s:o !}", "type", &type, "n", &n,
                           "main", &is_main, "file", &file, "parts", &parts) != 0)
                return error_set(err, "%s", said.text);
        if (text_or_null(file, CONTENT_NAME_MAX, &report->file) < 0 ||
            (report->file && !is_display_file(report->file)))
                return error_set(err, "a file that no display has");
        report->n = n;
        report->is_main = is_main;
        return content_display_read(parts, &message->body, &report->display, err);
}

static int read_done(json_t *head, struct report *report, struct error *err) {
        json_t *status = NULL, *value = NULL, *error = NULL, *ended = NULL, *detail = NULL, *code = NULL;
        json_int_t n, wall_ms, out, errors, dropped, left;
        const char *type;
        json_error_t said;
        int index;

        if (json_unpack_ex(head, &said, 0,
                           "{s:s, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:I !}", "type",
                           &type, "n", &n, "status", &status, "exitCode", &code, "value", &value, "error",
                           &error, "ended", &ended, "detail", &detail, "wallMs", &wall_ms, "stdoutBytes",
                           &out, "stderrBytes", &errors, "displaysDropped", &dropped, "left", &left) != 0)
                return error_set(err, "%s", said.text);
        index = content_index(status_names, CONTENT_COUNT(status_names), json_string_value(status));
        if (index < 0 || wall_ms < 0 || out < 0 || errors < 0 || dropped < 0 || left < 0 ||
            text_or_null(ended, CONTENT_REASON_MAX, &report->ended) < 0 ||
            text_or_null(detail, CONTENT_REASON_MAX, &report->detail) < 0)
                return error_set(err, "invalid end");
        report->status = (enum report_status)index;
        report->exit_code = json_is_integer(code) ? json_integer_value(code) : -1;
        /* An exit code of 0 is success, and the other way round. */
        if ((!json_is_null(code) && (report->exit_code < 0 || report->exit_code > 255)) ||
            (report->exit_code == 0) != (report->status == REPORT_OK))
                return error_set(err, "an exit code that does not fit the status");
        report->n = n;
        report->wall_ms = wall_ms;
        report->stdout_bytes = out;
        report->stderr_bytes = errors;
        report->displays_dropped = dropped;
        report->left = left;
        if (content_value_read(value, &report->value, err) < 0)
                return -1;
        return content_error_read(error, &report->error, err);
}

static int read_prepared(json_t *head, struct report *report, struct error *err) {
        json_t *missing = NULL, *python = NULL, *reason = NULL;
        const char *type;
        json_int_t generation;
        json_error_t said;

        if (json_unpack_ex(head, &said, 0, "{s:s, s:s, s:I, s:o, s:o, s:o !}", "type", &type, "context",
                           &report->context, "generation", &generation, "python", &python, "missing",
                           &missing, "reason", &reason) != 0)
                return error_set(err, "%s", said.text);
        if (!content_is_pairs(missing, 64, "module", "reason", JSON_STRING) || generation < 0 ||
            text_or_null(python, 64, &report->python) < 0 ||
            text_or_null(reason, CONTENT_REASON_MAX, &report->reason) < 0)
                return error_set(err, "invalid version, modules or reason");
        report->generation = generation;
        report->missing = missing;
        return 0;
}

/* What became of each context: those that have a reason have kept nothing. */
static bool is_outcomes(const json_t *list) {
        const json_t *item;
        size_t index;

        if (!json_is_array(list) || json_array_size(list) > REPORT_CONTEXTS_MAX)
                return false;
        json_array_foreach (list, index, item) {
                const json_t *reason = json_object_get(item, "reason");
                const char *text, *context = json_text(item, "context");

                if (json_object_size(item) != 5 || !context || !content_is_context(context) || !reason ||
                    text_or_null(reason, CONTENT_REASON_MAX, &text) < 0 ||
                    json_integer_or(item, "generation", -1) < 0 || json_integer_or(item, "kept", -1) < 0 ||
                    json_integer_or(item, "lost", -1) < 0 || (text && json_integer_or(item, "kept", 0) > 0))
                        return false;
        }
        return true;
}

static int read_checkpoint(json_t *head, struct report *report, struct error *err) {
        json_t *contexts = NULL, *reason = NULL;
        json_int_t total = 0;
        const char *type;
        json_error_t said;
        int result, is_late = 0;

        if (report->type == REPORT_CHECKPOINTED)
                result = json_unpack_ex(head, &said, 0, "{s:s, s:I, s:o, s:o, s?b !}", "type", &type, "bytes",
                                        &total, "contexts", &contexts, "reason", &reason, "late", &is_late);
        else
                result = json_unpack_ex(head, &said, 0, "{s:s, s:o, s:o !}", "type", &type, "contexts",
                                        &contexts, "reason", &reason);
        if (result < 0)
                return error_set(err, "%s", said.text);
        if (total < 0 || !is_outcomes(contexts) ||
            text_or_null(reason, CONTENT_REASON_MAX, &report->reason) < 0)
                return error_set(err, "invalid bytes, contexts or reason");
        report->contexts = contexts;
        report->total = total;
        report->is_late = is_late;
        return 0;
}

static int read_rest(json_t *head, struct report *report, struct error *err) {
        json_t *contexts = NULL, *reason = NULL;
        const char *type;
        json_int_t number = 0, protocol = 0;
        json_error_t said;
        int result;

        if (report->type == REPORT_HELLO)
                result = json_unpack_ex(head, &said, 0, "{s:s, s:I, s:s !}", "type", &type, "protocol",
                                        &protocol, "version", &report->version);
        else if (report->type == REPORT_RESTARTED)
                result = json_unpack_ex(head, &said, 0, "{s:s, s:s !}", "type", &type, "context",
                                        &report->context);
        else if (report->type == REPORT_STATUS)
                result = json_unpack_ex(head, &said, 0, "{s:s, s:o, s:I !}", "type", &type, "contexts",
                                        &contexts, "left", &number);
        else
                result = json_unpack_ex(head, &said, 0, "{s:s, s:I, s:o !}", "type", &type, "n", &number,
                                        "reason", &reason);
        if (result < 0)
                return error_set(err, "%s", said.text);
        if ((report->version && strlen(report->version) > 64) ||
            (contexts &&
             (!content_is_pairs(contexts, 64, "context", "generation", JSON_INTEGER) || number < 0)) ||
            text_or_null(reason, CONTENT_REASON_MAX, &report->reason) < 0 || (reason && !report->reason))
                return error_set(err, "invalid version, contexts or reason");
        report->protocol = protocol;
        report->contexts = contexts;
        *(report->type == REPORT_STATUS ? &report->left : &report->n) = number;
        return 0;
}

int report_read(const struct message *message, struct report *ret, struct error *err) {
        struct report report = { .exit_code = -1 };
        int index = content_index(type_names, CONTENT_COUNT(type_names), json_text(message->head, "type")),
            result;

        if (index < 0)
                return error_set(err, "the runtime said something of no known type");
        report.type = (enum report_type)index;
        if (report.type == REPORT_OUTPUT)
                result = read_output(message, &report, err);
        else if (report.type == REPORT_DISPLAY)
                result = read_display(message, &report, err);
        else if (report.type == REPORT_PIECE)
                result = read_piece(message, &report, err);
        else if (message->body.length > 0)
                result = error_set(err, "bytes where none belong");
        else if (report.type == REPORT_STARTED)
                result = read_started(message->head, &report, err);
        else if (report.type == REPORT_DONE)
                result = read_done(message->head, &report, err);
        else if (report.type == REPORT_PREPARED)
                result = read_prepared(message->head, &report, err);
        else if (report.type == REPORT_CHECKPOINTED || report.type == REPORT_RESTORED)
                result = read_checkpoint(message->head, &report, err);
        else
                result = read_rest(message->head, &report, err);
        if (result < 0)
                return error_context(err, "the runtime said '%s' wrongly", type_names[index]);
        if (report.context && !content_is_context(report.context))
                return error_set(err, "the runtime named a context that cannot be one");
        if (report.n < 0 || (report.n == 0 && report.type >= REPORT_STARTED && report.type <= REPORT_DONE))
                return error_set(err, "the runtime spoke of an execution that cannot be");
        *ret = report;
        return 0;
}

/* --- writing --- */

/* Cut where it is too long, on a whole character; null for NULL. */
static json_t *reason_json(const char *reason) {
        size_t length = reason ? strlen(reason) : 0;

        if (!reason)
                return json_checked(json_null());
        if (length > CONTENT_REASON_MAX) {
                length = CONTENT_REASON_MAX;
                while (length > 0 && ((unsigned char)reason[length] & 0xc0) == 0x80)
                        length--;
        }
        return json_checked(json_stringn(reason, length));
}

static void add_done(const struct report *report, json_t *head) {
        json_put(head, "status", json_string(status_names[report->status]));
        json_put(head, "exitCode", report->exit_code < 0 ? json_null() : json_integer(report->exit_code));
        json_put(head, "value", content_value_json(&report->value));
        json_put(head, "error", content_error_json(&report->error));
        json_put(head, "ended", reason_json(report->ended));
        json_put(head, "detail", reason_json(report->detail));
        json_put(head, "wallMs", json_integer(report->wall_ms));
        json_put(head, "stdoutBytes", json_integer(report->stdout_bytes));
        json_put(head, "stderrBytes", json_integer(report->stderr_bytes));
        json_put(head, "displaysDropped", json_integer(report->displays_dropped));
        json_put(head, "left", json_integer(report->left));
}

void report_write(const struct report *report, struct strbuf *to) {
        json_t *head = json_checked(json_pack("{s:s}", "type", type_names[report->type])), *state;
        struct strbuf body STRBUF_CLEANUP = STRBUF_INIT;

        if ((report->type >= REPORT_STARTED && report->type <= REPORT_DONE) || report->type == REPORT_REFUSED)
                json_put(head, "n", json_integer(report->n));
        if (report->context)
                json_put(head, "context", json_string(report->context));
        switch (report->type) {
        case REPORT_HELLO:
                json_put(head, "protocol", json_integer(report->protocol));
                json_put(head, "version", json_string(report->version));
                break;
        case REPORT_STARTED:
                state = json_null();
                if (report->generation > 0) {
                        state = json_checked(json_pack("{s:I, s:s}", "generation",
                                                       (json_int_t)report->generation, "was",
                                                       was_names[report->was]));
                        json_put(state, "reason", reason_json(report->reason));
                        if (report->was == REPORT_WAS_RESTORED) {
                                json_put(state, "restored", json_deep_copy(report->restored));
                                json_put(state, "lost", json_deep_copy(report->lost));
                        }
                }
                json_put(head, "state", state);
                break;
        case REPORT_OUTPUT:
                json_put(head, "stream", json_string(stream_names[report->is_stderr]));
                strbuf_append_bytes(&body, report->bytes, report->length);
                break;
        case REPORT_DISPLAY:
                json_put(head, "main", json_boolean(report->is_main));
                json_put(head, "file", reason_json(report->file));
                json_put(head, "parts", content_display_json(&report->display));
                for (size_t i = 0; i < report->display.count; i++)
                        strbuf_append_bytes(&body, report->display.parts[i].bytes,
                                            report->display.parts[i].length);
                break;
        case REPORT_DONE:
                add_done(report, head);
                break;
        case REPORT_PREPARED:
                json_put(head, "generation", json_integer(report->generation));
                json_put(head, "python", reason_json(report->python));
                json_put(head, "missing",
                         report->missing ? json_deep_copy(report->missing) : json_checked(json_array()));
                json_put(head, "reason", reason_json(report->reason));
                break;
        case REPORT_STATUS:
                json_put(head, "contexts", json_deep_copy(report->contexts));
                json_put(head, "left", json_integer(report->left));
                break;
        case REPORT_REFUSED:
                json_put(head, "reason", reason_json(report->reason));
                break;
        case REPORT_RESTARTED:
                break;
        case REPORT_PIECE:
                strbuf_append_bytes(&body, report->bytes, report->length);
                break;
        case REPORT_CHECKPOINTED:
                json_put(head, "bytes", json_integer(report->total));
                /* fall through */
        case REPORT_RESTORED:
                json_put(head, "contexts",
                         report->contexts ? json_deep_copy(report->contexts) : json_checked(json_array()));
                json_put(head, "reason", reason_json(report->reason));
                if (report->type == REPORT_CHECKPOINTED && report->is_late)
                        json_put(head, "late", json_true());
                break;
        }
        message_write(to, head, strbuf_text(&body), body.length);
        json_decref(head);
}
