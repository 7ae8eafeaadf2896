/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/expect.h"

#include <stddef.h>

#define PASSING_LIMIT_MS 60000

const char *const expect_nothing[] = { NULL };

bool expect_is_among(const struct aws_response *response, const char *const *codes) {
        for (; codes && *codes; codes++) {
                if (aws_failed_with(response, *codes))
                        return true;
        }
        return false;
}

int expect_call(struct aws_client *client, const struct aws_request *request, const char *const *codes,
                struct aws_response *response, struct error *err) {
        struct error failure = { 0 };

        if (aws_call(client, request, response, &failure) == 0 || expect_is_among(response, codes))
                return 0;
        *err = failure;
        return -1;
}

int expect_step(struct stage_turn *turn, const struct aws_request *request, const char *const *codes,
                const char *const *passing, struct aws_response *response) {
        struct error failure = { 0 };
        int result = aws_step_call(turn->provider->client, request, turn->progress, response, &failure);
        bool expected = result < 0 && expect_is_among(response, codes);
        bool passes =
                result < 0 && expect_is_among(response, passing) && stage_elapsed_ms(turn) < PASSING_LIMIT_MS;

        if (result >= 0)
                return result;
        if (!expected && !passes) {
                *turn->err = failure;
                return -1;
        }
        return expected ? 0 : stage_wait(turn, stage_retry_gap_ms(stage_elapsed_ms(turn)));
}

int expect_over(struct stage_turn *turn, struct aws_request request, const char *const *codes,
                const char *const *passing) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result = expect_step(turn, &request, codes, passing, &response);

        return result == 0 ? STAGE_OVER : result;
}
