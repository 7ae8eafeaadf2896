/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes to typed values, driven by the field tables. Positions go with the values: later checks point at them.
 *
 * Each decode_TYPE() reports what is wrong with its own node and returns false; those of lists and maps go on with the next
 * item. What could be read is kept even then, so that the checks that follow can say more about it. Where in the document a
 * node stands is a chain of frames on the stack; the path is made of it only when there is something to report.
 *
 * Positions are those of the alias where one stands, not of what it points to: that is where people wrote the field.
 */
#include "schema/decode.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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

static void report_wrong_type(const struct decoder *decoder, const struct field *field,
                              const struct node *node, const struct frame *frame) {
        problem_error(decoder->loading, decode_place(decoder, node),
                      field_type_hint(decoder->loading, field, node), "%s must be %s, found %s",
                      decode_path(decoder, frame), field_type_phrase(field),
                      node_phrase(decoder->loading, node));
}

static bool decode_boolean(const struct decoder *decoder, const struct field *field, const struct node *node,
                           const struct frame *frame, struct value *ret) {
        const struct node *target = node_target(node);

        if (target->type != NODE_SCALAR || scalar_type_of(target) != SCALAR_BOOLEAN) {
                report_wrong_type(decoder, field, node, frame);
                return false;
        }
        *ret = decode_positioned(decoder, node, VALUE_BOOLEAN);
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
                report_wrong_type(decoder, field, node, frame);
                return false;
        }
        if (!scalar_integer(target, &integer) || !is_allowed_integer(field, integer)) {
                problem_error(decoder->loading, decode_place(decoder, node), NULL,
                              "%s must be %s, found %.40s", decode_path(decoder, frame),
                              field_range_phrase(decoder->loading->arena, field), target->text);
                return false;
        }
        *ret = decode_positioned(decoder, node, VALUE_INTEGER);
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

static bool is_refused(const struct field *field, const char *text) {
        return field->refused && text_is_among(text, field->refused);
}

/*
 * A text that Berth itself has nothing for, and that is near to one that it has: offline, this is
 * all that can be said.
 */
static void warn_of_near(const struct decoder *decoder, const struct field *field, const struct node *node,
                         const struct frame *frame, const char *text) {
        const char *hint;

        if (!field->known || !decoder->loading->options->offline || text_is_among(text, field->known))
                return;
        hint = problem_suggest(decoder->loading, text, field->known, count_choices(field->known));
        if (hint)
                problem_warning(decoder->loading, decode_place(decoder, node), hint,
                                "%s: Berth makes none of the name \"%s\"", decode_path(decoder, frame), text);
}

/*
 * Length, pattern, and the texts that are refused: the first that does not hold is reported. A URL that is wrong may
 * hold a password; then neither the message nor the quoted line repeats it.
 */
static bool check_text_field(const struct decoder *decoder, const struct field *field,
                             const struct node *node, const struct frame *frame, const struct value *text) {
        struct loading *loading = decoder->loading;

        if (field->minimum != 0 || field->maximum != 0) {
                int64_t length = (int64_t)text_characters(text->text, text->count);

                if (length < field->minimum || length > field->maximum) {
                        problem_error(loading, decode_place(decoder, node), NULL,
                                      "%s must have %s, found %" PRId64, decode_path(decoder, frame),
                                      field_length_phrase(loading->arena, field), length);
                        return false;
                }
        }
        if (field->pattern && !patterns_match(loading->patterns, field->pattern, text->text)) {
                bool password = field->url && decode_may_hold_password(text->text);
                bool secret = password || field->may_be_secret;

                if (secret)
                        decode_hide(decoder, node);
                problem_error(loading, decode_place(decoder, node),
                              password ? "passwords stand in files, not in a URL"
                              : secret ? NULL
                                       : field_pattern_hint(field, text->text),
                              "%s must be %s, found %s", decode_path(decoder, frame), field->pattern_message,
                              password ? "what may hold a password"
                              : secret ? "another text, which may be a secret"
                                       : node_phrase(loading, node));
                return false;
        }
        if (is_refused(field, text->text)) {
                problem_error(loading, decode_place(decoder, node), NULL, "%s %s", text->text,
                              field->refused_message);
                return false;
        }
        warn_of_near(decoder, field, node, frame, text->text);
        return true;
}

static bool decode_text(const struct decoder *decoder, const struct field *field, const struct node *node,
                        const struct frame *frame, struct value *ret) {
        const struct node *target = node_target(node);

        if (target->type != NODE_SCALAR) {
                report_wrong_type(decoder, field, node, frame);
                return false;
        }
        *ret = decode_positioned(decoder, node, VALUE_TEXT);
        ret->count = target->count;
        if (field->choices_text)
                return decode_choice(decoder, field, node, frame, ret);
        ret->text = arena_strndup(decoder->loading->arena, target->text, target->count);
        return check_text_field(decoder, field, node, frame, ret);
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

/* An item or a free key's value: unlike a field it cannot be left out by writing nothing. */
static bool decode_item(const struct decoder *decoder, const struct field *field, const struct node *node,
                        const struct frame *frame, struct value *ret) {
        if (node_is_null(node)) {
                problem_error(decoder->loading, decode_place(decoder, node),
                              field->type == FIELD_TEXT || field->type == FIELD_ONE_OF
                                      ? "an empty text is written \"\""
                                      : NULL,
                              "%s has no value", decode_path(decoder, frame));
                return false;
        }
        return decode_readable(decoder, field, node, frame, ret);
}

static bool decode_list(const struct decoder *decoder, const struct field *field, const struct node *node,
                        const struct frame *frame, struct value *ret) {
        const struct node *target = node_target(node);
        bool good;

        if (target->type != NODE_LIST) {
                report_wrong_type(decoder, field, node, frame);
                return false;
        }
        good = check_count(decoder, field, node, frame, target->count);
        *ret = decode_positioned(decoder, node, VALUE_LIST);
        ret->items = arena_array(decoder->loading->arena, value_capacity(target->count), sizeof(*ret->items));
        for (const struct node *item = target->first; item; item = item->next) {
                struct frame below = { .up = frame, .index = ret->count + 1 };

                good = decode_item(decoder, field->item, item, &below, &ret->items[ret->count]) && good;
                ret->count++;
        }
        return good;
}

const char *decode_key_text(const struct decoder *decoder, const struct node *key) {
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
        return !keys || check_text_field(decoder, keys, key, &named, &text);
}

static bool decode_map(const struct decoder *decoder, const struct field *field, const struct node *node,
                       const struct frame *frame, struct value *ret) {
        const struct node *target = node_target(node);
        bool good;

        if (target->type != NODE_MAP) {
                report_wrong_type(decoder, field, node, frame);
                return false;
        }
        good = check_count(decoder, field, node, frame, target->count / 2);
        *ret = decode_positioned(decoder, node, VALUE_MAP);
        ret->members = arena_array(decoder->loading->arena, value_capacity(target->count / 2),
                                   sizeof(*ret->members));
        for (const struct node *key = target->first; key; key = key->next->next) {
                const char *name = decode_key_text(decoder, key);
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

/* {value: text, sensitive: true}: becomes the text, marked. What only names a secret stays the object that it is. */
static bool decode_sensitive(const struct decoder *decoder, const struct field *field,
                             const struct node *node, const struct frame *frame, struct value *ret) {
        const struct node *target = node_target(node);
        struct value object;
        bool good = decode_object(decoder, field->fields, field->groups, node, frame, &object);
        const struct value *text = typed_member(&object, "value", VALUE_TEXT);
        bool sensitive = value_get_boolean(&object, "sensitive", text != NULL);

        /* Where the object is wrong, what it holds may be a secret even if the word is missing. */
        if (sensitive || !good)
                decode_hide_all_but_sensitive(decoder, target);
        if (good && !text) {
                *ret = object;
                return true;
        }
        if (!good)
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
                report_wrong_type(decoder, field, node, frame);
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
                report_wrong_type(decoder, field, node, frame);
                return false;
        }
        return decode_object(decoder, field->fields, field->groups, node, frame, ret);
}
