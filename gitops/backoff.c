/* SPDX-License-Identifier: Apache-2.0 */
#include "gitops/backoff.h"

int64_t backoff_ms(unsigned failures, int64_t interval_ms, double random) {
        int64_t most = interval_ms < BACKOFF_BASE_MS ? interval_ms : BACKOFF_BASE_MS, wait;

        for (unsigned i = 1; i < failures && most < BACKOFF_CAP_MS; i++)
                most *= 2;
        if (most > BACKOFF_CAP_MS)
                most = BACKOFF_CAP_MS;
        wait = (int64_t)((double)most * random);
        return wait > BACKOFF_LEAST_MS ? wait : BACKOFF_LEAST_MS;
}
