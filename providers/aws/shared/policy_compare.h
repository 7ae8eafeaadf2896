/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A role's document as it is there, beside the one that was applied and the one that is wanted: did
 * others give it more rights, or take some away? Rights that were taken away are never given back;
 * rights that were added are taken away. Pure.
 */
#ifndef BERTH_PROVIDERS_AWS_SHARED_POLICY_COMPARE_H
#define BERTH_PROVIDERS_AWS_SHARED_POLICY_COMPARE_H

#include "base/arena.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct policy_comparison {
        /* It denies something, or allows less than was applied; `taken` says what ("s3:DeleteObject on arn:..."). */
        bool tightened;
        const char **taken;
        size_t taken_count, deny_count;
        bool widened; /* it allows what is not wanted, or lacks a Deny that is */
        bool lacks; /* it does not allow what is wanted and was never applied: Berth wants more than it did */
        /*
         * a Deny of Berth's own is left in it that is wanted no more: no other owner has it, and it
         * goes
         */
        bool outlived;
        /*
         * It cannot be decided (a condition in place of another, too much to compare): the document
         * stays as it is.
         */
        bool unclear;
        /* What shall be there: the wanted, without what was taken away and with what is denied. NULL where unclear. Owned. */
        json_t *target;
};

/*
 * `applied` NULL: nothing is known to have been, so that only a Deny counts as tightened. `own_deny`: the statement by which
 * Berth itself denies something in such documents, whether it is wanted in this one or not; NULL: it does not. Documents in any
 * form. Texts live in the arena.
 */
void policy_compare(const json_t *found, const json_t *applied, const json_t *wanted, const json_t *own_deny,
                    struct arena *arena, struct policy_comparison *ret);

#endif
