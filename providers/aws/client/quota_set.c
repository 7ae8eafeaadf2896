/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AWS counts calls by account and region, of all clients together: a controller with many stacks in
 * one account shares one set of buckets. Sets are shared once the account is known, by the first
 * call of STS; until then a client has one of its own. The clock is part of what must be the same,
 * so that tests with clocks of their own do not meet.
 */
#include "providers/aws/client/quota_set.h"

#include "providers/aws/client/quota_shared.h"

#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct quota_set *shared; /* under the lock, as are their `users` */

struct quota_set *quota_set_new(double scale) {
        struct quota_set *set = calloc(1, sizeof(*set));

        if (!set)
                abort();
        for (int kind = 0; kind < QUOTA_COUNT; kind++)
                quota_init(&set->own[kind], quota_default_rate((enum quota_kind)kind) * scale);
        set->buckets = set->own;
        set->scale = scale;
        set->users = 1;
        return set;
}

static bool is_set_of(const struct quota_set *set, const char *account, const char *region,
                      const struct clock *clock, double scale) {
        return strcmp(set->account, account) == 0 && strcmp(set->region, region) == 0 &&
               set->monotonic_ms == clock->monotonic_ms && !(set->scale < scale) && !(set->scale > scale);
}

struct quota_set *quota_set_share(const char *account, const char *region, const struct clock *clock,
                                  double scale) {
        struct quota_set *set;

        pthread_mutex_lock(&lock);
        for (set = shared; set && !is_set_of(set, account, region, clock, scale);)
                set = set->next;
        if (set) {
                set->users++;
        } else {
                set = quota_set_new(scale);
                set->account = strdup(account);
                set->region = strdup(region);
                if (!set->account || !set->region)
                        abort();
                set->monotonic_ms = clock->monotonic_ms;
                if (clock->monotonic_ms == clock_system.monotonic_ms && !(scale < 1.0) && !(scale > 1.0)) {
                        struct quota_bucket *buckets = quota_shared_find(account, region);

                        set->buckets = buckets ? buckets : set->own;
                }
                set->next = shared;
                shared = set;
        }
        pthread_mutex_unlock(&lock);
        return set;
}

static void destroy(struct quota_set *set) {
        for (int kind = 0; kind < QUOTA_COUNT; kind++)
                quota_destroy(&set->own[kind]);
        free(set->account);
        free(set->region);
        free(set);
}

void quota_set_release(struct quota_set *set) {
        struct quota_set **link;

        if (!set)
                return;
        if (!set->account) {
                destroy(set);
                return;
        }
        pthread_mutex_lock(&lock);
        if (--set->users == 0) {
                for (link = &shared; *link != set;)
                        link = &(*link)->next;
                *link = set->next;
                destroy(set);
        }
        pthread_mutex_unlock(&lock);
}
