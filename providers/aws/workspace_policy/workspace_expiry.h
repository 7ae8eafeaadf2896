/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a change of a WorkspacePolicy would expire that is kept now: for the guard expires-existing. Pure.
 *
 * Compared with the rules that are in force, not with the record: S3 knows only those.
 */
#ifndef BERTH_PROVIDERS_AWS_WORKSPACE_POLICY_WORKSPACE_EXPIRY_H
#define BERTH_PROVIDERS_AWS_WORKSPACE_POLICY_WORKSPACE_EXPIRY_H

#include "base/arena.h"
#include "schema/value.h"

#include <stdbool.h>
#include <stdint.h>

/* What one of the expiries reaches that it did not reach before. */
struct workspace_expiry {
        const char *field;                /* "expireAfterDays", "noncurrentExpireAfterDays" */
        int64_t days;                     /* -1: nothing new is reached */
        bool for_all;                     /* objects of any environment, and of none */
        const struct value *environments; /* else of these: a list of texts */
};

/* `in_force` as workspace_rules_read() gives it; NULL where the policy has no rule yet. */
struct workspace_expiry workspace_expiry_of(const char *field, const struct value *desired,
                                            const struct value *in_force, struct arena *arena);
/* Whether objects tagged with this environment (NULL: not tagged) are reached. */
bool workspace_expiry_reaches(const struct workspace_expiry *expiry, const char *environment);
/* Whether what is as it is since then is older than the expiry already. */
bool workspace_expiry_is_over(const struct workspace_expiry *expiry, int64_t since_ms, int64_t now_ms);

/* Objects, or noncurrent versions, that an expiry would remove at once. */
struct aged {
        uint64_t count, bytes;
        int64_t oldest_ms; /* where count > 0 */
        bool more;         /* not everything was looked at */
};
/* One more of them: its bytes, and since when it is as it is (milliseconds since 1970). */
void workspace_expiry_add(struct aged *aged, int64_t size, int64_t since_ms);

/*
 * "3 objects, 5 bytes, oldest 2026-01-31, are older than expireAfterDays: 30 already". NULL if
 * there are surely none.
 */
const char *workspace_expiry_describe(const struct aged *aged, const struct workspace_expiry *expiry,
                                      bool noncurrent, struct arena *arena);

#endif
