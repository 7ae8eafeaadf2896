/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/auth/rate.h"

#define PART 1000 /* of one request; `per_second` of these come back in a millisecond */

bool rate_take(struct rate *rate, int64_t per_second, int64_t now_ms) {
        int64_t passed_ms = now_ms > rate->at_ms ? now_ms - rate->at_ms : 0;

        /* After a rest all is back: longer times would only overflow. */
        if (passed_ms >= RATE_RESTS_MS)
                rate->used = 0;
        else
                rate->used -= passed_ms * per_second;
        if (rate->used < 0)
                rate->used = 0;
        if (now_ms > rate->at_ms)
                rate->at_ms = now_ms;
        if (rate->used + PART > per_second * RATE_RESTS_MS)
                return false;
        rate->used += PART;
        return true;
}

void rate_return(struct rate *rate) {
        rate->used -= PART;
}
