/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of a failed call, three kinds are told apart: what the caller takes for an answer, what passes by itself and is tried
 * again for a minute, and the rest, which ends the change. The clock is the stage's own, so that one slow state of AWS's
 * does not use up the patience of the next.
 */
#include "providers/aws/shared/stage_call.h"

#define PASSING_LIMIT_MS 60000

int stage_call(struct stage_turn *turn, const struct aws_request *request, const char *const *codes,
               const char *const *passing, struct aws_response *response) {
        struct error failure = { 0 };
        int result = aws_step_call(turn->provider->client, request, turn->progress, response, &failure);
        bool expected = result < 0 && aws_failed_with_any(response, codes);
        bool passes = result < 0 && aws_failed_with_any(response, passing) &&
                      stage_elapsed_ms(turn) < PASSING_LIMIT_MS;

        if (result >= 0)
                return result;
        if (!expected && !passes) {
                *turn->err = failure;
                return -1;
        }
        return expected ? 0 : stage_wait(turn, stage_retry_gap_ms(stage_elapsed_ms(turn)));
}

int stage_call_over(struct stage_turn *turn, struct aws_request request, const char *const *codes,
                    const char *const *passing) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result = stage_call(turn, &request, codes, passing, &response);

        return result == 0 ? STAGE_OVER : result;
}
