/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The three-way comparison: which fields of one resource have to change. Pure.
 *
 * A field that the manifest sets, or that Berth once set and the manifest sets no longer, is Berth's; any other is left
 * as it is found. Maps are compared member by member, lists as a whole, and absent is the same as empty.
 */
#ifndef BERTH_CONTROLLER_DIFF_H
#define BERTH_CONTROLLER_DIFF_H

#include "base/arena.h"
#include "providers/provider.h"
#include "schema/value.h"

struct diff_args {
        const struct value *desired;  /* what shall be, or NULL */
        const struct value *recorded; /* what was last applied, or NULL */
        const struct value *observed; /* what is, or NULL */
        /* Paths whose present value only the record knows: compared with `recorded` instead. Ended by NULL; may be NULL. */
        const char *const *recorded_only;
        /* Maps in which a member with an empty text is not the same as none. Ended by NULL; may be NULL. */
        const char *const *free_maps;
        const uint8_t *key; /* for keyed hashes of sensitive values */
};

/* The fields that differ, by path in byte order, into the arena. Values are borrowed from the arguments. */
void diff_fields(const struct diff_args *args, struct arena *arena, struct field_change **ret,
                 size_t *ret_count);

/* Whether `path` is one of `paths` or below one of them. `paths` may be NULL. */
bool diff_path_in(const char *path, const char *const *paths);

#endif
