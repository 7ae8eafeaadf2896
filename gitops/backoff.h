/* SPDX-License-Identifier: Apache-2.0 */
/* How long to wait before what failed is tried again. Pure. */
#ifndef BERTH_GITOPS_BACKOFF_H
#define BERTH_GITOPS_BACKOFF_H

#include <stdint.h>

#define BACKOFF_BASE_MS (5 * 1000)
#define BACKOFF_CAP_MS (10 * 60 * 1000)
#define BACKOFF_LEAST_MS 250

/*
 * After the n-th failure in a row (from 1): full jitter, that is, evenly from nothing to base * 2^(n-1), at most the cap. The
 * base is 5 s, or the interval where that is shorter. `random` is uniform in [0, 1).
 */
int64_t backoff_ms(unsigned failures, int64_t interval_ms, double random);

#endif
