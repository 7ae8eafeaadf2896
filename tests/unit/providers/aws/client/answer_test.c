/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"
#include "providers/aws/client/answer.h"

#include <string.h>

struct reading {
        enum service_protocol protocol;
        int status;
        const char *headers;
        const char *body;
        const char *code;
        const char *message;
        const char *request_id;
};

static const struct reading readings[] = {
        { PROTOCOL_REST_JSON, 404, "x-amzn-errortype: ResourceNotFoundException\nx-amzn-requestid: r-1\n",
          "{\"Message\":\"Function not found: f\",\"Type\":\"User\"}", "ResourceNotFoundException",
          "Function not found: f", "r-1" },
        { PROTOCOL_REST_JSON, 400,
          "x-amzn-errortype: ValidationException:http://internal.amazon.com/coral/x/\n",
          "{\"message\":\"bad\"}", "ValidationException", "bad", "" },
        { PROTOCOL_REST_JSON, 400, "", "{\"__type\":\"a.b#ValidationException\",\"message\":\"bad\"}",
          "ValidationException", "bad", "" },
        { PROTOCOL_REST_JSON, 400, "", "{\"code\":\"ValidationException\"}", "ValidationException", "", "" },
        { PROTOCOL_REST_JSON, 429, "x-amzn-errortype: TooManyRequestsException\n",
          "{\"Reason\":\"CallerRateLimitExceeded\",\"message\":\"Rate\\nexceeded\"}",
          "TooManyRequestsException", "Rate exceeded", "" },
        { PROTOCOL_JSON, 400, "x-amzn-requestid: r-2\n",
          "{\"__type\":\"RepositoryNotFoundException\",\"message\":\"no such repository\"}",
          "RepositoryNotFoundException", "no such repository", "r-2" },
        { PROTOCOL_JSON, 400, "", "{\"__type\":\"com.amazonaws.ecr#X:http://y#z\"}", "X", "", "" },
        { PROTOCOL_JSON, 502, "content-type: text/html\n", "<html>\n <b>Bad\x1b[31m gateway</b>",
          "BadGateway", "<html> <b>Bad [31m gateway</b>", "" },
        { PROTOCOL_JSON, 413, "", "", "RequestTooLarge", "", "" },
        { PROTOCOL_JSON, 418, "", "[1]", "UnknownError", "[1]", "" },
        { PROTOCOL_REST_XML, 404, "x-amz-request-id: r-3\n",
          "<?xml version=\"1.0\"?><Error><Code>NoSuchKey</Code><Message>No &amp; key</Message><Key>k</Key>"
          "<RequestId>other</RequestId></Error>",
          "NoSuchKey", "No & key", "r-3" },
        { PROTOCOL_REST_XML, 403, "", "<Error><Code>AccessDenied</Code><RequestId>r-4</RequestId></Error>",
          "AccessDenied", "", "r-4" },
        { PROTOCOL_REST_XML, 404, "", "", "NotFound", "", "" },
        { PROTOCOL_REST_XML, 412, "", "", "PreconditionFailed", "", "" },
        { PROTOCOL_REST_XML, 301, "x-amz-bucket-region: eu-west-1\n",
          "<Error><Code>PermanentRedirect</Code><Message>elsewhere</Message></Error>", "PermanentRedirect",
          "elsewhere; the bucket is in the region eu-west-1", "" },
        { PROTOCOL_REST_XML, 503, "", "<Error><Code>SlowDown</Code", "ServiceUnavailable",
          "<Error><Code>SlowDown</Code", "" },
        { PROTOCOL_QUERY, 400, "",
          "<Response><Errors><Error><Code>VpcLimitExceeded</Code><Message>no more</Message></Error></Errors>"
          "<RequestID>r-9</RequestID></Response>",
          "VpcLimitExceeded", "no more", "r-9" },
        { PROTOCOL_QUERY, 404, "",
          "<ErrorResponse xmlns=\"https://iam.amazonaws.com/doc/2010-05-08/\"><Error><Type>Sender</Type>"
          "<Code>NoSuchEntity</Code><Message>no role</Message></Error><RequestId>r-5</RequestId></ErrorResponse>",
          "NoSuchEntity", "no role", "r-5" },
        { PROTOCOL_QUERY, 400, "", "<!DOCTYPE a [<!ENTITY x \"y\">]><Error><Code>&x;</Code></Error>",
          "BadRequest", NULL, "" },
        { PROTOCOL_REST_JSON, 302, "location: http://elsewhere/\n", "", "Redirect",
          "redirected to http://elsewhere/, which is not followed: the signature must not travel there", "" },
        { PROTOCOL_REST_XML, 200, "etag: \"abc\"\nx-amz-request-id: r-6\n", "anything", "", "", "r-6" },
};

static int read(const struct reading *reading, struct aws_response *ret, struct error *err) {
        struct http_response answer HTTP_RESPONSE_CLEANUP = { .status = reading->status };

        strbuf_append(&answer.headers, reading->headers);
        strbuf_append(&answer.body, reading->body);
        return answer_read(reading->protocol, "Op", &answer, ret, err);
}

static void errors_of_each_protocol(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(readings) / sizeof(readings[0]); i++) {
                struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
                struct error err = { 0 };

                print_message("  %d %s\n", readings[i].status, readings[i].code);
                assert_int_equal(read(&readings[i], &response, &err), 0);
                assert_string_equal(response.error_code, readings[i].code);
                if (readings[i].message)
                        assert_string_equal(response.error_message, readings[i].message);
                assert_string_equal(response.request_id, readings[i].request_id);
                assert_int_equal(response.status, readings[i].status);
        }
}

static void json_bodies_are_parsed(void **state) {
        struct reading reading = { PROTOCOL_REST_JSON, 200, "", "{\"a\":\"b\"}", NULL, NULL, NULL };
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct error err = { 0 };

        (void)state;
        assert_int_equal(read(&reading, &response, &err), 0);
        assert_string_equal(json_text(response.json, "a"), "b");
}

static void broken_json_is_no_answer(void **state) {
        static const char *const bodies[] = { "{\"a\":", "<html>", "{} {}", "\xff" };

        (void)state;
        for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
                struct reading reading = { PROTOCOL_JSON, 200, "", bodies[i], NULL, NULL, NULL };
                struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
                struct error err = { 0 };

                assert_int_equal(read(&reading, &response, &err), -1);
                assert_non_null(strstr(err.message, "the answer is not JSON"));
        }
}

/* What only reads says at least "{}"; what changes something may say nothing. */
static void an_empty_list_is_no_empty_answer(void **state) {
        static const struct {
                const char *operation;
                int expected;
        } rows[] = { { "ListFunctions", -1 }, { "GetResources", -1 },     { "DescribeRepositories", -1 },
                     { "BatchGetImage", -1 }, { "DeleteFunction", 0 },    { "TagResource", 0 },
                     { "CreateLogGroup", 0 }, { "PutRetentionPolicy", 0 } };
        const struct http_response answer = { .status = 200 };

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
                struct error err = { 0 };

                assert_int_equal(answer_read(PROTOCOL_JSON, rows[i].operation, &answer, &response, &err),
                                 rows[i].expected);
                if (rows[i].expected < 0)
                        assert_non_null(strstr(err.message, "the answer is empty"));
        }
}

static void long_texts_are_cut(void **state) {
        struct strbuf body STRBUF_CLEANUP = STRBUF_INIT;
        struct reading reading = { PROTOCOL_JSON, 400, "", NULL, NULL, NULL, NULL };
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct error err = { 0 };

        (void)state;
        strbuf_append(&body, "{\"__type\":\"");
        for (int i = 0; i < 5000; i++)
                strbuf_append_char(&body, 'x');
        strbuf_append(&body, "\",\"message\":\"");
        for (int i = 0; i < 5000; i++)
                strbuf_append_char(&body, 'y');
        strbuf_append(&body, "\"}");
        reading.body = strbuf_text(&body);
        assert_int_equal(read(&reading, &response, &err), 0);
        assert_int_equal(strlen(response.error_code), sizeof(response.error_code) - 1);
        assert_int_equal(strlen(response.error_message), sizeof(response.error_message) - 1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(errors_of_each_protocol),
                cmocka_unit_test(json_bodies_are_parsed),
                cmocka_unit_test(broken_json_is_no_answer),
                cmocka_unit_test(an_empty_list_is_no_empty_answer),
                cmocka_unit_test(long_texts_are_cut),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
