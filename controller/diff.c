/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks the desired and the recorded spec side by side; whatever stands in neither is not Berth's and is never looked
 * at. A field that only the record has was set once and is set no longer: it is compared to nothing, which is how a
 * removed field is seen.
 *
 * The result is sorted by path, since two maps with the same members in another order are the same plan.
 */
#include "controller/diff.h"

#include "base/array.h"

#include <stdlib.h>
#include <string.h>

struct walk {
        const struct diff_args *args;
        struct arena *arena;
        struct field_change *changes;
        size_t count;
};

bool diff_path_in(const char *path, const char *const *paths) {
        for (; paths && *paths; paths++) {
                size_t length = strlen(*paths);

                if (strncmp(path, *paths, length) == 0 && (path[length] == '\0' || path[length] == '.'))
                        return true;
        }
        return false;
}

/* Whether it is one, or holds one: a variable that is kept elsewhere stands in a map beside its version. */
static bool is_secret(const struct value *value) {
        for (uint32_t i = 0; value && value->type == VALUE_MAP && i < value->count; i++) {
                if (is_secret(&value->members[i].value))
                        return true;
        }
        return value && (value->sensitive || value->type == VALUE_SECRET);
}

static void add_change(struct walk *walk, const char *path, const struct value *before,
                       const struct value *after) {
        walk->changes = array_grow(walk->arena, walk->changes, walk->count, sizeof(*walk->changes));
        walk->changes[walk->count++] = (struct field_change){
                .path = path,
                .before = before,
                .after = after,
                .sensitive = is_secret(before) || is_secret(after),
        };
}

static bool is_map(const struct value *value) {
        return value && value->type == VALUE_MAP;
}

/* In a map with free keys an empty text is a member like any other: a tag of no value is a tag. */
static bool is_nothing(const struct value *value) {
        return !value || value->type == VALUE_NULL || (value->type == VALUE_MAP && value->count == 0);
}

static void walk_maps(struct walk *walk, const char *prefix, const struct value *desired,
                      const struct value *recorded, const struct value *observed);

static void compare_field(struct walk *walk, const char *path, const struct value *desired,
                          const struct value *recorded, const struct value *observed) {
        const struct value *before = observed;
        bool in_free_map = diff_path_in(path, walk->args->free_maps);

        /* A map on one side and nothing on the other still goes member by member: it may be only partly ours. */
        if ((is_map(desired) || is_map(recorded)) && (!desired || is_map(desired)) &&
            (!observed || is_map(observed) || observed->type == VALUE_NULL)) {
                walk_maps(walk, path, desired, is_map(recorded) ? recorded : NULL, observed);
                return;
        }
        if (diff_path_in(path, walk->args->recorded_only)) {
                /* Never applied, and not to be seen: nothing says that it differs. */
                if (!walk->args->recorded)
                        return;
                before = recorded;
        }
        /* value_equal() takes an empty text, and a map of nothing but such, for none. */
        if (!value_equal(desired, before, walk->args->key) ||
            (in_free_map && is_nothing(desired) != is_nothing(before)))
                add_change(walk, path, before, desired);
}

/* One for each field of each resource, hence not by arena_printf(). */
static const char *join_path(struct arena *arena, const char *prefix, const char *name) {
        size_t before = prefix ? strlen(prefix) : 0, length = strlen(name);
        char *path, *at;

        if (!prefix)
                return name;
        path = arena_alloc(arena, before + length + 2);
        at = mempcpy(path, prefix, before);
        *at++ = '.';
        memcpy(at, name, length + 1);
        return path;
}

static void walk_maps(struct walk *walk, const char *prefix, const struct value *desired,
                      const struct value *recorded, const struct value *observed) {
        for (size_t i = 0; desired && i < desired->count; i++) {
                const struct member *member = &desired->members[i];

                compare_field(walk, join_path(walk->arena, prefix, member->name), &member->value,
                              value_get(recorded, member->name), value_get(observed, member->name));
        }
        for (size_t i = 0; recorded && i < recorded->count; i++) {
                const struct member *member = &recorded->members[i];

                if (value_get(desired, member->name))
                        continue;
                compare_field(walk, join_path(walk->arena, prefix, member->name), NULL, &member->value,
                              value_get(observed, member->name));
        }
}

static int compare_paths(const void *a, const void *b) {
        return strcmp(((const struct field_change *)a)->path, ((const struct field_change *)b)->path);
}

void diff_fields(const struct diff_args *args, struct arena *arena, struct field_change **ret,
                 size_t *ret_count) {
        struct walk walk = { .args = args, .arena = arena };

        walk_maps(&walk, NULL, args->desired, args->recorded, args->observed);
        if (walk.count > 1)
                qsort(walk.changes, walk.count, sizeof(*walk.changes), compare_paths);
        *ret = walk.changes;
        *ret_count = walk.count;
}
