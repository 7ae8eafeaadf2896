/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A limit of requests a second: twice as many at once, and used ones come back at that rate. Pure.
 */
#ifndef BERTH_BROKER_AUTH_RATE_H
#define BERTH_BROKER_AUTH_RATE_H

#include <stdbool.h>
#include <stdint.h>

#define RATE_RESTS_MS 2000 /* after this time without a request the whole limit is available again */

/* Zeroed: nothing was used yet. */
struct rate {
        int64_t used;  /* thousandths of a request, as they were at `at_ms` */
        int64_t at_ms; /* monotonic */
};

/* False: too many. `per_second`: 1 to 1,000,000, the same for one rate each time. */
bool rate_take(struct rate *rate, int64_t per_second, int64_t now_ms);
/* Takes back what rate_take() gave last. */
void rate_return(struct rate *rate);

#endif
