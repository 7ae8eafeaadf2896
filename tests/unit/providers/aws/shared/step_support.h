/* SPDX-License-Identifier: Apache-2.0 */
/* What tests share that carry a change out: by a scripted server, step after step. */
#ifndef BERTH_TESTS_PROVIDERS_AWS_SHARED_STEP_SUPPORT_H
#define BERTH_TESTS_PROVIDERS_AWS_SHARED_STEP_SUPPORT_H

#include "providers/aws/client/client_support.h"
#include "providers/aws/shared/support.h"

/*
 * The steps of a change, each when it is due, until it is over; STEP_AGAIN after `most` of them. `provider` is given the
 * fixture's client; the progress has its arena from the caller, or the fixture's.
 */
static inline int walk(struct fixture *fixture, const struct kind_ops *ops, struct provider *provider,
                       const struct change *change, int most, struct error *err) {
        struct observation observed;
        int result = STEP_AGAIN;

        provider->client = fixture->client;
        if (!fixture->progress.arena)
                fixture->progress.arena = fixture->arena;
        for (int i = 0; result == STEP_AGAIN && i < most; i++) {
                int64_t now = monotonic_ms(&test_clock);

                if (fixture->progress.not_before_ms > now)
                        atomic_fetch_add(&elapsed_ms, fixture->progress.not_before_ms - now);
                result = ops->step(provider, change, &fixture->progress, &observed, err);
        }
        return result;
}

#endif
