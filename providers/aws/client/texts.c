/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/client/texts.h"

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
