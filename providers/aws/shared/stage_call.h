/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stage's call, some of whose failures are answers: "no such bucket" is how S3 says that it does
 * not exist yet.
 */
#ifndef BERTH_PROVIDERS_AWS_SHARED_STAGE_CALL_H
#define BERTH_PROVIDERS_AWS_SHARED_STAGE_CALL_H

#include "providers/aws/client/aws_client.h"
#include "providers/aws/shared/stage.h"

/*
 * aws_call_accepting() for a stage, by aws_step_call(). STEP_AGAIN as well while an error that passes by itself (passing.h)
 * may still pass; an error answer with one of `codes` is an answer before it is that.
 */
int stage_call(struct stage_turn *turn, const struct aws_request *request, const char *const *codes,
               struct aws_response *response) MUST_USE;

/* The same where nothing of the answer matters: STAGE_OVER in place of 0. */
int stage_call_over(struct stage_turn *turn, struct aws_request request, const char *const *codes) MUST_USE;

#endif
