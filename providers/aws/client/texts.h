/* SPDX-License-Identifier: Apache-2.0 */
/* Texts and lists of texts, as the kinds compare them. Pure. */
#ifndef BERTH_PROVIDERS_AWS_CLIENT_TEXTS_H
#define BERTH_PROVIDERS_AWS_CLIENT_TEXTS_H

#include "schema/value.h"

#include <stdbool.h>

/* Whether both are there and say the same; a NULL equals nothing, not even another. */
bool texts_same(const char *a, const char *b);

/* Whether `text` is an item of the list; a value that is no list, or NULL, has none. */
bool texts_have(const struct value *list, const char *text);

/* For qsort() of a list's items, in byte order; what is no text counts as "". */
int texts_compare(const void *a, const void *b);

/* Sorts them in byte order, each once; returns how many are left. */
size_t texts_sort_unique(const char **texts, size_t count);

#endif
