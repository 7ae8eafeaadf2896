/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A binary search for the first of several equal items. bsearch() gives any of them, and only if
 * there is one.
 */
#include "base/sorted.h"

#include <string.h>

size_t sorted_first(const void *items, size_t count, size_t size, const void *sought,
                    sorted_compare *compare) {
        size_t low = 0, high = count;

        /* All below `low` come before what is sought, none from `high` on does. */
        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (compare(sought, (const char *)items + middle * size) > 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

int sorted_compare_texts(const void *a, const void *b) {
        return strcmp(*(const char *const *)a, *(const char *const *)b);
}
