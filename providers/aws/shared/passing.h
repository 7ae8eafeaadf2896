/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Error answers that pass by themselves: AWS is eventually consistent, and what one call made the next may not know for a while.
 * One table for every call of an apply, by service, operation and code, with the time after which such an error is final.
 */
#ifndef BERTH_PROVIDERS_AWS_SHARED_PASSING_H
#define BERTH_PROVIDERS_AWS_SHARED_PASSING_H

#include "providers/aws/client/aws_client.h"

struct passing {
        enum aws_service service;
        const char *operation; /* fnmatch(3) patterns, both: "*" is any operation */
        const char *code;
        const char *words[2]; /* the message holds them all; NULL: any message */
        const char *unless;   /* and does not hold this; or NULL */
        int64_t limit_ms;     /* counted from the first such answer of the call */
        const char *cause;    /* to be said where it has not passed by then; or NULL */
};

/* The row that the error answer in `response` falls under; NULL: the error is final. Static. */
const struct passing *passing_find(const struct aws_request *request, const struct aws_response *response);

#endif
