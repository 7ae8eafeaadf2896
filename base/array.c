/* SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 4U /* a power of two, as all that follow */

static bool is_full(size_t count) {
        return count == 0 || (count >= FIRST_CAPACITY && (count & (count - 1)) == 0);
}

static size_t grown_capacity(size_t count) {
        if (count > SIZE_MAX / 2)
                abort();
        return count ? count * 2 : FIRST_CAPACITY;
}

void *array_grow(struct arena *arena, void *items, size_t count, size_t size) {
        void *grown;

        if (!is_full(count))
                return items;
        grown = arena_array(arena, grown_capacity(count), size);
        if (count)
                memcpy(grown, items, count * size);
        return grown;
}

void *array_grow_alone(void *items, size_t count, size_t size) {
        void *grown;

        if (!is_full(count))
                return items;
        grown = reallocarray(items, grown_capacity(count), size);
        if (!grown)
                abort();
        return grown;
}
