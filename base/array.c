/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The capacity stands in a header before the items and not in the caller's struct, so that a caller
 * keeps only items and count. The header names its own items: growing an array that was made
 * elsewhere finds no such header, and the program ends rather than write beyond it.
 */
#include "base/array.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 4U

/* Stands before the items. It names them, so that an array that was not made here is told from one that was. */
struct header {
        alignas(max_align_t) size_t capacity;
        const void *items;
};

static struct header *header_of(void *items, size_t count) {
        struct header *header = (struct header *)items - 1;

        if (header->items != items || count > header->capacity)
                abort();
        return header;
}

/* Bytes of the header and of twice as many items; *ret_capacity is how many those are. */
static size_t grown_size(size_t capacity, size_t size, size_t *ret_capacity) {
        size_t bytes;

        if (__builtin_mul_overflow(capacity, 2U, ret_capacity))
                abort();
        if (capacity == 0)
                *ret_capacity = FIRST_CAPACITY;
        if (__builtin_mul_overflow(*ret_capacity, size, &bytes) ||
            __builtin_add_overflow(bytes, sizeof(struct header), &bytes))
                abort();
        return bytes;
}

static void *label(struct header *header, size_t capacity) {
        header->capacity = capacity;
        header->items = header + 1;
        return header + 1;
}

void *array_grow(struct arena *arena, void *items, size_t count, size_t size) {
        size_t capacity = items ? header_of(items, count)->capacity : 0, grown_capacity, bytes;
        void *grown;

        if (count < capacity)
                return items;
        if (!items && count > 0)
                abort();
        bytes = grown_size(capacity, size, &grown_capacity);
        grown = label(arena_array(arena, 1, bytes), grown_capacity);
        if (count)
                memcpy(grown, items, count * size);
        return grown;
}

void *array_grow_alone(void *items, size_t count, size_t size) {
        struct header *header = items ? header_of(items, count) : NULL;
        size_t capacity = header ? header->capacity : 0, grown_capacity, bytes;

        if (count < capacity)
                return items;
        if (!items && count > 0)
                abort();
        bytes = grown_size(capacity, size, &grown_capacity);
        header = realloc(header, bytes);
        if (!header)
                abort();
        return label(header, grown_capacity);
}

void array_free_alone(void *items) {
        if (items)
                free(header_of(items, 0));
}
