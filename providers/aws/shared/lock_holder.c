/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/shared/lock_holder.h"

#include "process/identity.h"

#include <assert.h>

static_assert(LOCK_HOLDER_SIZE == IDENTITY_TEXT_SIZE, "an identity fits");

void lock_holder_self(char text[LOCK_HOLDER_SIZE]) {
        const struct process_identity self = identity_of_self();

        identity_write(&self, text);
}

/*
 * A lock that is taken from the living loses rules, so that what cannot be read (zero) is no place to compare with: two
 * machines without /proc would pass for one.
 */
bool lock_holder_is_gone(const char *text) {
        struct process_identity holder;
        const char *rest;

        return identity_read(text, &holder, &rest) && !*rest && holder.boot && holder.namespace &&
               holder.start && identity_life(&holder) == IDENTITY_DEAD;
}
