/* SPDX-License-Identifier: Apache-2.0 */
/* Failed calls in words: one line that says which call, what came back, and what to do where that is known. */
#ifndef BERTH_PROVIDERS_AWS_CLIENT_EXPLAIN_H
#define BERTH_PROVIDERS_AWS_CLIENT_EXPLAIN_H

#include "http/http.h"
#include "providers/aws/client/aws_client.h"
#include "providers/aws/client/endpoint.h"

/* What a message may speak of beside the call itself. */
struct circumstances {
        const struct aws_request *request;
        const struct endpoint *endpoint;
        const char *credentials_origin; /* "the profile x" */
        int64_t wall_ms;                /* as the request was signed */
};

/*
 * "lambda CreateFunction: 403 AccessDeniedException: ... (request ID); what to do". Always -1. The service's own words are
 * quoted where its endpoint is the one that the region has, and never where a setting put another in its place.
 */
int explain_answer(const struct circumstances *circumstances, const struct aws_response *response,
                   struct error *err);
/* No answer came; err holds http_send()'s words. Always -1. */
int explain_failure(const struct circumstances *circumstances, enum http_failure failure, struct error *err);

#endif
