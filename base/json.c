/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "base/text_utf8.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local unsigned secret_depth;

/* Not only the texts of values: the parser and the writer have buffers of their own, which grow. */
static void give_memory_back(void *memory) {
        if (secret_depth > 0)
                memory_free_wiped(memory);
        else
                free(memory);
}

/* Before any thread, and before the first value. */
__attribute__((constructor)) static void set_memory_functions(void) {
        json_set_alloc_funcs(memory_new, give_memory_back);
}

void json_secret_begin(void) {
        secret_depth++;
}

void json_secret_end(void) {
        secret_depth--;
}

void json_forget(json_t *json) {
        json_secret_begin();
        json_decref(json);
        json_secret_end();
}

const char *json_text(const json_t *object, const char *name) {
        return json_string_value(json_object_get(object, name));
}

json_int_t json_integer_or(const json_t *object, const char *name, json_int_t otherwise) {
        const json_t *member = json_object_get(object, name);

        return json_is_integer(member) ? json_integer_value(member) : otherwise;
}

json_t *json_checked(json_t *json) {
        if (!json)
                abort();
        return json;
}

void json_put(json_t *object, const char *name, json_t *value) {
        if (json_object_set_new(object, name, value) != 0)
                abort();
}

void json_add(json_t *array, json_t *value) {
        if (json_array_append_new(array, value) != 0)
                abort();
}

/* jansson refuses text that is not UTF-8, and names of files need not be. */
json_t *json_from_text(const char *text) {
        struct strbuf valid STRBUF_CLEANUP = STRBUF_INIT;
        json_t *json = text ? json_string(text) : json_null();

        if (!json) {
                text_append_utf8(&valid, text);
                json = json_string(strbuf_text(&valid));
        }
        if (!json)
                abort();
        return json;
}

json_t *json_from_time(int64_t wall_ms) {
        char text[32];

        if (wall_ms <= 0)
                return json_null();
        clock_format(wall_ms, text, sizeof(text));
        return json_checked(json_string(text));
}

json_t *json_from_texts(const char *const *texts, size_t count) {
        json_t *list = json_checked(json_array());

        for (size_t i = 0; i < count; i++)
                json_add(list, json_from_text(texts[i]));
        return list;
}

void json_set_text(json_t *object, const char *name, const char *text) {
        if (text)
                json_put(object, name, json_from_text(text));
}

struct json_extent json_measure(const char *text, size_t length) {
        struct json_extent extent = { 0, 0 };
        unsigned depth = 0;
        bool quoted = false;

        for (size_t i = 0; i < length; i++) {
                char byte = text[i];

                if (quoted && byte == '\\')
                        i++;
                else if (byte == '"')
                        quoted = !quoted;
                if (quoted || !byte || !strchr("[{]},:", byte))
                        continue;
                if ((byte == '[' || byte == '{') && ++depth > extent.depth)
                        extent.depth = depth;
                if ((byte == ']' || byte == '}') && depth > 0)
                        depth--;
                extent.values++;
        }
        return extent;
}

char *json_compact(const json_t *json) {
        char *text = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);

        if (!text)
                abort();
        return text;
}

char *json_plain(const json_t *json) {
        char *text = json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY);

        if (!text)
                abort();
        return text;
}

char *json_for_eyes(const json_t *json, size_t flags) {
        char *text = json_dumps(json, JSON_INDENT(2) | JSON_ENCODE_ANY | flags);
        struct strbuf shown = STRBUF_INIT;

        if (!text)
                abort();
        text_append_json_safe(&shown, text);
        free(text);
        return strbuf_take(&shown);
}
