/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that were begun ahead of a client's aws_call(): aws_client.h has the contract, aws_client.c takes
 * the answers.
 */
#ifndef BERTH_PROVIDERS_AWS_CLIENT_AHEAD_H
#define BERTH_PROVIDERS_AWS_CLIENT_AHEAD_H

#include "providers/aws/client/aws_client.h"

struct ahead;

struct ahead *
ahead_new(struct aws_client *client); /* borrowed; no thread is started before something is asked */
void ahead_free(struct ahead *ahead); /* NULL is fine */

/*
 * The answer to a call like this, once it has come: true, with *ret_result and `response` or err as
 * aws_call() would leave them. False if it was not asked ahead. Each answer is taken once.
 */
bool ahead_take(struct ahead *ahead, const struct aws_request *request, struct aws_response *response,
                int *ret_result, struct error *err);

#endif
