/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of decoding: decode.c and decode_object.c follow the field tables, decode_secrets.c finds what must not be quoted,
 * resource.c reads the document around them, field_phrase.c has the words.
 */
#ifndef BERTH_SCHEMA_DECODE_H
#define BERTH_SCHEMA_DECODE_H

#include "schema/node.h"
#include "schema/value_internal.h"

struct decoder {
        struct loading *loading;
        uint16_t file;
};

/* Where in the document decoding is: for messages. Lives on the stack. */
struct frame {
        const struct frame *up;
        const char *name;       /* NULL for the spec itself and for items of lists */
        uint32_t index;         /* of an item, counted from 1; else 0 */
        const struct node *key; /* the name's node, or NULL */
};

/*
 * All report what is wrong and return false then; *ret holds what could be read. `groups` may be NULL, and so may
 * `frame` for the document itself. decode_object() wants a map.
 */
bool decode_value(const struct decoder *decoder, const struct field *field, const struct node *node,
                  const struct frame *frame, struct value *ret);
bool decode_object(const struct decoder *decoder, const struct field *fields,
                   const struct field_group *groups, const struct node *node, const struct frame *frame,
                   struct value *ret);
/* Every scalar below the node is taken for a secret, also such as was broken by what it holds. */
void decode_hide(const struct decoder *decoder, const struct node *node);
/* Whether something like USER:PASSWORD@ stands in it, whatever else is wrong with it. */
bool decode_may_hold_password(const char *url);
/*
 * Secrets wherever the document has them, also where no field is that could hold one: beside a key `sensitive` that is
 * not false. What aliases stand for has its own place.
 */
void decode_hide_secrets(const struct decoder *decoder, const struct node *node);
/* All that a map holds beside its key `sensitive`. */
void decode_hide_all_but_sensitive(const struct decoder *decoder, const struct node *map);
/* The text of a key, or NULL where it cannot be one, which is reported. */
const char *decode_key_text(const struct decoder *decoder, const struct node *key);

/* A value of that type that stands where the node does. */
static inline struct value decode_positioned(const struct decoder *decoder, const struct node *node,
                                             uint8_t type) {
        return (struct value){
                .type = type,
                .file = decoder->file,
                .line = node->line,
                .column = node->column,
        };
}
struct value decode_default(const struct field *field);

/*
 * decode_value(), but of a value with errors nothing but a list or a map stays; otherwise null, so
 * that it is not reported as missing.
 */
static inline bool decode_readable(const struct decoder *decoder, const struct field *field,
                                   const struct node *node, const struct frame *frame, struct value *ret) {
        if (decode_value(decoder, field, node, frame, ret))
                return true;
        if (ret->type != VALUE_LIST && ret->type != VALUE_MAP)
                *ret = decode_positioned(decoder, node, VALUE_NULL);
        return false;
}

struct place decode_place(const struct decoder *decoder, const struct node *node);
/* "limits.cpus", "transitions[0].afterDays": in the arena. */
const char *decode_path(const struct decoder *decoder, const struct frame *frame);

/* field_phrase.c: in the arena or static. */
const char *field_type_phrase(const struct field *field); /* "an integer", "a text or a map" */
const char *field_range_phrase(struct arena *arena,
                               const struct field *field); /* "1769 to 10240", "pin or tag" */
const char *field_length_phrase(struct arena *arena, const struct field *field); /* "1 to 48 characters" */
const char *field_pattern_hint(const struct field *field, const char *text);     /* or NULL */
const char *field_type_hint(struct loading *loading, const struct field *field,
                            const struct node *node); /* or NULL */
const char *node_phrase(struct loading *loading,
                        const struct node *node); /* "2048.5", "the text \"no\"", "a list" */

/* The same file: for `berth explain` and the reference. */
const char *field_type_name(const struct field *field);                        /* "integer", "text or map" */
const char *field_facts_type(struct arena *arena, const struct field *field);  /* "list of texts" */
const char *field_facts_range(struct arena *arena, const struct field *field); /* "" where anything goes */
/* The named fields below a field: its own, its items' or its values'; or NULL. */
const struct field *field_children(const struct field *field);

#endif
