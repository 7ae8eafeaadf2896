/* SPDX-License-Identifier: Apache-2.0 */
/* A stage's call, some of whose failures are answers: "no such bucket" is how S3 says that there is none yet. */
#ifndef BERTH_PROVIDERS_AWS_SHARED_STAGE_CALL_H
#define BERTH_PROVIDERS_AWS_SHARED_STAGE_CALL_H

#include "providers/aws/client/client.h"
#include "providers/aws/shared/stages.h"

/*
 * aws_call_accepting() for a stage, by aws_step_call(). `passing` (may be NULL) are codes of states that pass by themselves, as
 * after a creation that not all of AWS has heard of: STEP_AGAIN, for a minute at the most.
 */
int stage_call(struct stage_turn *turn, const struct aws_request *request, const char *const *codes,
               const char *const *passing, struct aws_response *response) MUST_USE;

/* The same where nothing of the answer matters: STAGE_OVER in place of 0. */
int stage_call_over(struct stage_turn *turn, struct aws_request request, const char *const *codes,
                    const char *const *passing) MUST_USE;

#endif
