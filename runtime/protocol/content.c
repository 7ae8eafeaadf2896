/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/protocol/content.h"

#include "base/json.h"

#include <ctype.h>
#include <string.h>

int content_value_read(const json_t *json, struct content_value *ret, struct error *err) {
        struct content_value value = { 0 };
        json_error_t said;
        int truncated = 0;

        if (json && !json_is_null(json)) {
                if (json_unpack_ex((json_t *)json, &said, 0, "{s:s, s:s, s:b !}", "type", &value.type, "text",
                                   &value.text, "truncated", &truncated) != 0)
                        return error_set(err, "invalid value: %s", said.text);
                if (strlen(value.type) > CONTENT_NAME_MAX || strlen(value.text) > CONTENT_TEXT_MAX)
                        return error_set(err, "a value that is too long");
        }
        value.truncated = truncated;
        *ret = value;
        return 0;
}

json_t *content_value_json(const struct content_value *value) {
        if (!value->type)
                return json_checked(json_null());
        return json_checked(json_pack("{s:s, s:s, s:b}", "type", value->type, "text", value->text,
                                      "truncated", (int)value->truncated));
}

static bool is_traceback(const json_t *lines) {
        size_t total = 0, index;
        const json_t *line;

        if (!json_is_array(lines) || json_array_size(lines) > CONTENT_LINES_MAX)
                return false;
        json_array_foreach (lines, index, line) {
                if (!json_is_string(line))
                        return false;
                total += json_string_length(line);
        }
        return total <= CONTENT_TEXT_MAX;
}

int content_error_read(const json_t *json, struct content_error *ret, struct error *err) {
        struct content_error error = { 0 };
        json_error_t said;
        json_t *lines = NULL;

        if (json && !json_is_null(json)) {
                if (json_unpack_ex((json_t *)json, &said, 0, "{s:s, s:s, s:o !}", "name", &error.name,
                                   "value", &error.value, "traceback", &lines) != 0)
                        return error_set(err, "invalid error: %s", said.text);
                if (strlen(error.name) > CONTENT_NAME_MAX || strlen(error.value) > CONTENT_TEXT_MAX ||
                    !is_traceback(lines))
                        return error_set(err, "an error that is too long, or whose traceback is no list");
        }
        error.traceback = lines;
        *ret = error;
        return 0;
}

json_t *content_error_json(const struct content_error *error) {
        json_t *json;

        if (!error->name)
                return json_checked(json_null());
        json = json_checked(json_pack("{s:s, s:s}", "name", error->name, "value", error->value));
        json_put(json, "traceback",
                 error->traceback ? json_deep_copy(error->traceback) : json_checked(json_array()));
        return json;
}

/* "image/svg+xml", "application/vnd.plotly.v1+json": what RFC 6838 gives names, without parameters. */
static bool is_mime_type(const char *text) {
        static const char allowed[] =
                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$&-^_.+";
        size_t first = strspn(text, allowed), second;

        if (!isalnum((unsigned char)text[0]) || text[first] != '/' ||
            !isalnum((unsigned char)text[first + 1]))
                return false;
        second = strspn(text + first + 1, allowed);
        return !text[first + 1 + second] && first + 1 + second <= CONTENT_NAME_MAX;
}

int content_display_read(const json_t *json, const struct strbuf *body, struct content_display *ret,
                         struct error *err) {
        struct content_display display = { 0 };
        size_t index, at = 0;
        json_t *item;

        if (!json_is_array(json) || json_array_size(json) == 0 || json_array_size(json) > CONTENT_PARTS_MAX)
                return error_set(err, "a display of no parts, or of too many");
        json_array_foreach (json, index, item) {
                struct content_part *part = &display.parts[display.count++];
                json_int_t bytes;
                json_error_t said;

                if (json_unpack_ex(item, &said, 0, "{s:s, s:I !}", "type", &part->type, "bytes", &bytes) != 0)
                        return error_set(err, "invalid part of a display: %s", said.text);
                if (!is_mime_type(part->type))
                        return error_set(err, "a part of a display whose type is no MIME type");
                if (bytes < 0 || (size_t)bytes > body->length - at)
                        return error_set(err, "a part of a display that is not in the message");
                part->bytes = strbuf_text(body) + at;
                part->length = (size_t)bytes;
                at += part->length;
        }
        if (at != body->length)
                return error_set(err, "a display with bytes that belong to no part");
        *ret = display;
        return 0;
}

json_t *content_display_json(const struct content_display *display) {
        json_t *list = json_checked(json_array());

        for (size_t i = 0; i < display->count; i++)
                json_add(list, json_pack("{s:s, s:I}", "type", display->parts[i].type, "bytes",
                                         (json_int_t)display->parts[i].length));
        return list;
}

int content_index(const char *const *names, size_t count, const char *name) {
        for (size_t i = 0; name && i < count; i++) {
                if (strcmp(names[i], name) == 0)
                        return (int)i;
        }
        return -1;
}

bool content_is_pairs(const json_t *list, size_t most, const char *text, const char *other, json_type type) {
        const json_t *item;
        size_t index;

        if (!json_is_array(list) || json_array_size(list) > most)
                return false;
        json_array_foreach (list, index, item) {
                const json_t *first = json_object_get(item, text), *second = json_object_get(item, other);

                if (json_object_size(item) != 2 || !json_is_string(first) ||
                    json_string_length(first) > CONTENT_NAME_MAX || !second || json_typeof(second) != type ||
                    (json_is_string(second) && json_string_length(second) > CONTENT_REASON_MAX))
                        return false;
        }
        return true;
}

/* Both lists go into one head of a message: what they take there is what counts. */
static bool fits_as_json(const json_t *list) {
        return json_is_array(list) && json_array_size(list) <= CONTENT_NAMES_MAX &&
               json_dumpb(list, NULL, 0, JSON_COMPACT) <= CONTENT_NAMES_BYTES_MAX;
}

bool content_is_names(const json_t *list) {
        const json_t *name;
        size_t index;

        if (!fits_as_json(list))
                return false;
        json_array_foreach (list, index, name) {
                if (!json_is_string(name) || json_string_length(name) > CONTENT_NAME_MAX)
                        return false;
        }
        return true;
}

bool content_is_lost(const json_t *list) {
        static const struct {
                const char *name;
                size_t most;
        } members[] = { { "name", CONTENT_NAME_MAX },
                        { "type", CONTENT_NAME_MAX },
                        { "why", CONTENT_REASON_MAX } };
        const json_t *item;
        size_t index;

        if (!fits_as_json(list))
                return false;
        json_array_foreach (list, index, item) {
                if (json_object_size(item) != CONTENT_COUNT(members))
                        return false;
                for (size_t i = 0; i < CONTENT_COUNT(members); i++) {
                        const json_t *text = json_object_get(item, members[i].name);

                        if (!json_is_string(text) || json_string_length(text) > members[i].most)
                                return false;
                }
        }
        return true;
}

bool content_is_context(const char *name) {
        static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
        size_t length = strspn(name, allowed);

        return length > 0 && length <= 64 && !name[length];
}
