/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AWS Lambda (rest-json), one function a call. Quotas: GetFunction 100 a second, every other call
 * here 15 a second together; so a caller that waits polls with GetFunction.
 */
#ifndef BERTH_PROVIDERS_AWS_SERVICES_LAMBDA_H
#define BERTH_PROVIDERS_AWS_SERVICES_LAMBDA_H

#include "providers/aws/client/aws_json.h"

/*
 * GET /2015-03-31/functions?MaxItems=50[&Marker=] -> {"Functions": [configuration], "NextMarker"}. The
 * configurations come without State, LastUpdateStatus, tags and image, but with RevisionId. `marker` NULL: the first
 * page.
 */
struct aws_request lambda_list_functions(const char *marker);

/* Its following pages, for aws_ahead_pages(). */
bool lambda_next_functions(const struct aws_response *page, const struct aws_request *first,
                           const char *context, struct arena *arena, struct aws_request *ret);

/*
 * GET /2015-03-31/functions/{name} -> {"Configuration": {FunctionArn, RevisionId, State, LastUpdateStatus, ...},
 * "Code": {"ImageUri", "ResolvedImageUri"}, "Tags": {}, "Concurrency": {"ReservedConcurrentExecutions"}}.
 * 404 ResourceNotFoundException.
 */
struct aws_request lambda_get_function(const char *function, struct arena *arena);

/*
 * GET /2016-08-19/account-settings -> {"AccountLimit": {"ConcurrentExecutions": n, "UnreservedConcurrentExecutions": n}}.
 */
struct aws_request lambda_get_account_settings(void);

/*
 * POST /2015-03-31/functions {FunctionName, Role, PackageType, Code, ...} -> 201 configuration. 409
 * ResourceConflictException where the name is taken. The reference to `body` is taken, here and below.
 */
struct aws_request lambda_create_function(json_t *body, struct arena *arena);

/*
 * PUT /2015-03-31/functions/{name}/configuration {RevisionId, MemorySize, ...} -> 200 configuration. Only the members
 * given change, but Environment is replaced whole. 412 PreconditionFailedException where RevisionId has moved, 409
 * ResourceConflictException while another update is in progress.
 */
struct aws_request lambda_update_configuration(const char *function, json_t *body, struct arena *arena);

/* PUT /2015-03-31/functions/{name}/code {RevisionId, ImageUri, Architectures} -> 200 configuration; errors as above. */
struct aws_request lambda_update_code(const char *function, json_t *body, struct arena *arena);

/* DELETE /2015-03-31/functions/{name} -> 204. Takes no RevisionId: look whose it is just before. */
struct aws_request lambda_delete_function(const char *function, struct arena *arena);

/* POST /2017-03-31/tags/{arn} {"Tags": {}} -> 204: adds and replaces; other tags stay. */
struct aws_request lambda_tag_resource(const char *arn, const struct value *tags, struct arena *arena);

/*
 * DELETE /2017-03-31/tags/{arn}?tagKeys=K&tagKeys=K -> 204, for the keys from *from on, as many as one request
 * holds; moves *from behind them.
 */
struct aws_request lambda_untag_resource(const char *arn, const struct value *keys, uint32_t *from,
                                         struct arena *arena);

/* PUT /2017-10-31/functions/{name}/concurrency {"ReservedConcurrentExecutions": n} -> 200. */
struct aws_request lambda_put_concurrency(const char *function, int64_t reserved, struct arena *arena);
/* DELETE /2017-10-31/functions/{name}/concurrency -> 204. */
struct aws_request lambda_delete_concurrency(const char *function, struct arena *arena);

/* GET /2021-10-31/functions/{name}/url -> {"FunctionUrl"}. 404 ResourceNotFoundException where it has none. */
struct aws_request lambda_get_url(const char *function, struct arena *arena);
/* GET /2015-03-31/functions/{name}/aliases -> {"Aliases": [{"Name"}], "NextMarker"?}: the first page. */
struct aws_request lambda_list_aliases(const char *function, struct arena *arena);
/* GET /2015-03-31/event-source-mappings?FunctionName={name} -> {"EventSourceMappings": [{"EventSourceArn"}], ...}. */
struct aws_request lambda_list_event_sources(const char *function, struct arena *arena);
/* GET /2015-03-31/functions/{name}/policy -> {"Policy": document, as a text}. 404 where it has none. */
struct aws_request lambda_get_policy(const char *function, struct arena *arena);

/*
 * POST /2021-11-15/functions/{name}/response-streaming-invocations -> 200, application/vnd.amazon.eventstream: PayloadChunk {Payload}
 * as the function gives it, then InvokeComplete {ErrorCode?, ErrorDetails?, LogResult?}. POST /2015-03-31/functions/{name}/invocations ->
 * 200, the payload, X-Amz-Function-Error where the code failed. Both with X-Amz-Tenant-Id, which a function with tenant isolation must
 * have and no other may; TooManyRequestsException (429): nothing has run. `payload` is borrowed, at most 6 MB of JSON.
 */
struct aws_request lambda_invoke_stream(const char *function, const char *tenant, const char *payload,
                                        size_t length, struct arena *arena);
struct aws_request lambda_invoke(const char *function, const char *tenant, const char *payload, size_t length,
                                 struct arena *arena);

#endif
