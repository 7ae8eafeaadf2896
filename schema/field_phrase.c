/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How messages name types, ranges and what was found: "memoryMB must be 1769 to 10240, found 512". One voice for all
 * fields, so that no message has to be written with a field. A text that is repeated is cut at SHOWN_MAX bytes.
 */
#include "schema/decode.h"

#include <inttypes.h>
#include <string.h>

#define SHOWN_MAX 60U /* bytes of a text that messages repeat */

const char *field_type_phrase(const struct field *field) {
        switch (field->type) {
        case FIELD_BOOLEAN:
                return "a boolean (true or false)";
        case FIELD_INTEGER:
                return "an integer";
        case FIELD_TEXT:
                return "a text";
        case FIELD_LIST:
                return "a list";
        case FIELD_ONE_OF:
                return "a text or a map";
        default:
                return "a map";
        }
}

static void join_choice(struct strbuf *joined, const char *choice, bool first, bool last) {
        strbuf_printf(joined, "%s%s", first ? "" : last ? " or " : ", ", choice);
}

static const char *choices_phrase(struct arena *arena, const struct field *field) {
        struct strbuf joined STRBUF_CLEANUP = STRBUF_INIT;

        for (size_t i = 0; field->choices_text && field->choices_text[i]; i++)
                join_choice(&joined, field->choices_text[i], i == 0, !field->choices_text[i + 1]);
        for (size_t i = 0; field->choices_integer && field->choices_integer[i] >= 0; i++) {
                char number[24];

                snprintf(number, sizeof(number), "%" PRId64, field->choices_integer[i]);
                join_choice(&joined, number, i == 0, field->choices_integer[i + 1] < 0);
        }
        return arena_strdup(arena, strbuf_text(&joined));
}

const char *field_range_phrase(struct arena *arena, const struct field *field) {
        if (field->choices_text || field->choices_integer)
                return choices_phrase(arena, field);
        if (field->minimum == field->maximum)
                return arena_printf(arena, "%" PRId64, field->minimum);
        return arena_printf(arena, "%" PRId64 " to %" PRId64, field->minimum, field->maximum);
}

const char *field_length_phrase(struct arena *arena, const struct field *field) {
        const char *what = field->type == FIELD_TEXT   ? "characters"
                           : field->type == FIELD_LIST ? "items"
                                                       : "entries";

        if (field->minimum == 0)
                return arena_printf(arena, "at most %" PRId64 " %s", field->maximum, what);
        return arena_printf(arena, "%" PRId64 " to %" PRId64 " %s", field->minimum, field->maximum, what);
}

const char *field_pattern_hint(const struct field *field, const char *text) {
        if (strcmp(field->name, "repository") == 0 && (strchr(text, ':')))
                return "the name alone: registry, tag and digest are fields beside it";
        if (strcmp(field->name, "digest") == 0 && !strchr(text, ':'))
                return "a tag goes into the field tag";
        return NULL;
}

const char *field_type_hint(struct loading *loading, const struct field *field, const struct node *node) {
        const struct node *target = node_target(node);
        struct node unquoted = *target;

        if (target->type != NODE_SCALAR)
                return NULL;
        unquoted.plain = true;
        unquoted.tag = TAG_NONE;
        if (field->type == FIELD_INTEGER) {
                if (scalar_type_of(&unquoted) == SCALAR_INTEGER && target->count < SHOWN_MAX)
                        return arena_printf(loading->arena, "write %s without quotes", target->text);
                if (scalar_type_of(target) == SCALAR_FLOAT)
                        return "whole numbers only";
                return field->unit ? arena_printf(loading->arena, "in %s, as a plain number", field->unit)
                                   : NULL;
        }
        if (field->type == FIELD_BOOLEAN) {
                if (scalar_type_of(&unquoted) == SCALAR_BOOLEAN)
                        return arena_printf(loading->arena, "write %s without quotes", target->text);
                return "YAML 1.2 knows true and false; yes, no, on and off are texts";
        }
        if (field->type == FIELD_LIST && target->count < SHOWN_MAX)
                return arena_printf(loading->arena, "a list of one is written [%s]", target->text);
        return NULL;
}

static const char *shorten_scalar(struct loading *loading, const struct node *scalar) {
        size_t length = scalar->count;

        if (length <= SHOWN_MAX)
                return scalar->text;
        for (length = SHOWN_MAX; length > 0 && ((unsigned char)scalar->text[length] & 0xC0) == 0x80;)
                length--;
        return arena_printf(loading->arena, "%.*s...", (int)length, scalar->text);
}

const char *node_phrase(struct loading *loading, const struct node *node) {
        const struct node *target = node_target(node);

        if (target->type == NODE_LIST)
                return "a list";
        if (target->type != NODE_SCALAR)
                return "a map";
        switch (scalar_type_of(target)) {
        case SCALAR_NULL:
                return "nothing";
        case SCALAR_TEXT:
                return arena_printf(loading->arena, "the text \"%s\"", shorten_scalar(loading, target));
        default:
                return shorten_scalar(loading, target);
        }
}

/* What the reference and `berth explain` say of a field. */
const char *field_type_name(const struct field *field) {
        switch (field->type) {
        case FIELD_BOOLEAN:
                return "boolean";
        case FIELD_INTEGER:
                return "integer";
        case FIELD_TEXT:
                return "text";
        case FIELD_LIST:
                return "list";
        case FIELD_ONE_OF:
                return "text or map";
        default:
                return "map";
        }
}

const char *field_facts_type(struct arena *arena, const struct field *field) {
        if (field->type == FIELD_LIST)
                return arena_printf(arena, "list of %s",
                                    field->item->type == FIELD_OBJECT ? "maps" : "texts");
        if (field->type == FIELD_MAP)
                return arena_printf(arena, "map, free keys");
        return field_type_name(field);
}

/* "1769 to 10240 MB", "one of pin or tag", "1 to 48 characters"; "" where anything goes. In the arena. */
const char *field_facts_range(struct arena *arena, const struct field *field) {
        if (field->choices_text || field->choices_integer)
                return field_range_phrase(arena, field);
        if (field->minimum == 0 && field->maximum == 0)
                return "";
        if (field->type != FIELD_INTEGER)
                return field_length_phrase(arena, field);
        return arena_printf(arena, "%s%s%s", field->minimum == field->maximum ? "only " : "",
                            field_range_phrase(arena, field), "");
}

const struct field *field_children(const struct field *field) {
        while (field && !field->fields && (field->type == FIELD_LIST || field->type == FIELD_MAP))
                field = field->item;
        return field ? field->fields : NULL;
}
