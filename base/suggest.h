/* SPDX-License-Identifier: Apache-2.0 */
/* "Did you mean": the nearest known name to one that was mistyped. */
#ifndef BERTH_BASE_SUGGEST_H
#define BERTH_BASE_SUGGEST_H

#include <stddef.h>

/*
 * Of `names`, the one nearest to `typed` by edits (insert, remove, change, swap of neighbours; letter case counts
 * half an edit), or NULL where none is near: more than a third of the letters, at least one edit. Borrowed.
 */
const char *suggest_nearest(const char *typed, const char *const *names, size_t count);

#endif
