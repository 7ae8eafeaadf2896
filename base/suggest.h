/* SPDX-License-Identifier: Apache-2.0 */
/* "Did you mean": the nearest known name to one that was mistyped. */
#ifndef BERTH_BASE_SUGGEST_H
#define BERTH_BASE_SUGGEST_H

#include "base/error.h"

#include <stddef.h>

/*
 * Of `names`, the one nearest to `typed` by edits (insert, remove, change, swap of neighbours; letter case counts
 * half an edit), or NULL where none is near: more than a third of the letters, at least one edit. Borrowed.
 */
const char *suggest_nearest(const char *typed, const char *const *names, size_t count);

/*
 * The row of that name in a table: `count` rows, at most 64, of `size` bytes, each of which begins
 * with its name (a const char *). NULL with the error if absent: there is no "berth session lst";
 * did you mean list? It takes create, list or end. `of` is what stands before the name there
 * ("berth session"). Borrowed.
 */
const void *suggest_row(const char *of, const char *typed, const void *rows, size_t count, size_t size,
                        struct error *err) MUST_USE;

#endif
