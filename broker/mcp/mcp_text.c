/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/mcp/mcp_text.h"

#include "base/json.h"
#include "base/strbuf.h"
#include "base/text_utf8.h"

#include <inttypes.h>
#include <string.h>

#define TRACEBACK_LINES ((size_t)12) /* the last ones, which name the line that failed */
#define NAMES_MAX ((size_t)10)       /* of files and variables in one line */

/* --- lines --- */

static json_t *text_of(struct strbuf *text) {
        json_t *json;

        while (text->length > 0 && text->data[text->length - 1] == '\n')
                text->length--;
        json = json_checked(json_stringn(strbuf_text(text), text->length));
        strbuf_release(text);
        return json;
}

/* A text of its own line or lines. */
static void add_text(struct strbuf *to, const json_t *text) {
        size_t length = json_string_length(text);

        if (length == 0)
                return;
        strbuf_append_bytes(to, json_string_value(text), length);
        if (json_string_value(text)[length - 1] != '\n')
                strbuf_append_char(to, '\n');
}

/*
 * "[words: detail]". Code chooses names, and what errors say: with a line break such a text would look like a remark of the server.
 * Line breaks and control characters are escaped; structuredContent has the text itself.
 */
static void add_remark(struct strbuf *to, const char *words, const json_t *detail) {
        strbuf_printf(to, "[%s", words);
        if (json_string_length(detail) > 0) {
                strbuf_append(to, ": ");
                text_append_safe(to, json_string_value(detail));
        }
        strbuf_append(to, "]\n");
}

/* "[words: a, b, and 3 more]", by the member of each item, or the items themselves where that is NULL. */
static void add_names(struct strbuf *to, const char *words, const json_t *list, const char *member) {
        size_t count = json_array_size(list);

        if (count == 0)
                return;
        strbuf_printf(to, "[%s: ", words);
        for (size_t i = 0; i < count && i < NAMES_MAX; i++) {
                const json_t *item = json_array_get(list, i);
                const json_t *name = member ? json_object_get(item, member) : item;

                strbuf_append(to, i > 0 ? ", " : "");
                text_append_safe(to, json_string_length(name) ? json_string_value(name) : "");
        }
        if (count > NAMES_MAX)
                strbuf_printf(to, ", and %zu more", count - NAMES_MAX);
        strbuf_append(to, "]\n");
}

static long long number(const json_t *object, const char *name) {
        return (long long)json_integer_value(json_object_get(object, name));
}

static const char *text_or(const json_t *object, const char *name, const char *other) {
        const char *text = json_text(object, name);

        return text ? text : other;
}

static void add_more(struct strbuf *to, const json_t *data) {
        if (json_is_string(json_object_get(data, "cursor")))
                add_remark(to, "there are more, by cursor", json_object_get(data, "cursor"));
}

/* --- an execution --- */

/* A gap is named where it is. */
static void add_content(struct strbuf *to, const json_t *stream, const char *name) {
        const json_t *content = json_object_get(stream, "content"), *gap = json_object_get(stream, "gap");
        size_t length = json_string_length(content), at = (size_t)json_integer_or(gap, "at", 0);

        if (!json_is_object(gap) || at > length) {
                add_text(to, content);
                return;
        }
        strbuf_append_bytes(to, json_string_value(content), at);
        strbuf_printf(to, "\n[%lld bytes of %s are left out here]\n", number(gap, "bytes"), name);
        strbuf_append_bytes(to, json_string_value(content) + at, length - at);
        strbuf_append(to, length > at && json_string_value(content)[length - 1] != '\n' ? "\n" : "");
}

static void add_stream(struct strbuf *to, const json_t *data, const char *name) {
        const json_t *stream = json_object_get(data, name);
        const char *encoding = json_text(stream, "encoding");

        if (number(stream, "bytesTotal") == 0)
                return;
        if (strcmp(name, "stderr") == 0)
                strbuf_append(to, "stderr:\n");
        if (encoding && strcmp(encoding, "base64") == 0)
                strbuf_printf(to, "[%lld bytes that are no text, in structuredContent as base64]\n",
                              number(stream, "bytesReturned"));
        else
                add_content(to, stream, name);
}

/* An image stands beside the text; of other forms the one that is read best. The value is said by itself. */
static void add_display(struct strbuf *to, const json_t *display, bool has_value) {
        static const char *const forms[] = { "text/markdown",    "text/plain", "text/latex",
                                             "application/json", "text/html",  NULL };
        const json_t *mime = json_object_get(display, "mime"), *file = json_object_get(display, "file");

        if (json_is_string(file)) {
                add_remark(to, "image", file);
                return;
        }
        if (has_value && json_is_true(json_object_get(display, "main")))
                return;
        for (const char *const *form = forms; *form; form++) {
                if (json_object_get(mime, *form)) {
                        add_text(to, json_object_get(mime, *form));
                        return;
                }
        }
        if (json_is_true(json_object_get(display, "truncated")))
                strbuf_append(to, "[a display that is too large to be shown]\n");
}

static void add_error(struct strbuf *to, const json_t *error) {
        const json_t *lines = json_object_get(error, "traceback");
        size_t count = json_array_size(lines), from = count > TRACEBACK_LINES ? count - TRACEBACK_LINES : 0;

        if (!json_is_object(error))
                return;
        if (from > 0)
                strbuf_append(to, "...\n");
        for (size_t i = from; i < count; i++)
                add_text(to, json_array_get(lines, i));
        if (count == 0) {
                add_text(to, json_object_get(error, "name"));
                add_text(to, json_object_get(error, "value"));
        }
}

static void add_end(struct strbuf *to, const json_t *data) {
        const char *status = text_or(data, "status", "");
        const json_t *code = json_object_get(data, "exitCode");

        if (strcmp(status, "error") == 0 && !json_is_object(json_object_get(data, "error")) &&
            json_is_integer(code))
                strbuf_printf(to, "[exit code %lld]\n", number(data, "exitCode"));
        else if (strcmp(status, "ok") != 0 && strcmp(status, "error") != 0)
                add_remark(to, status, json_object_get(data, "detail"));
}

static void add_state(struct strbuf *to, const json_t *state) {
        if (strcmp(text_or(state, "was", ""), "lost") == 0)
                add_remark(to, "variables of earlier calls are lost", json_object_get(state, "reason"));
        add_names(to, "these variables are lost", json_object_get(state, "lost"), "name");
        if (json_is_string(json_object_get(state, "ended")))
                add_remark(to, "the interpreter has ended, and its variables with it",
                           json_object_get(state, "ended"));
}

json_t *mcp_text_run(const json_t *data, bool tells_session) {
        const json_t *value = json_object_get(data, "value"), *files = json_object_get(data, "files");
        struct strbuf text = STRBUF_INIT;
        json_t *display;
        size_t index;

        add_stream(&text, data, "stdout");
        add_stream(&text, data, "stderr");
        json_array_foreach (json_object_get(data, "displays"), index, display)
                add_display(&text, display, json_is_object(value));
        add_text(&text, json_object_get(value, "text"));
        add_error(&text, json_object_get(data, "error"));
        add_end(&text, data);
        if (text.length == 0)
                strbuf_append(&text, "[no output]\n");
        add_state(&text, json_object_get(data, "state"));
        add_names(&text, "files written", json_object_get(files, "changed"), "path");
        add_names(&text, "files that another writer changed meanwhile", json_object_get(files, "conflict"),
                  NULL);
        add_names(&text, "files that could not be kept", json_object_get(files, "skipped"), "path");
        if (tells_session)
                strbuf_printf(&text, "[session_id %s]\n", text_or(data, "session", ""));
        return text_of(&text);
}

/* --- the other tools --- */

json_t *mcp_text_sessions(const json_t *data) {
        struct strbuf text = STRBUF_INIT;
        json_t *item;
        size_t index;

        json_array_foreach (json_object_get(data, "items"), index, item) {
                const char *agent = json_text(item, "agent"), *conversation = json_text(item, "conversation");

                strbuf_printf(&text, "%s %s, %s%s", text_or(item, "id", ""), text_or(item, "status", ""),
                              agent ? "agent " : "environment ",
                              agent ? agent : text_or(item, "environment", ""));
                strbuf_printf(&text, "%s%s\n", conversation ? ", conversation " : "",
                              conversation ? conversation : "");
        }
        if (text.length == 0)
                strbuf_append(&text, "[no sessions]\n");
        add_more(&text, data);
        return text_of(&text);
}

json_t *mcp_text_ended(const json_t *data) {
        struct strbuf text = STRBUF_INIT;

        strbuf_printf(&text, "%s has ended; its files stay.", text_or(data, "session", ""));
        return text_of(&text);
}

json_t *mcp_text_files(const json_t *data) {
        struct strbuf text = STRBUF_INIT;
        json_t *item;
        size_t index;

        json_array_foreach (json_object_get(data, "items"), index, item) {
                text_append_safe(&text, text_or(item, "path", ""));
                strbuf_printf(&text, " (%lld bytes)\n", number(item, "bytes"));
        }
        if (text.length == 0)
                strbuf_append(&text, "[no files]\n");
        add_more(&text, data);
        return text_of(&text);
}

/* A file's own last line end is part of it. */
json_t *mcp_text_read(const json_t *data) {
        const json_t *content = json_object_get(data, "content"),
                     *base64 = json_object_get(data, "contentBase64");
        long long end = number(data, "offset") + number(data, "length"), bytes = number(data, "bytes");
        struct strbuf text = STRBUF_INIT;

        if (end >= bytes && json_string_length(content) > 0)
                return json_incref((json_t *)(uintptr_t)content);
        add_text(&text, content ? content : base64);
        if (end < bytes)
                strbuf_printf(&text, "[these are bytes %lld to %lld of %lld: go on with offset %lld]\n",
                              number(data, "offset"), end, bytes, end);
        else if (base64)
                strbuf_printf(&text, "[%lld bytes in base64]\n", number(data, "length"));
        else if (text.length == 0) {
                strbuf_append_char(&text, '[');
                text_append_safe(&text, text_or(data, "path", ""));
                strbuf_printf(&text, ": %lld bytes]\n", bytes);
        }
        return text_of(&text);
}

json_t *mcp_text_written(const json_t *data) {
        struct strbuf text = STRBUF_INIT;

        text_append_safe(&text, text_or(data, "path", ""));
        strbuf_printf(&text, " is written: %lld bytes.", number(data, "bytes"));
        return text_of(&text);
}

json_t *mcp_text_copied(const json_t *data) {
        struct strbuf text = STRBUF_INIT;

        add_names(&text, "copied", json_object_get(data, "changed"), "path");
        add_names(&text, "there already, and kept: replace is not true", json_object_get(data, "conflict"),
                  NULL);
        add_names(&text, "passed over", json_object_get(data, "skipped"), "path");
        if (text.length == 0)
                strbuf_append(&text, "[nothing was copied]\n");
        return text_of(&text);
}

static void add_container(struct strbuf *to, const json_t *container) {
        const char *name = json_text(container, "name"), *reason = json_text(container, "reason");
        const json_t *usage = json_object_get(container, "usage");

        strbuf_printf(to, "%s%s%s %s", text_or(container, "id", ""), name ? " " : "", name ? name : "",
                      text_or(container, "status", ""));
        if (reason)
                strbuf_printf(to, " (%s)", reason);
        if (json_is_integer(json_object_get(container, "exitCode")))
                strbuf_printf(to, ", exit code %lld", number(container, "exitCode"));
        if (json_is_string(json_object_get(container, "detail"))) {
                strbuf_append(to, ": ");
                text_append_safe(to, json_text(container, "detail"));
        }
        if (json_is_integer(json_object_get(usage, "cpuPercent")))
                strbuf_printf(to, ", CPU %lld%%", number(usage, "cpuPercent"));
        if (json_is_object(usage))
                strbuf_printf(to, ", memory %lld MiB", number(usage, "memoryBytes") >> 20);
        strbuf_append_char(to, '\n');
}

json_t *mcp_text_container(const json_t *data) {
        struct strbuf text = STRBUF_INIT;

        add_container(&text, data);
        return text_of(&text);
}

json_t *mcp_text_containers(const json_t *data) {
        struct strbuf text = STRBUF_INIT;
        json_t *item;
        size_t index;

        json_array_foreach (json_object_get(data, "items"), index, item)
                add_container(&text, item);
        if (text.length == 0)
                strbuf_append(&text, "[no containers]\n");
        add_more(&text, data);
        return text_of(&text);
}

json_t *mcp_text_log(const json_t *data) {
        struct strbuf text = STRBUF_INIT;

        add_text(&text, json_object_get(data, "text"));
        if (text.length == 0)
                strbuf_append(&text, "[nothing was printed]\n");
        if (json_is_true(json_object_get(data, "truncated")))
                strbuf_append(&text, "[there was more]\n");
        return text_of(&text);
}
