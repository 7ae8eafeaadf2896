/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors come in a form of each protocol's own: JSON with __type, code or a header, XML with Error or ErrorResponse,
 * or, from a proxy on the way, anything. All end as code, text and request id in struct aws_response; where the body
 * says nothing, the code is made from the status. Texts are cut to one line, since they go into messages and logs.
 *
 * An answer of 2xx that is not what its protocol says is an error by itself. A malformed list must
 * not be taken for "nothing exists": the plan would make everything again.
 */
#include "providers/aws/client/answer.h"

#include "base/json.h"
#include "providers/aws/client/xml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "com.amazonaws.ecr#Name", "Name:http://internal..." -> "Name". */
static void take_code(struct aws_response *ret, const char *text) {
        const char *hash;
        size_t length = strcspn(text, ":");

        hash = memchr(text, '#', length);
        if (hash) {
                length -= (size_t)(hash + 1 - text);
                text = hash + 1;
        }
        snprintf(ret->error_code, sizeof(ret->error_code), "%.*s", (int)length, text);
}

/* One line: runs of space and control characters become one space. */
static void copy_error_message(struct aws_response *ret, const char *text, size_t length) {
        size_t used = 0;

        for (size_t i = 0; i < length && used + 1 < sizeof(ret->error_message); i++) {
                unsigned char byte = (unsigned char)text[i];
                bool space = byte <= ' ' || byte == 0x7f;

                if (space && (used == 0 || ret->error_message[used - 1] == ' '))
                        continue;
                ret->error_message[used++] = space ? ' ' : (char)byte;
        }
        while (used > 0 && ret->error_message[used - 1] == ' ')
                used--;
        ret->error_message[used] = '\0';
}

static void take_request_id(const struct http_response *answer, struct aws_response *ret) {
        static const char *const names[] = { "x-amzn-requestid", "x-amz-request-id", "x-amzn-request-id" };

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                if (http_header(answer, names[i], ret->request_id, sizeof(ret->request_id)))
                        return;
        }
}

static json_t *parse_body(const struct http_response *answer, json_error_t *problem) {
        json_t *json;

        json_secret_begin();
        json = json_loadb(strbuf_text(&answer->body), answer->body.length, JSON_ALLOW_NUL | JSON_DECODE_ANY,
                          problem);
        json_secret_end();
        return json;
}

/*
 * Only a text that can be such a word ("ReservedFunctionConcurrentInvocationLimitExceeded"): it is
 * quoted, whichever server has answered.
 */
static void take_reason(struct aws_response *ret, const char *reason) {
        size_t length = reason ? strlen(reason) : 0;

        if (length > 0 && length < sizeof(ret->error_reason) &&
            strspn(reason, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == length)
                memcpy(ret->error_reason, reason, length + 1);
}

static void read_json_error(const struct http_response *answer, struct aws_response *ret) {
        json_error_t problem;
        json_t *body JSON_CLEANUP = answer->body.length ? parse_body(answer, &problem) : NULL;
        const char *code = json_text(body, "code"), *message = json_text(body, "message");
        char header[256];

        if (!code)
                code = json_text(body, "__type");
        if (!code)
                code = json_text(body, "Code");
        if (!message)
                message = json_text(body, "Message");
        if (!message)
                message = json_text(body, "errorMessage");
        if (http_header(answer, "x-amzn-errortype", header, sizeof(header)))
                code = header;
        if (code)
                take_code(ret, code);
        if (message)
                copy_error_message(ret, message, strlen(message));
        take_reason(ret, json_text(body, "Reason"));
}

static void read_xml_error(const struct http_response *answer, struct aws_response *ret) {
        struct xml_document *document XML_CLEANUP = NULL;
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct error ignored;
        struct xml_node *root, *error;
        const char *text;

        if (xml_parse(strbuf_text(&answer->body), answer->body.length, "the answer", &document, &ignored) < 0)
                return;
        root = xml_root(document);
        error = strcmp(xml_name(root), "Error") == 0 ? root : xml_child(root, "Error");
        if (!error) /* EC2's */
                error = xml_child(xml_child(root, "Errors"), "Error");
        if ((text = xml_text(error, "Code", arena)))
                take_code(ret, text);
        if ((text = xml_text(error, "Message", arena)))
                copy_error_message(ret, text, strlen(text));
        if (!ret->request_id[0] &&
            ((text = xml_text(root, "RequestId", arena)) || (text = xml_text(root, "RequestID", arena))))
                snprintf(ret->request_id, sizeof(ret->request_id), "%s", text);
}

/* For answers without a body of the protocol's form. */
static void name_by_status(const struct http_response *answer, struct aws_response *ret) {
        static const struct {
                int status;
                const char *code;
        } names[] = {
                { 301, "PermanentRedirect" }, { 302, "Redirect" },           { 304, "NotModified" },
                { 307, "TemporaryRedirect" }, { 308, "PermanentRedirect" },  { 400, "BadRequest" },
                { 401, "Unauthorized" },      { 403, "Forbidden" },          { 404, "NotFound" },
                { 405, "MethodNotAllowed" },  { 409, "Conflict" },           { 412, "PreconditionFailed" },
                { 413, "RequestTooLarge" },   { 429, "TooManyRequests" },    { 500, "InternalError" },
                { 502, "BadGateway" },        { 503, "ServiceUnavailable" }, { 504, "GatewayTimeout" },
        };

        snprintf(ret->error_code, sizeof(ret->error_code), "UnknownError");
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                if (names[i].status == answer->status)
                        snprintf(ret->error_code, sizeof(ret->error_code), "%s", names[i].code);
        }
        if (!ret->error_message[0]) {
                size_t length = answer->body.length < 200 ? answer->body.length : 200;

                copy_error_message(ret, strbuf_text(&answer->body), length);
        }
}

static void add_location(const struct http_response *answer, struct aws_response *ret) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        char place[512];

        strbuf_append(&text, ret->error_message);
        if (text.length)
                strbuf_append(&text, "; ");
        if (http_header(answer, "x-amz-bucket-region", place, sizeof(place)))
                strbuf_printf(&text, "the bucket is in the region %s", place);
        else if (http_header(answer, "location", place, sizeof(place)))
                strbuf_printf(&text,
                              "redirected to %s, which is not followed: the signature must not travel there",
                              place);
        else
                return;
        copy_error_message(ret, strbuf_text(&text), text.length);
}

static void read_error(enum service_protocol protocol, const struct http_response *answer,
                       struct aws_response *ret) {
        if (protocol == PROTOCOL_REST_JSON || protocol == PROTOCOL_JSON)
                read_json_error(answer, ret);
        else if (answer->body.length)
                read_xml_error(answer, ret);
        if (!ret->error_code[0])
                name_by_status(answer, ret);
        if (answer->status >= 300 && answer->status < 400)
                add_location(answer, ret);
}

/* Operations that read answer "{}" at least. An empty body must not be taken for "nothing exists". */
static bool must_have_body(const char *operation) {
        return strncmp(operation, "Get", 3) == 0 || strncmp(operation, "List", 4) == 0 ||
               strncmp(operation, "Describe", 8) == 0 || strncmp(operation, "BatchGet", 8) == 0;
}

static int64_t date_of(const struct http_response *answer, const char *header) {
        char text[64];
        int64_t ms = http_header(answer, header, text, sizeof(text)) ? http_date_ms(text) : 0;

        return ms > 0 ? ms : 0;
}

static int64_t length_of(const struct http_response *answer) {
        char text[24], *end;
        long long length;

        if (!http_header(answer, "content-length", text, sizeof(text)) || *text < '0' || *text > '9')
                return -1;
        length = strtoll(text, &end, 10);
        return *end ? -1 : (int64_t)length;
}

int answer_read(enum service_protocol protocol, const char *what, const struct http_response *answer,
                struct aws_response *ret, struct error *err) {
        json_error_t problem;
        bool json = protocol == PROTOCOL_REST_JSON || protocol == PROTOCOL_JSON;

        ret->status = answer->status;
        ret->date_ms = date_of(answer, "date");
        ret->modified_ms = date_of(answer, "last-modified");
        ret->content_length = length_of(answer);
        http_header(answer, "etag", ret->etag, sizeof(ret->etag));
        http_header(answer, "x-amz-function-error", ret->function_error, sizeof(ret->function_error));
        http_header(answer, "x-amz-transition-default-minimum-object-size", ret->minimum_size,
                    sizeof(ret->minimum_size));
        take_request_id(answer, ret);
        if (answer->status < 200 || answer->status >= 300) {
                read_error(protocol, answer, ret);
                return 0;
        }
        if (json && answer->body.length == 0 && must_have_body(what))
                return error_set(
                        err, "%s: the answer is empty; something on the way may have changed it: try again",
                        what);
        if (!json || answer->body.length == 0)
                return 0;
        ret->json = parse_body(answer, &problem);
        if (!ret->json)
                return error_set(err,
                                 /* Without the parser's words: they quote what stands there. */
                                 "%s: the answer is not JSON (line %d); something on the way may have "
                                 "changed it: try again",
                                 what, problem.line);
        return 0;
}

void answer_withhold(struct aws_response *response) {
        size_t length = strspn(response->error_code, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz.");

        if (response->error_code[length] || length > 64)
                snprintf(response->error_code, sizeof(response->error_code), "UnknownError");
        response->request_id[0] = '\0';
}
