/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays that grow item by item, in an arena or alone.
 *
 *      list->items = array_grow(arena, list->items, list->count, sizeof(*list->items));
 *      list->items[list->count++] = item;
 *
 * An array that is grown here is made here: it starts as NULL with a count of 0. Its capacity
 * stands before its items. For an array that was made elsewhere the program aborts.
 */
#ifndef BERTH_BASE_ARRAY_H
#define BERTH_BASE_ARRAY_H

#include "base/arena.h"

/*
 * Where `count` items of `size` bytes and one more have room: `items` itself, or a zeroed larger
 * array that begins with what the items are. The old array stays in the arena as it is; aborts
 * where the product overflows.
 */
void *array_grow(struct arena *arena, void *items, size_t count, size_t size);
/* The same in memory of its own, which is moved and not copied where it is large; not zeroed. */
void *array_grow_alone(void *items, size_t count, size_t size);
void array_free_alone(void *items); /* NULL is fine */

#endif
