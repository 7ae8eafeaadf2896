/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes to typed values, driven by the field tables. Positions go with the values: later checks point at them. */
#include "schema/decode.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FIELDS_MAX 32U /* of one table */
#define SMALL_MAP 16U

struct place decode_place(const struct decoder *decoder, const struct node *node) {
        return (struct place){ .file = decoder->file, .line = node->line, .column = node->column };
}

static void append_path(struct strbuf *path, const struct frame *frame) {
        if (!frame)
                return;
        append_path(path, frame->up);
        if (frame->name) {
                if (path->length > 0)
                        strbuf_append_char(path, '.');
                strbuf_append(path, frame->name);
        } else if (frame->index > 0) {
                strbuf_printf(path, "[%u]", frame->index - 1);
        }
}

const char *decode_path(const struct decoder *decoder, const struct frame *frame) {
        struct strbuf path STRBUF_CLEANUP = STRBUF_INIT;

        append_path(&path, frame);
        return arena_strdup(decoder->loading->arena, strbuf_text(&path));
}

/* A field that is missing has no place of its own: its map's key has, or the map. */
static struct place place_of_object(const struct decoder *decoder, const struct node *node,
                                    const struct frame *frame) {
        return decode_place(decoder, frame && frame->key ? frame->key : node);
}

static struct value positioned(const struct decoder *decoder, const struct node *node, uint8_t type) {
        return (struct value){
                .type = type,
                .file = decoder->file,
                .line = node->line,
                .column = node->column,
        };
}

static void wrong_type(const struct decoder *decoder, const struct field *field, const struct node *node,
                       const struct frame *frame) {
        problem_error(decoder->loading, decode_place(decoder, node),
                      field_type_hint(decoder->loading, field, node), "%s must be %s, found %s",
                      decode_path(decoder, frame), field_type_phrase(field),
                      node_phrase(decoder->loading, node));
}

static bool decode_boolean(const struct decoder *decoder, const struct field *field, const struct node *node,
                           const struct frame *frame, struct value *ret) {
        const struct node *target = node_target(node);

        if (target->type != NODE_SCALAR || scalar_type_of(target) != SCALAR_BOOLEAN) {
                wrong_type(decoder, field, node, frame);
                return false;
        }
        *ret = positioned(decoder, node, VALUE_BOOLEAN);
        ret->boolean = scalar_boolean(target);
        if (field->choices_text && strcmp(field->choices_text[0], ret->boolean ? "true" : "false") != 0) {
                problem_error(decoder->loading, decode_place(decoder, node), NULL, "%s can only be %s",
                              decode_path(decoder, frame), field->choices_text[0]);
                return false;
        }
        return true;
}

static bool is_allowed_integer(const struct field *field, int64_t integer) {
        if (field->choices_integer) {
                for (const int64_t *choice = field->choices_integer; *choice >= 0; choice++) {
                        if (*choice == integer)
                                return true;
                }
                return false;
        }
        return (field->minimum == 0 && field->maximum == 0) ||
               (integer >= field->minimum && integer <= field->maximum);
}

static bool decode_integer(const struct decoder *decoder, const struct field *field, const struct node *node,
                           const struct frame *frame, struct value *ret) {
        const struct node *target = node_target(node);
        int64_t integer = 0;

        if (target->type != NODE_SCALAR || scalar_type_of(target) != SCALAR_INTEGER) {
                wrong_type(decoder, field, node, frame);
                return false;
        }
        if (!scalar_integer(target, &integer) || !is_allowed_integer(field, integer)) {
                problem_error(decoder->loading, decode_place(decoder, node), NULL,
                              "%s must be %s, found %.40s", decode_path(decoder, frame),
                              field_range_phrase(decoder->loading->arena, field), target->text);
                return false;
        }
        *ret = positioned(decoder, node, VALUE_INTEGER);
        ret->integer = integer;
        return true;
}

static size_t count_choices(const char *const *choices) {
        size_t count = 0;

        while (choices[count])
                count++;
        return count;
}

static bool decode_choice(const struct decoder *decoder, const struct field *field, const struct node *node,
                          const struct frame *frame, struct value *ret) {
        const char *text = node_target(node)->text;

        for (const char *const *choice = field->choices_text; *choice; choice++) {
                if (strcmp(*choice, text) == 0) {
                        ret->text = *choice;
                        return true;
                }
        }
        problem_error(decoder->loading, decode_place(decoder, node),
                      problem_suggest(decoder->loading, text, field->choices_text,
                                      count_choices(field->choices_text)),
                      "%s must be %s, found %s", decode_path(decoder, frame),
                      field_range_phrase(decoder->loading->arena, field),
                      node_phrase(decoder->loading, node));
        return false;
}

static int64_t count_characters(const char *text, size_t length) {
        int64_t count = 0;

        for (size_t i = 0; i < length; i++)
                count += ((unsigned char)text[i] & 0xC0) != 0x80;
        return count;
}

static bool is_refused(const struct field *field, const char *text) {
        for (size_t i = 0; field->refused && field->refused[i]; i++) {
                if (strcmp(field->refused[i], text) == 0)
                        return true;
        }
        return false;
}

static bool check_text(const struct decoder *decoder, const struct field *field, const struct node *node,
                       const struct frame *frame, const struct value *text) {
        struct loading *loading = decoder->loading;

        if (field->minimum != 0 || field->maximum != 0) {
                int64_t length = count_characters(text->text, text->count);

                if (length < field->minimum || length > field->maximum) {
                        problem_error(loading, decode_place(decoder, node), NULL,
                                      "%s must have %s, found %" PRId64, decode_path(decoder, frame),
                                      field_length_phrase(loading->arena, field), length);
                        return false;
                }
        }
        if (field->pattern && !patterns_match(loading->patterns, field->pattern, text->text)) {
                problem_error(loading, decode_place(decoder, node), field_pattern_hint(field, text->text),
                              "%s must be %s, found %s", decode_path(decoder, frame), field->pattern_message,
                              node_phrase(loading, node));
                return false;
        }
        if (is_refused(field, text->text)) {
                problem_error(loading, decode_place(decoder, node), NULL, "%s %s", text->text,
                              field->refused_message);
                return false;
        }
        return true;
}

static bool decode_text(const struct decoder *decoder, const struct field *field, const struct node *node,
                        const struct frame *frame, struct value *ret) {
        const struct node *target = node_target(node);

        if (target->type != NODE_SCALAR) {
                wrong_type(decoder, field, node, frame);
                return false;
        }
        *ret = positioned(decoder, node, VALUE_TEXT);
        ret->count = target->count;
        if (field->choices_text)
                return decode_choice(decoder, field, node, frame, ret);
        ret->text = arena_strndup(decoder->loading->arena, target->text, target->count);
        return check_text(decoder, field, node, frame, ret);
}

static bool is_null(const struct node *node) {
        const struct node *target = node_target(node);

        return target->type == NODE_SCALAR && scalar_type_of(target) == SCALAR_NULL;
}

static bool check_count(const struct decoder *decoder, const struct field *field, const struct node *node,
                        const struct frame *frame, uint32_t count) {
        if ((field->minimum == 0 && field->maximum == 0) ||
            (count >= field->minimum && count <= field->maximum))
                return true;
        problem_error(decoder->loading, decode_place(decoder, node), NULL, "%s must have %s, found %u",
                      decode_path(decoder, frame), field_length_phrase(decoder->loading->arena, field),
                      count);
        return false;
}

/*
 * Of a value with errors, lists and maps stay with what could be read of them, and are checked further; anything else
 * becomes null, so that nobody calls it missing.
 */
static void keep_readable(const struct decoder *decoder, const struct node *node, struct value *value) {
        if (value->type != VALUE_LIST && value->type != VALUE_MAP)
                *value = positioned(decoder, node, VALUE_NULL);
}

/* An item or a free key's value: unlike a field it cannot be left out by writing nothing. */
static bool decode_item(const struct decoder *decoder, const struct field *field, const struct node *node,
                        const struct frame *frame, struct value *ret) {
        if (is_null(node)) {
                problem_error(decoder->loading, decode_place(decoder, node),
                              field->type == FIELD_TEXT || field->type == FIELD_ONE_OF
                                      ? "an empty text is written \"\""
                                      : NULL,
                              "%s has no value", decode_path(decoder, frame));
                return false;
        }
        if (decode_value(decoder, field, node, frame, ret))
                return true;
        keep_readable(decoder, node, ret);
        return false;
}

static bool decode_list(const struct decoder *decoder, const struct field *field, const struct node *node,
                        const struct frame *frame, struct value *ret) {
        const struct node *target = node_target(node);
        bool good;

        if (target->type != NODE_LIST) {
                wrong_type(decoder, field, node, frame);
                return false;
        }
        good = check_count(decoder, field, node, frame, target->count);
        *ret = positioned(decoder, node, VALUE_LIST);
        ret->items = arena_array(decoder->loading->arena, value_capacity(target->count), sizeof(*ret->items));
        for (const struct node *item = target->first; item; item = item->next) {
                struct frame below = { .up = frame, .index = ret->count + 1 };

                good = decode_item(decoder, field->item, item, &below, &ret->items[ret->count]) && good;
                ret->count++;
        }
        return good;
}

/* The text of a key, or NULL where it cannot be one, which is reported. */
static const char *key_text(const struct decoder *decoder, const struct node *key) {
        const struct node *target = node_target(key);

        if (target->type == NODE_BROKEN)
                return NULL;
        if (target->type != NODE_SCALAR || (target->plain && target->count == 0)) {
                problem_error(decoder->loading, decode_place(decoder, key), NULL,
                              "a key must be a text, found %s", node_phrase(decoder->loading, key));
                return NULL;
        }
        return target->text;
}

static void report_duplicate(const struct decoder *decoder, const struct node *key, uint32_t first_line) {
        problem_error(decoder->loading, decode_place(decoder, key), NULL,
                      "%.100s is given twice, first on line %u", node_target(key)->text, first_line);
}

static int compare_members(const void *a, const void *b) {
        const struct member *const *left = a, *const *right = b;
        int order = strcmp((*left)->name, (*right)->name);

        if (order != 0)
                return order;
        return *left < *right ? -1 : *left > *right;
}

/* Of a map with free keys: whether no key stands twice. */
static bool check_duplicates(const struct decoder *decoder, const struct value *map) {
        struct member *small[SMALL_MAP];
        struct member **sorted = small;
        bool good = true;

        if (map->count > SMALL_MAP)
                sorted = calloc(map->count, sizeof(struct member *));
        if (!sorted)
                abort();
        for (uint32_t i = 0; i < map->count; i++)
                sorted[i] = &map->members[i];
        if (map->count > 1)
                qsort(sorted, map->count, sizeof(struct member *), compare_members);
        for (uint32_t i = 1; i < map->count; i++) {
                if (strcmp(sorted[i - 1]->name, sorted[i]->name) != 0)
                        continue;
                problem_error(decoder->loading,
                              (struct place){ decoder->file, sorted[i]->line, sorted[i]->column }, NULL,
                              "%.100s is given twice, first on line %u", sorted[i]->name,
                              sorted[i - 1]->line);
                good = false;
        }
        if (sorted != small)
                free(sorted);
        return good;
}

static bool check_key(const struct decoder *decoder, const struct field *keys, const struct node *key,
                      const struct frame *frame, const struct member *member) {
        struct frame named = { .up = frame, .name = member->name, .key = key };
        struct value text = { .type = VALUE_TEXT, .text = member->name };

        text.count = (uint32_t)strlen(member->name);
        return !keys || check_text(decoder, keys, key, &named, &text);
}

static bool decode_map(const struct decoder *decoder, const struct field *field, const struct node *node,
                       const struct frame *frame, struct value *ret) {
        const struct node *target = node_target(node);
        bool good;

        if (target->type != NODE_MAP) {
                wrong_type(decoder, field, node, frame);
                return false;
        }
        good = check_count(decoder, field, node, frame, target->count / 2);
        *ret = positioned(decoder, node, VALUE_MAP);
        ret->members = arena_array(decoder->loading->arena, value_capacity(target->count / 2),
                                   sizeof(*ret->members));
        for (const struct node *key = target->first; key; key = key->next->next) {
                const char *name = key_text(decoder, key);
                struct member *member = &ret->members[ret->count];
                struct frame below = { .up = frame, .name = name, .key = key };

                if (!name) {
                        good = false;
                        continue;
                }
                member->name = arena_strdup(decoder->loading->arena, name);
                member->line = key->line;
                member->column = key->column;
                good = check_key(decoder, field->keys, key, frame, member) && good;
                good = decode_item(decoder, field->item, key->next, &below, &member->value) && good;
                ret->count++;
        }
        return check_duplicates(decoder, ret) && good;
}

/* What was given of an object's fields, by the field's place in the table. */
struct given {
        const struct node *keys[FIELDS_MAX];
        bool has_value[FIELDS_MAX]; /* written, and not null, which is as good as not written */
        size_t field_count;
};

static bool is_given(const struct given *given, const struct field *fields, const char *name) {
        for (size_t i = 0; i < given->field_count; i++) {
                if (strcmp(fields[i].name, name) == 0)
                        return given->has_value[i];
        }
        return false;
}

static void unknown_field(const struct decoder *decoder, const struct field *fields, const struct node *key) {
        const char *names[FIELDS_MAX];
        struct strbuf known STRBUF_CLEANUP = STRBUF_INIT;
        const char *text = node_target(key)->text, *hint;
        size_t count = 0;

        for (const struct field *field = fields; field->name; field++) {
                strbuf_printf(&known, "%s%s", count > 0 ? ", " : "", field->name);
                names[count++] = field->name;
        }
        hint = problem_suggest(decoder->loading, text, names, count);
        if (!hint)
                hint = arena_printf(decoder->loading->arena, "known here: %s", strbuf_text(&known));
        if (strcmp(text, "<<") == 0)
                hint = "merge keys are not part of YAML 1.2: write the fields out, or use an alias for the whole map";
        problem_error(decoder->loading, decode_place(decoder, key), hint, "unknown field \"%.100s\"", text);
}

/* Sorts the keys of an object to the fields of its table; reports what is unknown or there twice. */
static bool gather_given(const struct decoder *decoder, const struct field *fields, const struct node *node,
                         struct given *ret) {
        size_t expected = 0;
        bool good = true;

        while (fields[ret->field_count].name)
                ret->field_count++;
        if (ret->field_count > FIELDS_MAX)
                abort();
        for (const struct node *key = node->first; key; key = key->next->next) {
                const char *name = key_text(decoder, key);
                size_t at = expected;

                if (!name) {
                        good = false;
                        continue;
                }
                /* Fields mostly come in the table's order: look at the next one first. */
                for (size_t tries = 0; tries < ret->field_count; tries++, at++) {
                        if (at >= ret->field_count)
                                at = 0;
                        if (fields[at].name[0] == name[0] && strcmp(fields[at].name, name) == 0)
                                break;
                }
                if (at >= ret->field_count || strcmp(fields[at].name, name) != 0) {
                        unknown_field(decoder, fields, key);
                        good = false;
                } else if (ret->keys[at]) {
                        report_duplicate(decoder, key, ret->keys[at]->line);
                        good = false;
                } else {
                        ret->keys[at] = key;
                        ret->has_value[at] = !is_null(key->next);
                        expected = at + 1;
                }
        }
        return good;
}

static const char *join_names(const struct decoder *decoder, const char *const *names) {
        struct strbuf joined STRBUF_CLEANUP = STRBUF_INIT;

        for (size_t i = 0; names[i]; i++)
                strbuf_printf(&joined, "%s%s", i == 0 ? "" : names[i + 1] ? ", " : " or ", names[i]);
        return arena_strdup(decoder->loading->arena, strbuf_text(&joined));
}

static bool check_group(const struct decoder *decoder, const struct field *fields,
                        const struct field_group *group, const struct given *given, const struct node *node,
                        const struct frame *frame) {
        const struct node *first = NULL;
        const char *path;

        for (const char *const *name = group->names; *name; name++) {
                const struct node *key;

                if (!is_given(given, fields, *name))
                        continue;
                key = given->keys[field_find(fields, *name) - fields];
                if (!first) {
                        first = key;
                } else if (group->exactly_one) {
                        bool later = key->line > first->line ||
                                     (key->line == first->line && key->column > first->column);

                        problem_error(decoder->loading, decode_place(decoder, later ? key : first), NULL,
                                      "only one of %s can be given", join_names(decoder, group->names));
                        return false;
                }
        }
        if (first)
                return true;
        path = decode_path(decoder, frame);
        problem_error(decoder->loading, place_of_object(decoder, node, frame), NULL, "%s needs %s%s",
                      *path ? path : "spec", group->exactly_one ? "" : "at least one of ",
                      join_names(decoder, group->names));
        return false;
}

static bool check_given(const struct decoder *decoder, const struct field *fields,
                        const struct field_group *groups, const struct given *given, const struct node *node,
                        const struct frame *frame) {
        bool good = true;

        for (size_t i = 0; i < given->field_count; i++) {
                const struct field *field = &fields[i];
                bool present = given->has_value[i];

                if (field->required && !present) {
                        const char *path = decode_path(decoder, frame);

                        problem_error(decoder->loading,
                                      given->keys[i] ? decode_place(decoder, given->keys[i])
                                                     : place_of_object(decoder, node, frame),
                                      NULL, "%s is required%s%s", field->name, *path ? " in " : "", path);
                        good = false;
                }
                if (field->needs && present && !is_given(given, fields, field->needs)) {
                        problem_error(decoder->loading, decode_place(decoder, given->keys[i]), NULL,
                                      "%s means nothing without %s", field->name, field->needs);
                        good = false;
                }
        }
        for (const struct field_group *group = groups; good && group && group->names; group++)
                good = check_group(decoder, fields, group, given, node, frame);
        return good;
}

static bool has_default(const struct given *given, const struct field *fields, const struct field *field) {
        return field->default_text && (!field->needs || is_given(given, fields, field->needs));
}

struct value decode_default(const struct field *field) {
        const char *text = field->default_text;

        switch (field->type) {
        case FIELD_BOOLEAN:
                return value_boolean(strcmp(text, "true") == 0);
        case FIELD_INTEGER:
                return value_integer(strtoll(text, NULL, 10));
        default:
                return (struct value){ .type = VALUE_TEXT, .count = (uint32_t)strlen(text), .text = text };
        }
}

bool decode_object(const struct decoder *decoder, const struct field *fields,
                   const struct field_group *groups, const struct node *node, const struct frame *frame,
                   struct value *ret) {
        const struct node *target = node_target(node);
        struct given given = { 0 };
        size_t count = 0;
        bool good;

        good = gather_given(decoder, fields, target, &given);
        good = check_given(decoder, fields, groups, &given, node, frame) && good;
        for (size_t i = 0; i < given.field_count; i++)
                count += given.has_value[i] || has_default(&given, fields, &fields[i]);
        *ret = positioned(decoder, node, VALUE_MAP);
        ret->members = arena_array(decoder->loading->arena, value_capacity(count), sizeof(*ret->members));
        for (size_t i = 0; i < given.field_count; i++) {
                const struct node *key = given.keys[i];
                struct frame below = { .up = frame, .name = fields[i].name, .key = key };
                struct member *member;

                if (!given.has_value[i])
                        key = NULL;
                if (!key && !has_default(&given, fields, &fields[i]))
                        continue;
                member = &ret->members[ret->count++];
                member->name = fields[i].name;
                if (!key) {
                        member->value = decode_default(&fields[i]);
                        continue;
                }
                member->line = key->line;
                member->column = key->column;
                if (!decode_value(decoder, &fields[i], key->next, &below, &member->value)) {
                        keep_readable(decoder, key->next, &member->value);
                        good = false;
                }
        }
        return good;
}

/* Every scalar below the node is taken for a secret, also such as was broken by what it holds. */
static void hide(const struct decoder *decoder, const struct node *node) {
        const struct node *target = node_target(node);

        if (target->type == NODE_SCALAR || (target->type == NODE_BROKEN && target->end_line > 0))
                problem_add_secret(decoder->loading, (struct secret_place){
                                                             .file = decoder->file,
                                                             .line = target->line,
                                                             .column = target->column,
                                                             .end_line = target->end_line,
                                                             .end_column = target->end_column,
                                                     });
        else if (target->type == NODE_LIST || target->type == NODE_MAP)
                for (const struct node *child = target->first; child; child = child->next)
                        hide(decoder, child);
}

static bool is_key(const struct node *key, const char *name) {
        const struct node *target = node_target(key);

        return target->type == NODE_SCALAR && strcmp(target->text, name) == 0;
}

static void hide_all_but_sensitive(const struct decoder *decoder, const struct node *map) {
        for (const struct node *key = map->first; key; key = key->next->next) {
                if (!is_key(key, "sensitive"))
                        hide(decoder, key->next);
        }
}

static bool is_false(const struct node *node) {
        const struct node *target = node_target(node);

        return target->type == NODE_SCALAR && scalar_type_of(target) == SCALAR_BOOLEAN &&
               !scalar_boolean(target);
}

void decode_hide_secrets(const struct decoder *decoder, const struct node *node) {
        if (node->type != NODE_LIST && node->type != NODE_MAP)
                return;
        for (const struct node *key = node->first; node->type == NODE_MAP && key; key = key->next->next) {
                if (is_key(key, "sensitive") && !is_false(key->next)) {
                        hide_all_but_sensitive(decoder, node);
                        return;
                }
        }
        for (const struct node *child = node->first; child; child = child->next)
                decode_hide_secrets(decoder, child);
}

/* {value: text, sensitive: true}: becomes the text, marked. */
static bool decode_sensitive(const struct decoder *decoder, const struct field *field,
                             const struct node *node, const struct frame *frame, struct value *ret) {
        const struct node *target = node_target(node);
        struct value object;
        bool good = decode_object(decoder, field->fields, field->groups, node, frame, &object);
        const struct value *text = typed_member(&object, "value", VALUE_TEXT);
        bool sensitive = value_get_boolean(&object, "sensitive", true);

        /* Where the object is wrong, what it holds may be a secret even if the word is missing. */
        if (sensitive || !good)
                hide_all_but_sensitive(decoder, target);
        if (!good || !text)
                return false;
        *ret = *text;
        ret->sensitive = sensitive;
        return true;
}

static bool decode_one_of(const struct decoder *decoder, const struct field *field, const struct node *node,
                          const struct frame *frame, struct value *ret) {
        const struct node *target = node_target(node);

        if (target->type == NODE_SCALAR)
                return decode_text(decoder, field->item, node, frame, ret);
        if (target->type != NODE_MAP) {
                wrong_type(decoder, field, node, frame);
                return false;
        }
        if (field->sensitive_item)
                return decode_sensitive(decoder, field, node, frame, ret);
        return decode_object(decoder, field->fields, field->groups, node, frame, ret);
}

bool decode_value(const struct decoder *decoder, const struct field *field, const struct node *node,
                  const struct frame *frame, struct value *ret) {
        if (node_target(node)->type == NODE_BROKEN)
                return false;
        switch (field->type) {
        case FIELD_BOOLEAN:
                return decode_boolean(decoder, field, node, frame, ret);
        case FIELD_INTEGER:
                return decode_integer(decoder, field, node, frame, ret);
        case FIELD_TEXT:
                return decode_text(decoder, field, node, frame, ret);
        case FIELD_LIST:
                return decode_list(decoder, field, node, frame, ret);
        case FIELD_MAP:
                return decode_map(decoder, field, node, frame, ret);
        case FIELD_ONE_OF:
                return decode_one_of(decoder, field, node, frame, ret);
        case FIELD_OBJECT:
                break;
        }
        if (node_target(node)->type != NODE_MAP) {
                wrong_type(decoder, field, node, frame);
                return false;
        }
        return decode_object(decoder, field->fields, field->groups, node, frame, ret);
}
