/* SPDX-License-Identifier: Apache-2.0 */
/* What value.c and value_json.c share, and the loader's way to build maps without copying names. */
#ifndef BERTH_SCHEMA_VALUE_INTERNAL_H
#define BERTH_SCHEMA_VALUE_INTERNAL_H

#include "schema/value.h"

/*
 * For how many members or items memory is there when `count` of them are set: a little more than `count`, in steps that
 * grow with it. Every array of a value is allocated by this rule, so that value_set() and value_append() know when it
 * is full.
 */
size_t value_capacity(size_t count);

/* A new, zeroed member at the end of the map; the caller sets its name and value. Does not look for duplicates. */
struct member *value_add_member(struct arena *arena, struct value *map);

/* Whether the value says nothing: null, "", an empty list, a map of nothing but such; NULL too. */
bool value_is_empty(const struct value *value);

/* The members that say something (`exact`: all of them), by name, into `ret` (an array of map->count). */
size_t value_sorted_members(const struct value *map, bool exact, const struct member **ret);
/* `small` where the map's members fit into it, else memory to be released with free(). */
const struct member **value_member_list(const struct value *map, const struct member **small,
                                        size_t small_count);

/* The keyed hash of a sensitive text. */
void value_secret_hex(const struct value *text, const uint8_t key[SHA256_SIZE], char hex[SHA256_HEX_SIZE]);

#endif
