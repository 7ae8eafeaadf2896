/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A typed value: what a manifest says, what the state recorded, what a provider observed, all in one shape.
 *
 * Values live in an arena and are not changed once they are shared. Member names and texts are NUL-terminated and
 * live in the same arena. Maps keep the order in which members were set; comparison does not look at it.
 */
#ifndef BERTH_SCHEMA_VALUE_H
#define BERTH_SCHEMA_VALUE_H

#include "base/arena.h"
#include "base/digest.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum value_type {
        VALUE_NULL,
        VALUE_BOOLEAN,
        VALUE_INTEGER,
        VALUE_TEXT,
        VALUE_LIST,
        VALUE_MAP,
        VALUE_SECRET /* a sensitive text of which only the keyed hash is known: `text` is 64 hex digits */
};

struct member;

struct value {
        uint8_t type;    /* enum value_type */
        bool sensitive;  /* of a VALUE_TEXT: must never be shown or stored as it is */
        uint16_t file;   /* index into struct manifests' files; meaningful where line > 0 */
        uint32_t line;   /* 1-based position in the manifest, 0 where it came from elsewhere */
        uint32_t column; /* 1-based, in characters */
        uint32_t count;  /* bytes of a text, items of a list, members of a map */
        union {
                bool boolean;
                int64_t integer;
                const char *text;
                struct value *items;
                struct member *members;
        };
};

struct member {
        const char *name;
        uint32_t line, column; /* of the key */
        struct value value;
};

/* Builders. Texts are copied into the arena. */
struct value *value_new_map(struct arena *arena);
struct value *value_new_list(struct arena *arena);
struct value value_boolean(bool boolean);
struct value value_integer(int64_t integer);
struct value value_text(struct arena *arena, const char *text);
struct value value_null(void);

/* Sets or replaces a member; the value is taken as it is (shallow), the name is copied. */
void value_set(struct arena *arena, struct value *map, const char *name, struct value value);
void value_set_text(struct arena *arena, struct value *map, const char *name,
                    const char *text); /* NULL: left out */
void value_set_integer(struct arena *arena, struct value *map, const char *name, int64_t integer);
void value_set_boolean(struct arena *arena, struct value *map, const char *name, bool boolean);
void value_append(struct arena *arena, struct value *list, struct value item);
/* Drops a member if it is there. */
void value_unset(struct value *map, const char *name);
struct value value_copy(struct arena *arena, const struct value *value); /* deep */

/* Readers. All take NULL, and a value of another type reads as absent. */
const struct value *value_get(const struct value *map, const char *name);
const struct value *value_path(const struct value *map,
                               const char *path);     /* "image.digest": names joined by dots */
const char *value_text_of(const struct value *value); /* NULL where it is no text */
const char *value_get_text(const struct value *map, const char *name);
int64_t value_get_integer(const struct value *map, const char *name, int64_t otherwise);
bool value_get_boolean(const struct value *map, const char *name, bool otherwise);

/*
 * Whether two values mean the same: absent (NULL), null, "", an empty list and an empty map are all alike; map order
 * does not matter, list order does. A sensitive text equals a VALUE_SECRET that is its keyed hash under `key`; pass
 * NULL for `key` where no secrets can occur.
 */
bool value_equal(const struct value *a, const struct value *b, const uint8_t key[SHA256_SIZE]);

/*
 * As JSON, a new reference. Sensitive texts become {"$secret": HEX of HMAC-SHA256 under key} and read back as
 * VALUE_SECRET; with `key` NULL a sensitive text becomes null, for output that people see.
 */
json_t *value_to_json(const struct value *value, const uint8_t key[SHA256_SIZE]);
struct value value_from_json(struct arena *arena, const json_t *json);

/*
 * SHA-256 of the value in a canonical form (map members by name, empties left out, positions ignored, sensitive texts
 * by their keyed hash): equal values have equal fingerprints.
 */
void value_fingerprint(const struct value *value, const uint8_t key[SHA256_SIZE], uint8_t ret[SHA256_SIZE]);
/* The same with empties counted: for what was written, where an empty text may mean more than none. */
void value_fingerprint_exact(const struct value *value, const uint8_t key[SHA256_SIZE],
                             uint8_t ret[SHA256_SIZE]);

#endif
