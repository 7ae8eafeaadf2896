/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A walk along both, as deep as the tables are: what nests deeper than those has a member that is not known. Nothing that was sent is
 * repeated but names of members, cut short; a value may be a secret.
 */
#include "schema/json_check.h"

#include "base/json.h"
#include "base/text.h"
#include "schema/decode.h"
#include "schema/loading.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define WHOLE_MAX 9007199254740992.0 /* 2^53: up to there each whole number is one of its kind */
#define NAME_SHOWN 100               /* bytes of a member's name that messages repeat */

/* A replacement text, set once the old one is not used any more (`patterns`). */
struct replaced {
        struct replaced *next;
        json_t *value;
        const char *text;
};

struct check {
        struct arena *arena;
        struct replaced **replaced;
        struct patterns **patterns; /* NULL behind it until the first text that has one: they take 11 KB */
};

static const char *check_object(const struct check *check, const char *path, const struct field *fields,
                                const struct field_group *groups, json_t *object);

static const char *type_words(enum field_type type) {
        switch (type) {
        case FIELD_BOOLEAN:
                return "true or false";
        case FIELD_INTEGER:
                return "a whole number";
        case FIELD_TEXT:
                return "a text";
        case FIELD_LIST:
                return "a list";
        case FIELD_ONE_OF:
                return "a text or an object";
        case FIELD_MAP:
        case FIELD_OBJECT:
        default:
                return "an object";
        }
}

static bool has_type(enum field_type type, const json_t *value) {
        switch (type) {
        case FIELD_BOOLEAN:
                return json_is_boolean(value);
        case FIELD_INTEGER:
                return json_is_integer(value);
        case FIELD_TEXT:
                return json_is_string(value);
        case FIELD_LIST:
                return json_is_array(value);
        case FIELD_ONE_OF:
                return json_is_string(value) || json_is_object(value);
        case FIELD_MAP:
        case FIELD_OBJECT:
        default:
                return json_is_object(value);
        }
}

static const char *member_path(const struct check *check, const char *path, const char *name) {
        return arena_printf(check->arena, "%s%s%.*s", path, *path ? "." : "", NAME_SHOWN, name);
}

static bool is_base64(const char *text, size_t length) {
        static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        size_t whole = strspn(text, letters);

        return length % 4 == 0 && length - whole <= 2 && strspn(text + whole, "=") == length - whole;
}

/* 0 to 0: anything goes. */
static bool is_within(const struct field *field, int64_t number) {
        return (field->minimum == 0 && field->maximum == 0) ||
               (number >= field->minimum && number <= field->maximum);
}

static const char *check_length(const struct check *check, const char *path, const struct field *field,
                                size_t length) {
        if (is_within(field, (int64_t)length))
                return NULL;
        return arena_printf(check->arena, "%s must have %s, found %zu", path,
                            field_length_phrase(check->arena, field), length);
}

/* `text` is the object's own, as long as the check takes: patterns remember where those lie that fitted. */
static const char *check_json_text(const struct check *check, const char *path, const struct field *field,
                                   const char *text, size_t length) {
        const char *wrong;

        for (size_t i = 0; field->choices_text && field->choices_text[i]; i++) {
                if (strcmp(field->choices_text[i], text) == 0)
                        return NULL;
        }
        if (field->choices_text)
                return arena_printf(check->arena, "%s must be %s", path,
                                    field_range_phrase(check->arena, field));
        if (strlen(text) != length)
                return arena_printf(check->arena, "%s must be a text without NUL", path);
        wrong = check_length(check, path, field, text_characters(text, length));
        if (wrong)
                return wrong;
        if (field->pattern && !*check->patterns)
                *check->patterns = patterns_new(check->arena);
        if (field->pattern && !patterns_match(*check->patterns, field->pattern, text))
                return arena_printf(check->arena, "%s must be %s", path, field->pattern_message);
        if (field->base64 && !is_base64(text, length))
                return arena_printf(check->arena, "%s must be base64 with padding", path);
        return NULL;
}

static void replace(const struct check *check, json_t *value, const char *text) {
        struct replaced *replaced = arena_alloc(check->arena, sizeof(*replaced));

        *replaced = (struct replaced){ *check->replaced, value, text };
        *check->replaced = replaced;
}

static const char *check_value(const struct check *check, const char *path, const struct field *field,
                               json_t *value) {
        const char *wrong = NULL, *name;
        json_t *item;
        size_t index;

        if (!has_type(field->type, value))
                return arena_printf(check->arena, "%s must be %s", path, type_words(field->type));
        switch (field->type) {
        case FIELD_INTEGER:
                if (!is_within(field, json_integer_value(value)))
                        return arena_printf(check->arena, "%s must be %s, found %" PRId64, path,
                                            field_range_phrase(check->arena, field),
                                            (int64_t)json_integer_value(value));
                return NULL;
        case FIELD_TEXT:
                wrong = check_json_text(check, path, field, json_string_value(value),
                                        json_string_length(value));
                if (!wrong && field->plain)
                        replace(check, value, field->plain(json_string_value(value), check->arena));
                return wrong;
        case FIELD_LIST:
                wrong = check_length(check, path, field, json_array_size(value));
                json_array_foreach (value, index, item) {
                        if (wrong)
                                break;
                        wrong = check_value(check, arena_printf(check->arena, "%s[%zu]", path, index),
                                            field->item, item);
                }
                return wrong;
        case FIELD_MAP:
                wrong = check_length(check, path, field, json_object_size(value));
                json_object_foreach (value, name, item) {
                        if (wrong)
                                break;
                        wrong = check_json_text(check, arena_printf(check->arena, "a name in %s", path),
                                                field->keys, name, strlen(name));
                        if (!wrong)
                                wrong = check_value(check, member_path(check, path, name), field->item, item);
                }
                return wrong;
        case FIELD_OBJECT:
                return check_object(check, path, field->fields, field->groups, value);
        case FIELD_ONE_OF:
                return json_is_string(value)
                               ? check_json_text(check, path, field->item, json_string_value(value),
                                                 json_string_length(value))
                               : check_object(check, path, field->fields, field->groups, value);
        case FIELD_BOOLEAN:
        default:
                return NULL;
        }
}

static const char *check_group(const struct check *check, const char *path, const struct field_group *group,
                               const json_t *object) {
        const char *names = "";
        size_t given = 0;

        for (const char *const *name = group->names; *name; name++) {
                const json_t *member = json_object_get(object, *name);

                given += member && !json_is_null(member);
                names = arena_printf(check->arena, "%s%s%s", names,
                                     name == group->names ? ""
                                     : name[1]            ? ", "
                                                          : " or ",
                                     member_path(check, path, *name));
        }
        if (given == 1 || (given > 1 && !group->exactly_one))
                return NULL;
        return arena_printf(check->arena, "%s must be given%s", names,
                            group->exactly_one ? ", one of them" : "");
}

/* To JSON Schema 5.0 is an integer. */
static bool is_whole(const json_t *value) {
        double number = json_real_value(value);

        return json_is_real(value) && number >= -WHOLE_MAX && number <= WHOLE_MAX &&
               number == (double)(json_int_t)number;
}

static const char *check_object(const struct check *check, const char *path, const struct field *fields,
                                const struct field_group *groups, json_t *object) {
        const char *name, *wrong;
        json_t *value;

        json_object_foreach (object, name, value) {
                const struct field *field = field_find(fields, name);

                if (!field)
                        return arena_printf(check->arena, "the member %s is not known",
                                            member_path(check, path, name));
                if (json_is_null(value))
                        continue;
                if (field->type == FIELD_INTEGER && is_whole(value)) {
                        value = json_checked(json_integer((json_int_t)json_real_value(value)));
                        json_put(object, name, value); /* in its place: the walk goes on */
                }
                wrong = check_value(check, member_path(check, path, name), field, value);
                if (wrong)
                        return wrong;
        }
        for (const struct field *field = fields; field->name; field++) {
                value = json_object_get(object, field->name);
                if (field->required && (!value || json_is_null(value)))
                        return arena_printf(check->arena, "%s is required",
                                            member_path(check, path, field->name));
        }
        for (const struct field_group *group = groups; group && group->names; group++) {
                wrong = check_group(check, path, group, object);
                if (wrong)
                        return wrong;
        }
        return NULL;
}

const char *json_check(json_t *object, const struct field *fields, const struct field_group *groups,
                       struct arena *arena) {
        struct patterns *patterns = NULL;
        struct replaced *replaced = NULL;
        const struct check check = { .arena = arena, .replaced = &replaced, .patterns = &patterns };
        const char *wrong = check_object(&check, "", fields, groups, object);

        patterns_release(patterns);
        for (; !wrong && replaced; replaced = replaced->next) {
                if (json_string_set(replaced->value, replaced->text) < 0)
                        abort();
        }
        return wrong;
}
