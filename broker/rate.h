/* SPDX-License-Identifier: Apache-2.0 */
/* How many requests a second one client may make: so many at once, and as they are used up so many a second. Pure. */
#ifndef BERTH_BROKER_RATE_H
#define BERTH_BROKER_RATE_H

#include <stdbool.h>
#include <stdint.h>

#define RATE_PER_SECOND 1000
#define RATE_AT_ONCE 2000

/* Zeroed: nothing was used yet. */
struct rate {
        int64_t used;  /* thousandths of a request, as they were at `at_ms` */
        int64_t at_ms; /* monotonic */
};

/* False: too many. */
bool rate_take(struct rate *rate, int64_t now_ms);

#endif
