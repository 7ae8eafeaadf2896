/* SPDX-License-Identifier: Apache-2.0 */
/* NULL is a text that is not there: it is like no other, not even another NULL. */
#include "providers/aws/client/texts.h"

#include "base/sorted.h"

#include <stdlib.h>
#include <string.h>

bool texts_same(const char *a, const char *b) {
        return a && b && strcmp(a, b) == 0;
}

bool texts_have(const struct value *list, const char *text) {
        for (uint32_t i = 0; list && list->type == VALUE_LIST && i < list->count; i++) {
                if (texts_same(value_text_of(&list->items[i]), text))
                        return true;
        }
        return false;
}

int texts_compare(const void *a, const void *b) {
        const char *left = value_text_of(a), *right = value_text_of(b);

        return strcmp(left ? left : "", right ? right : "");
}

size_t texts_sort_unique(const char **texts, size_t count) {
        size_t unique = 0;

        if (count > 1)
                qsort(texts, count, sizeof(*texts), sorted_compare_texts);
        for (size_t i = 0; i < count; i++) {
                if (unique == 0 || strcmp(texts[unique - 1], texts[i]) != 0)
                        texts[unique++] = texts[i];
        }
        return unique;
}
