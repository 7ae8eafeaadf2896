/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each operation has the date of the API in its path, and not all have the same. A function's name may be anything that a
 * manifest allows, and an ARN has colons and slashes, so that both are encoded as one segment of the path.
 */
#include "providers/aws/services/lambda.h"

#include "base/json.h"

static const char *function_path(const char *version, const char *function, const char *part,
                                 struct arena *arena) {
        return arena_printf(arena, "/%s/functions/%s%s", version, encode_path(arena, function), part);
}

struct aws_request lambda_list_functions(const char *marker) {
        struct aws_request request = { .service = AWS_LAMBDA,
                                       .operation = "ListFunctions",
                                       .method = "GET",
                                       .path = "/2015-03-31/functions",
                                       .query = { { "MaxItems", "50" } } };

        if (marker)
                request.query[1] = (struct aws_query){ "Marker", marker };
        return request;
}

bool lambda_next_functions(const struct aws_response *page, const struct aws_request *first,
                           const char *context, struct arena *arena, struct aws_request *ret) {
        const char *marker = json_text(page->json, "NextMarker");

        (void)first;
        (void)context;
        if (!marker || !*marker)
                return false;
        *ret = lambda_list_functions(arena_strdup(arena, marker));
        return true;
}

struct aws_request lambda_get_function(const char *function, struct arena *arena) {
        return (struct aws_request){ .service = AWS_LAMBDA,
                                     .operation = "GetFunction",
                                     .method = "GET",
                                     .path = function_path("2015-03-31", function, "", arena) };
}

struct aws_request lambda_get_account_settings(void) {
        return (struct aws_request){ .service = AWS_LAMBDA,
                                     .operation = "GetAccountSettings",
                                     .method = "GET",
                                     .path = "/2016-08-19/account-settings" };
}

struct aws_request lambda_create_function(json_t *body, struct arena *arena) {
        struct aws_request request = { .service = AWS_LAMBDA,
                                       .operation = "CreateFunction",
                                       .method = "POST",
                                       .path = "/2015-03-31/functions" };

        aws_request_body(&request, body, arena);
        return request;
}

struct aws_request lambda_update_configuration(const char *function, json_t *body, struct arena *arena) {
        struct aws_request request = { .service = AWS_LAMBDA,
                                       .operation = "UpdateFunctionConfiguration",
                                       .method = "PUT",
                                       .path = function_path("2015-03-31", function, "/configuration",
                                                             arena) };

        aws_request_body(&request, body, arena);
        return request;
}

struct aws_request lambda_update_code(const char *function, json_t *body, struct arena *arena) {
        struct aws_request request = { .service = AWS_LAMBDA,
                                       .operation = "UpdateFunctionCode",
                                       .method = "PUT",
                                       .path = function_path("2015-03-31", function, "/code", arena) };

        aws_request_body(&request, body, arena);
        return request;
}

struct aws_request lambda_delete_function(const char *function, struct arena *arena) {
        return (struct aws_request){ .service = AWS_LAMBDA,
                                     .operation = "DeleteFunction",
                                     .method = "DELETE",
                                     .path = function_path("2015-03-31", function, "", arena) };
}

struct aws_request lambda_tag_resource(const char *arn, const struct value *tags, struct arena *arena) {
        struct aws_request request = { .service = AWS_LAMBDA,
                                       .operation = "TagResource",
                                       .method = "POST",
                                       .path = arena_printf(arena, "/2017-03-31/tags/%s",
                                                            encode_path(arena, arn)) };

        aws_request_body(&request, json_pack("{s:o}", "Tags", aws_json_map(tags)), arena);
        return request;
}

struct aws_request lambda_untag_resource(const char *arn, const struct value *keys, uint32_t *from,
                                         struct arena *arena) {
        struct aws_request request = { .service = AWS_LAMBDA,
                                       .operation = "UntagResource",
                                       .method = "DELETE",
                                       .path = arena_printf(arena, "/2017-03-31/tags/%s",
                                                            encode_path(arena, arn)) };

        for (size_t i = 0; i < AWS_QUERY_MAX && *from < keys->count; i++, (*from)++)
                request.query[i] = (struct aws_query){ "tagKeys", keys->members[*from].name };
        return request;
}

struct aws_request lambda_put_concurrency(const char *function, int64_t reserved, struct arena *arena) {
        struct aws_request request = { .service = AWS_LAMBDA,
                                       .operation = "PutFunctionConcurrency",
                                       .method = "PUT",
                                       .path = function_path("2017-10-31", function, "/concurrency", arena) };

        aws_request_body(&request, json_pack("{s:I}", "ReservedConcurrentExecutions", (json_int_t)reserved),
                         arena);
        return request;
}

struct aws_request lambda_delete_concurrency(const char *function, struct arena *arena) {
        return (struct aws_request){ .service = AWS_LAMBDA,
                                     .operation = "DeleteFunctionConcurrency",
                                     .method = "DELETE",
                                     .path = function_path("2017-10-31", function, "/concurrency", arena) };
}

static struct aws_request get_request(const char *operation, const char *path) {
        return (struct aws_request){
                .service = AWS_LAMBDA, .operation = operation, .method = "GET", .path = path
        };
}

struct aws_request lambda_get_url(const char *function, struct arena *arena) {
        return get_request("GetFunctionUrlConfig", function_path("2021-10-31", function, "/url", arena));
}

struct aws_request lambda_list_aliases(const char *function, struct arena *arena) {
        return get_request("ListAliases", function_path("2015-03-31", function, "/aliases", arena));
}

struct aws_request lambda_list_event_sources(const char *function, struct arena *arena) {
        struct aws_request request =
                get_request("ListEventSourceMappings", "/2015-03-31/event-source-mappings");

        (void)arena;
        request.query[0] = (struct aws_query){ "FunctionName", function };
        return request;
}

struct aws_request lambda_get_policy(const char *function, struct arena *arena) {
        return get_request("GetPolicy", function_path("2015-03-31", function, "/policy", arena));
}

static struct aws_request invocation(const char *operation, const char *path, const char *tenant,
                                     const char *payload, size_t length) {
        struct aws_request request = { .service = AWS_LAMBDA,
                                       .operation = operation,
                                       .method = "POST",
                                       .path = path,
                                       .body = payload,
                                       .body_length = length,
                                       .content_type = "application/json",
                                       .once = true,
                                       .headers = { { "X-Amz-Invocation-Type", "RequestResponse" } } };

        if (tenant)
                request.headers[1] = (struct aws_query){ "X-Amz-Tenant-Id", tenant };
        return request;
}

struct aws_request lambda_invoke_stream(const char *function, const char *tenant, const char *payload,
                                        size_t length, struct arena *arena) {
        return invocation("InvokeWithResponseStream",
                          function_path("2021-11-15", function, "/response-streaming-invocations", arena),
                          tenant, payload, length);
}

struct aws_request lambda_invoke(const char *function, const char *tenant, const char *payload, size_t length,
                                 struct arena *arena) {
        return invocation("Invoke", function_path("2015-03-31", function, "/invocations", arena), tenant,
                          payload, length);
}
