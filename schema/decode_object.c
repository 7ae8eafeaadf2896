/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A map whose keys are the fields of a table: what is there, what is missing, what stands where nothing is said.
 *
 * First the keys are matched with the fields, by the field's place in the table; then fields that are required, that need
 * another one, or of which one in a group must be given, are looked for; then each value is decoded, in the table's order,
 * and defaults take the place of what is not given. A default has line 0: by that later steps tell it from what people wrote.
 */
#include "base/suggest.h"
#include "schema/decode.h"

#include <stdlib.h>
#include <string.h>

#define FIELDS_MAX 32U /* of one table */

/* The given members of an object, by the field's place in the table. */
struct given {
        const struct node *keys[FIELDS_MAX];
        bool has_value[FIELDS_MAX]; /* written, and not null, which is as good as not written */
        bool is_meant
                [FIELDS_MAX]; /* an unknown field is near to it, and is reported: that it is missing would be said of the same slip */
        size_t field_count;
};

static bool is_given(const struct given *given, const struct field *fields, const char *name) {
        return given->has_value[field_find(fields, name) - fields];
}

static void report_unknown_field(const struct decoder *decoder, const struct field *fields,
                                 const struct node *key, struct given *given) {
        const char *names[FIELDS_MAX];
        struct strbuf known STRBUF_CLEANUP = STRBUF_INIT;
        const char *text = node_target(key)->text, *near, *hint;
        size_t count = 0;

        for (const struct field *field = fields; field->name; field++) {
                strbuf_printf(&known, "%s%s", count > 0 ? ", " : "", field->name);
                names[count++] = field->name;
        }
        near = suggest_nearest(text, names, count);
        for (size_t i = 0; i < count; i++)
                given->is_meant[i] = given->is_meant[i] || names[i] == near;
        hint = arena_printf(decoder->loading->arena, near ? "did you mean %s?" : "known here: %s",
                            near ? near : strbuf_text(&known));
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
                const char *name = decode_key_text(decoder, key);
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
                        report_unknown_field(decoder, fields, key, ret);
                        good = false;
                } else if (ret->keys[at]) {
                        problem_error(decoder->loading, decode_place(decoder, key), NULL,
                                      "%s is given twice, first on line %u", fields[at].name,
                                      ret->keys[at]->line);
                        good = false;
                } else {
                        ret->keys[at] = key;
                        ret->has_value[at] = !node_is_null(key->next);
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

/* A field that is missing has no place of its own: its map's key has, or the map. */
static struct place place_of_object(const struct decoder *decoder, const struct node *node,
                                    const struct frame *frame) {
        return decode_place(decoder, frame && frame->key ? frame->key : node);
}

static bool check_group(const struct decoder *decoder, const struct field *fields,
                        const struct field_group *group, const struct given *given, const struct node *node,
                        const struct frame *frame) {
        const struct node *first = NULL;
        const char *path;
        bool meant = false;

        for (const char *const *name = group->names; *name; name++) {
                size_t at = (size_t)(field_find(fields, *name) - fields);
                const struct node *key = given->keys[at];

                meant = meant || given->is_meant[at];
                if (!given->has_value[at])
                        continue;
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
        if (first || meant)
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
                const struct field *needed = field->needs ? field_find(fields, field->needs) : NULL;
                bool present = given->has_value[i];

                if (field->required && !present && !given->is_meant[i]) {
                        const char *path = decode_path(decoder, frame);

                        problem_error(decoder->loading,
                                      given->keys[i] ? decode_place(decoder, given->keys[i])
                                                     : place_of_object(decoder, node, frame),
                                      NULL, "%s is required%s%s", field->name, *path ? " in " : "", path);
                        good = false;
                }
                if (needed && present && !given->has_value[needed - fields] &&
                    !given->is_meant[needed - fields]) {
                        problem_error(decoder->loading, decode_place(decoder, given->keys[i]), NULL,
                                      "%s means nothing without %s", field->name, field->needs);
                        good = false;
                }
        }
        for (const struct field_group *group = groups; good && group && group->names; group++)
                good = check_group(decoder, fields, group, given, node, frame);
        return good;
}

/* A field that means nothing without a sibling has no default where that sibling is missing. */
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
        *ret = decode_positioned(decoder, node, VALUE_MAP);
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
                good = decode_readable(decoder, &fields[i], key->next, &below, &member->value) && good;
        }
        return good;
}
