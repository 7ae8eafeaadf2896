/* SPDX-License-Identifier: Apache-2.0 */
/* GetFunction for many functions, several at a time: a first plan of a thousand would else take a minute of waiting. */
#ifndef BERTH_PROVIDERS_AWS_ENVIRONMENT_ENVIRONMENT_READ_H
#define BERTH_PROVIDERS_AWS_ENVIRONMENT_ENVIRONMENT_READ_H

#include "providers/aws/client/client.h"

struct function_read {
        struct aws_request request; /* in: lambda_get_function() */
        json_t *function; /* out: the answer, owned by the caller; NULL where there is no such function */
};

/* The first failure ends it; what was read until then is released. */
int environment_read_all(struct aws_client *client, struct function_read *reads, size_t count,
                         struct error *err) MUST_USE;

#endif
