/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/mcp/mcp_arguments.h"

#include "base/json.h"
#include "base/strbuf.h"
#include "base/text.h"

#include <inttypes.h>
#include <string.h>

#define NUMBER_MAX ((size_t)32) /* bytes of a number that is written as a text */

static bool is_empty(const json_t *value) {
        return (json_is_string(value) && json_string_length(value) == 0) ||
               ((json_is_array(value) || json_is_object(value)) && json_array_size(value) == 0 &&
                json_object_size(value) == 0);
}

static void rename_session(json_t *arguments, const struct field *fields) {
        json_t *older = json_object_get(arguments, "session"),
               *newer = json_object_get(arguments, "session_id");

        if (!older || !field_find(fields, "session_id"))
                return;
        if (!newer || json_is_null(newer) || is_empty(newer))
                json_put(arguments, "session_id", json_incref(older));
        else if (!json_is_null(older) && !is_empty(older) && !json_equal(older, newer))
                return; /* of two sessions neither is meant for certain */
        json_object_del(arguments, "session");
}

/* All but one that has something, else the first of them. */
static void remove_empty_of_group(json_t *arguments, const struct field_group *group) {
        const char *stays = NULL;

        for (const char *const *name = group->names; *name; name++) {
                const json_t *value = json_object_get(arguments, *name);

                if (value && !json_is_null(value) && (!is_empty(value) || !stays)) {
                        stays = *name;
                        if (!is_empty(value))
                                break;
                }
        }
        for (const char *const *name = group->names; *name; name++) {
                if (stays && strcmp(*name, stays) != 0 && is_empty(json_object_get(arguments, *name)))
                        json_object_del(arguments, *name);
        }
}

static void remove_empty(json_t *arguments, const struct field *fields, const struct field_group *groups) {
        for (const struct field *field = fields; field->name; field++) {
                bool grouped = false;

                for (const struct field_group *group = groups; group && group->names; group++)
                        grouped |= text_is_among(field->name, group->names);
                if (!field->required && !grouped && is_empty(json_object_get(arguments, field->name)))
                        json_object_del(arguments, field->name);
        }
        for (const struct field_group *group = groups; group && group->names; group++)
                remove_empty_of_group(arguments, group);
}

/* A new reference, or NULL where the text spells no number. */
static json_t *number_of(const json_t *text) {
        size_t length = json_string_length(text);
        json_t *number;

        if (length == 0 || length > NUMBER_MAX)
                return NULL;
        number = json_loadb(json_string_value(text), length, JSON_DECODE_ANY, NULL);
        if (json_is_number(number))
                return number;
        json_decref(number);
        return NULL;
}

static json_t *boolean_of(const json_t *text) {
        if (strcasecmp(json_string_value(text), "true") == 0)
                return json_true();
        return strcasecmp(json_string_value(text), "false") == 0 ? json_false() : NULL;
}

static json_t *choice_of(const struct field *field, const json_t *text) {
        for (const char *const *choice = field->choices_text; *choice; choice++) {
                if (strcasecmp(json_string_value(text), *choice) == 0)
                        return json_string(*choice);
        }
        return NULL;
}

/* NULL where an item is no such text, or a name stands twice. */
static json_t *map_of(const json_t *list) {
        json_t *map JSON_CLEANUP = json_checked(json_object()), *item;
        size_t index;

        json_array_foreach ((json_t *)(uintptr_t)list, index, item) {
                const char *text = json_string_value(item);
                const char *equals = text ? strchr(text, '=') : NULL;
                size_t length = equals ? (size_t)(equals - text) : 0, rest;

                if (length == 0 || json_object_getn(map, text, length))
                        return NULL;
                rest = json_string_length(item) - length - 1;
                if (json_object_setn_new(map, text, length, json_stringn(equals + 1, rest)) < 0)
                        abort();
        }
        return json_incref(map);
}

/* What the value means, a new reference; NULL: itself. */
static json_t *meant(const struct field *field, const json_t *value) {
        if (field->type == FIELD_INTEGER && json_is_string(value))
                return number_of(value);
        if (field->type == FIELD_BOOLEAN && json_is_string(value))
                return boolean_of(value);
        if (field->type == FIELD_TEXT && field->choices_text && json_is_string(value))
                return choice_of(field, value);
        if (field->type == FIELD_MAP && json_is_array(value))
                return map_of(value);
        return NULL;
}

static void bound(json_t *arguments, const struct field *field, struct strbuf *notes) {
        double number = json_number_value(json_object_get(arguments, field->name));

        if (field->type != FIELD_INTEGER || field->maximum <= 0 || number <= (double)field->maximum)
                return;
        json_put(arguments, field->name, json_integer(field->maximum));
        strbuf_printf(notes, "%s%s is %" PRId64 ", the most there is, in place of %.15g.",
                      notes->length ? " " : "", field->name, field->maximum, number);
}

const char *mcp_arguments_read(json_t *arguments, const struct field *fields,
                               const struct field_group *groups, struct arena *arena) {
        struct strbuf notes STRBUF_CLEANUP = STRBUF_INIT;

        rename_session(arguments, fields);
        remove_empty(arguments, fields, groups);
        for (const struct field *field = fields; field->name; field++) {
                const json_t *value = json_object_get(arguments, field->name);
                json_t *read = value ? meant(field, value) : NULL;

                if (read)
                        json_put(arguments, field->name, read);
                bound(arguments, field, &notes);
        }
        return arena_strdup(arena, strbuf_text(&notes));
}
