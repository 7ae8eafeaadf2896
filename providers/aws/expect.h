/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls some of whose failures are answers: "no such bucket" is how S3 says that there is none yet.
 */
#ifndef BERTH_PROVIDERS_AWS_EXPECT_H
#define BERTH_PROVIDERS_AWS_EXPECT_H

#include "providers/aws/client/client.h"
#include "providers/aws/stages.h"

/*
 * aws_call() for which an error answer with one of `codes` (ended by NULL) is a success: 0, err untouched, and the
 * code stands in response->error_code.
 */
int expect_call(struct aws_client *client, const struct aws_request *request, const char *const *codes,
                struct aws_response *response, struct error *err) MUST_USE;

/*
 * The same for a stage, by aws_step_call(). `passing` (may be NULL) are codes of states that pass by themselves, as
 * after a creation that not all of AWS has heard of: STEP_AGAIN, for a minute at the most.
 */
int expect_step(struct stage_turn *turn, const struct aws_request *request, const char *const *codes,
                const char *const *passing, struct aws_response *response) MUST_USE;

/* The same where nothing of the answer matters: STAGE_OVER in place of 0. */
int expect_over(struct stage_turn *turn, struct aws_request request, const char *const *codes,
                const char *const *passing) MUST_USE;

extern const char *const expect_nothing[]; /* the empty list */

/* Whether the error answer is one of `codes`; NULL is empty. */
bool expect_is_among(const struct aws_response *response, const char *const *codes);

#endif
