/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/rate.h"

#define PART 1000 /* of one request; RATE_PER_SECOND of these come back in a millisecond */

bool rate_take(struct rate *rate, int64_t now_ms) {
        int64_t passed_ms = now_ms > rate->at_ms ? now_ms - rate->at_ms : 0;

        /* Two seconds give all back: longer times would only overflow. */
        if (passed_ms >= PART * (int64_t)RATE_AT_ONCE / RATE_PER_SECOND)
                rate->used = 0;
        else
                rate->used -= passed_ms * RATE_PER_SECOND;
        if (rate->used < 0)
                rate->used = 0;
        if (now_ms > rate->at_ms)
                rate->at_ms = now_ms;
        if (rate->used + PART > (int64_t)RATE_AT_ONCE * PART)
                return false;
        rate->used += PART;
        return true;
}
