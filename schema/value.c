/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays of a value know no capacity: it follows from the count, by value_capacity(), which grows
 * in steps that double with the size. So a list may be added to in place, and a copy made of it has
 * the same room. Only the maker of a value may change it: a shared one may be read by others.
 *
 * Comparison and fingerprints look at maps by name. Small ones are sorted on the stack as they are walked; nearly all
 * maps are small.
 */
#include "schema/value.h"

#include "schema/value_internal.h"

#include <stdlib.h>
#include <string.h>

/* Maps larger than this are compared by way of a sorted index. */
#define SMALL_MAP 16U

/* Up to four items exactly as many; then multiples of a step that is at least a quarter of the count. */
size_t value_capacity(size_t count) {
        size_t step = 1;

        if (count <= 4)
                return count;
        while (step * 4 < count)
                step *= 2;
        return (count + step - 1) / step * step;
}

struct value *value_new_map(struct arena *arena) {
        struct value *map = arena_alloc(arena, sizeof(*map));

        map->type = VALUE_MAP;
        return map;
}

struct value *value_new_list(struct arena *arena) {
        struct value *list = arena_alloc(arena, sizeof(*list));

        list->type = VALUE_LIST;
        return list;
}

struct value value_boolean(bool boolean) {
        return (struct value){ .type = VALUE_BOOLEAN, .boolean = boolean };
}

struct value value_integer(int64_t integer) {
        return (struct value){ .type = VALUE_INTEGER, .integer = integer };
}

struct value value_text(struct arena *arena, const char *text) {
        size_t length = strlen(text);

        return (struct value){
                .type = VALUE_TEXT,
                .count = (uint32_t)length,
                .text = arena_strndup(arena, text, length),
        };
}

struct value value_null(void) {
        return (struct value){ .type = VALUE_NULL };
}

static struct member *find_member(const struct value *map, const char *name) {
        if (!map || map->type != VALUE_MAP)
                return NULL;
        for (uint32_t i = 0; i < map->count; i++) {
                /* Most names differ at once: that is looked at without a call. */
                if (map->members[i].name[0] == name[0] && strcmp(map->members[i].name, name) == 0)
                        return &map->members[i];
        }
        return NULL;
}

struct member *value_add_member(struct arena *arena, struct value *map) {
        size_t capacity = value_capacity(map->count);

        if (map->count == capacity) {
                struct member *members =
                        arena_array(arena, value_capacity((size_t)map->count + 1), sizeof(*members));

                if (map->count > 0)
                        memcpy(members, map->members, map->count * sizeof(*members));
                map->members = members;
        }
        map->members[map->count] = (struct member){ 0 };
        return &map->members[map->count++];
}

void value_set(struct arena *arena, struct value *map, const char *name, struct value value) {
        struct member *member = find_member(map, name);

        if (!member) {
                member = value_add_member(arena, map);
                member->name = arena_strdup(arena, name);
        }
        member->value = value;
}

void value_set_text(struct arena *arena, struct value *map, const char *name, const char *text) {
        if (text)
                value_set(arena, map, name, value_text(arena, text));
}

void value_set_integer(struct arena *arena, struct value *map, const char *name, int64_t integer) {
        value_set(arena, map, name, value_integer(integer));
}

void value_set_boolean(struct arena *arena, struct value *map, const char *name, bool boolean) {
        value_set(arena, map, name, value_boolean(boolean));
}

void value_append(struct arena *arena, struct value *list, struct value item) {
        size_t capacity = value_capacity(list->count);

        if (list->count == capacity) {
                struct value *items =
                        arena_array(arena, value_capacity((size_t)list->count + 1), sizeof(*items));

                if (list->count > 0)
                        memcpy(items, list->items, list->count * sizeof(*items));
                list->items = items;
        }
        list->items[list->count++] = item;
}

void value_unset(struct value *map, const char *name) {
        struct member *member = find_member(map, name);
        size_t after;

        if (!member)
                return;
        after = (size_t)(map->members + map->count - (member + 1));
        memmove(member, member + 1, after * sizeof(*member));
        map->count--;
}

struct value value_copy(struct arena *arena, const struct value *value) {
        struct value copy;

        if (!value)
                return value_null();
        copy = *value;
        switch (value->type) {
        case VALUE_TEXT:
        case VALUE_SECRET:
                copy.text = arena_strndup(arena, value->text, value->count);
                break;
        case VALUE_LIST:
                copy.items = arena_array(arena, value_capacity(value->count), sizeof(*copy.items));
                for (uint32_t i = 0; i < value->count; i++)
                        copy.items[i] = value_copy(arena, &value->items[i]);
                break;
        case VALUE_MAP:
                copy.members = arena_array(arena, value_capacity(value->count), sizeof(*copy.members));
                for (uint32_t i = 0; i < value->count; i++) {
                        copy.members[i] = value->members[i];
                        copy.members[i].name = arena_strdup(arena, value->members[i].name);
                        copy.members[i].value = value_copy(arena, &value->members[i].value);
                }
                break;
        default:
                break;
        }
        return copy;
}

const struct value *value_get(const struct value *map, const char *name) {
        const struct member *member = find_member(map, name);

        return member ? &member->value : NULL;
}

const struct value *value_path(const struct value *map, const char *path) {
        for (const char *dot; map && (dot = strchr(path, '.')); path = dot + 1) {
                const struct value *found = NULL;
                size_t length = (size_t)(dot - path);

                for (uint32_t i = 0; map->type == VALUE_MAP && i < map->count && !found; i++) {
                        const char *name = map->members[i].name;

                        if (strncmp(name, path, length) == 0 && name[length] == '\0')
                                found = &map->members[i].value;
                }
                map = found;
        }
        return value_get(map, path);
}

const char *value_text_of(const struct value *value) {
        return value && value->type == VALUE_TEXT ? value->text : NULL;
}

const char *value_get_text(const struct value *map, const char *name) {
        return value_text_of(value_get(map, name));
}

int64_t value_get_integer(const struct value *map, const char *name, int64_t otherwise) {
        const struct value *value = value_get(map, name);

        return value && value->type == VALUE_INTEGER ? value->integer : otherwise;
}

bool value_get_boolean(const struct value *map, const char *name, bool otherwise) {
        const struct value *value = value_get(map, name);

        return value && value->type == VALUE_BOOLEAN ? value->boolean : otherwise;
}

bool value_is_empty(const struct value *value) {
        if (!value)
                return true;
        switch (value->type) {
        case VALUE_NULL:
                return true;
        case VALUE_TEXT:
        case VALUE_LIST:
                return value->count == 0;
        case VALUE_MAP:
                for (uint32_t i = 0; i < value->count; i++) {
                        if (!value_is_empty(&value->members[i].value))
                                return false;
                }
                return true;
        default:
                return false;
        }
}

static int compare_members(const void *a, const void *b) {
        const struct member *const *left = a, *const *right = b;

        return strcmp((*left)->name, (*right)->name);
}

size_t value_sorted_members(const struct value *map, bool exact, const struct member **ret) {
        size_t count = 0;

        for (uint32_t i = 0; i < map->count; i++) {
                const struct member *member = &map->members[i];
                size_t at = count;

                if (!exact && value_is_empty(&member->value))
                        continue;
                /* Small maps come nearly sorted or are cheap to sort so; large ones are left to qsort. */
                while (map->count <= SMALL_MAP && at > 0 && strcmp(ret[at - 1]->name, member->name) > 0) {
                        ret[at] = ret[at - 1];
                        at--;
                }
                ret[at] = member;
                count++;
        }
        if (map->count > SMALL_MAP)
                qsort(ret, count, sizeof(*ret), compare_members);
        return count;
}

/* The list that value_sorted_members() fills: the caller's own on the stack where it is long enough, else the caller frees it. */
const struct member **value_member_list(const struct value *map, const struct member **small,
                                        size_t small_count) {
        const struct member **list = small;

        if (map->count > small_count)
                list = calloc(map->count, sizeof(*list));
        if (!list)
                abort();
        return list;
}

static bool maps_equal(const struct value *a, const struct value *b, const uint8_t *key) {
        const struct member *a_small[SMALL_MAP], *b_small[SMALL_MAP];
        const struct member **a_members = value_member_list(a, a_small, SMALL_MAP);
        const struct member **b_members = value_member_list(b, b_small, SMALL_MAP);
        size_t count = value_sorted_members(a, false, a_members);
        bool equal = count == value_sorted_members(b, false, b_members);

        for (size_t i = 0; i < count && equal; i++) {
                equal = strcmp(a_members[i]->name, b_members[i]->name) == 0 &&
                        value_equal(&a_members[i]->value, &b_members[i]->value, key);
        }
        if (a_members != a_small)
                free(a_members);
        if (b_members != b_small)
                free(b_members);
        return equal;
}

static bool lists_equal(const struct value *a, const struct value *b, const uint8_t *key) {
        if (a->count != b->count)
                return false;
        for (uint32_t i = 0; i < a->count; i++) {
                if (!value_equal(&a->items[i], &b->items[i], key))
                        return false;
        }
        return true;
}

static bool texts_equal(const struct value *a, const struct value *b) {
        return a->count == b->count && memcmp(a->text, b->text, a->count) == 0;
}

/* A sensitive text against the keyed hash of one. */
static bool secret_equal(const struct value *text, const struct value *secret, const uint8_t *key) {
        char hex[SHA256_HEX_SIZE];

        if (text->type != VALUE_TEXT || !text->sensitive || !key)
                return false;
        value_secret_hex(text, key, hex);
        return secret->count == SHA256_HEX_SIZE - 1 && memcmp(hex, secret->text, SHA256_HEX_SIZE - 1) == 0;
}

bool value_equal(const struct value *a, const struct value *b, const uint8_t key[SHA256_SIZE]) {
        bool a_empty = value_is_empty(a), b_empty = value_is_empty(b);

        if (a_empty || b_empty)
                return a_empty && b_empty;
        if (a->type == VALUE_SECRET && b->type != VALUE_SECRET)
                return secret_equal(b, a, key);
        if (b->type == VALUE_SECRET && a->type != VALUE_SECRET)
                return secret_equal(a, b, key);
        if (a->type != b->type)
                return false;
        switch (a->type) {
        case VALUE_BOOLEAN:
                return a->boolean == b->boolean;
        case VALUE_INTEGER:
                return a->integer == b->integer;
        case VALUE_TEXT:
                return a->sensitive == b->sensitive && texts_equal(a, b);
        case VALUE_LIST:
                return lists_equal(a, b, key);
        case VALUE_MAP:
                return maps_equal(a, b, key);
        case VALUE_SECRET:
                return texts_equal(a, b);
        default:
                return true;
        }
}
