/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The buckets of one account and region, shared by every client of this process that works there, and of those that run
 * side by side with it (quota_shared.h): AWS counts their calls together, whichever stack they are made for.
 */
#ifndef BERTH_PROVIDERS_AWS_CLIENT_QUOTA_SET_H
#define BERTH_PROVIDERS_AWS_CLIENT_QUOTA_SET_H

#include "base/clock.h"
#include "providers/aws/client/quota.h"

struct quota_set {
        struct quota_bucket *buckets; /* QUOTA_COUNT: our own, or several processes' (quota_shared.h) */
        struct quota_bucket own[QUOTA_COUNT];
        /* The registry's; for an unshared set `account` is NULL. */
        char *account, *region;
        int64_t (*monotonic_ms)(const struct clock *clock); /* the clock's */
        double scale;
        size_t users;
        struct quota_set *next;
};

/* A set of its own, for a client that does not know its account yet. `scale` of all rates, for tests. */
struct quota_set *quota_set_new(double scale);
/* The set of that account and region, made if absent. Clocks and scales do not mix. */
struct quota_set *quota_set_share(const char *account, const char *region, const struct clock *clock,
                                  double scale);
/* Both kinds; the last user's release frees it. NULL is fine. */
void quota_set_release(struct quota_set *set);

#endif
