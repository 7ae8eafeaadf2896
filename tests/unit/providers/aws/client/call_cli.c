/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes AWS calls given as lines of JSON, for tests against servers that speak AWS:
 *
 *     {"service": "lambda", "operation", "method", "path", "bucket", "query": [[name, value | null]],
 *      "headers": {name: value}, "body", "content_type", "checksum": true}
 *     -> {"status", "code", "message", "request_id", "etag", "body", "error"}
 *
 * {"account": true} -> {"account", "arn", "error"}. Argument: the Stack's `aws` map as JSON, "{}" where absent.
 */
#include "cli_support.h"

#include <string.h>

static enum aws_service service_of(const char *name) {
        for (int i = 0; name && i < AWS_SERVICE_COUNT; i++) {
                if (strcmp(aws_service_name((enum aws_service)i), name) == 0)
                        return (enum aws_service)i;
        }
        fprintf(stderr, "unknown service %s\n", name ? name : "(none)");
        exit(2);
}

static void fill(const json_t *input, struct aws_request *request) {
        json_t *pair, *value;
        const char *name;
        size_t i, count = 0;

        *request = (struct aws_request){
                .service = service_of(json_text(input, "service")),
                .operation = json_text(input, "operation"),
                .method = json_text(input, "method"),
                .path = json_text(input, "path"),
                .bucket = json_text(input, "bucket"),
                .body = json_text(input, "body"),
                .body_length = json_string_length(json_object_get(input, "body")),
                .content_type = json_text(input, "content_type"),
                .checksum = json_is_true(json_object_get(input, "checksum")),
        };
        json_array_foreach (json_object_get(input, "query"), i, pair) {
                if (i < AWS_QUERY_MAX)
                        request->query[i] = (struct aws_query){ json_string_value(json_array_get(pair, 0)),
                                                                json_string_value(json_array_get(pair, 1)) };
        }
        json_object_foreach (json_object_get(input, "headers"), name, value) {
                if (count < AWS_HEADERS_MAX)
                        request->headers[count++] = (struct aws_query){ name, json_string_value(value) };
        }
}

static void call(struct aws_client *client, const json_t *input, json_t *output) {
        struct aws_request request;
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct error err = { 0 };

        fill(input, &request);
        if (aws_call(client, &request, &response, &err) < 0)
                json_set_text(output, "error", err.message);
        json_object_set_new(output, "status", json_integer(response.status));
        json_set_text(output, "code", response.error_code);
        json_set_text(output, "message", response.error_message);
        json_set_text(output, "request_id", response.request_id);
        json_set_text(output, "etag", response.etag);
        json_object_set_new(output, "body",
                            json_stringn_nocheck(strbuf_text(&response.body), response.body.length));
}

static void ask_account(struct aws_client *client, json_t *output) {
        const char *account = NULL, *arn = NULL;
        struct error err = { 0 };

        if (aws_client_account(client, &account, &arn, &err) < 0)
                json_set_text(output, "error", err.message);
        json_set_text(output, "account", account);
        json_set_text(output, "arn", arn);
}

static void take_line(struct aws_client *client, const char *line, size_t length) {
        json_error_t problem;
        json_t *input JSON_CLEANUP = json_loadb(line, length, 0, &problem);
        json_t *output JSON_CLEANUP = json_object();

        if (!input) {
                fprintf(stderr, "not JSON: %s\n", problem.text);
                exit(2);
        }
        if (json_object_get(input, "account"))
                ask_account(client, output);
        else
                call(client, input, output);
        put_line(output);
}

int main(int argc, char **argv) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct aws_client *client = client_of_arguments(argc, argv, arena);
        char *line = NULL;
        size_t size = 0;
        ssize_t length;

        while ((length = getline(&line, &size, stdin)) > 0)
                take_line(client, line, (size_t)length);
        free(line);
        aws_client_close(client);
        return 0;
}
