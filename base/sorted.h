/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays in order, beside what qsort(3) and bsearch(3) do. */
#ifndef BERTH_BASE_SORTED_H
#define BERTH_BASE_SORTED_H

#include <stddef.h>

/* As bsearch(3) calls it: negative where `sought` comes before the item, positive where it comes after. */
typedef int sorted_compare(const void *sought, const void *item);

/*
 * Of `count` items of `size` bytes in order, the index of the first that does not come before `sought`, which is where that
 * stands or belongs; `count` where all do. bsearch(3) finds any of several that are the same, and says nothing of a place.
 */
size_t sorted_first(const void *items, size_t count, size_t size, const void *sought,
                    sorted_compare *compare);

/* For qsort(3), of an array of texts. */
int sorted_compare_texts(const void *a, const void *b);

#endif
