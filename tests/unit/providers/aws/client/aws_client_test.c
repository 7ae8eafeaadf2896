/* SPDX-License-Identifier: Apache-2.0 */
/* Whole calls against a scripted server. */
#include "providers/aws/client/aws_client.h"

#include "providers/aws/client/client_support.h"

#include "base/json.h"

#include <poll.h>

static const struct aws_request list_functions = {
        .service = AWS_LAMBDA, .operation = "ListFunctions", .method = "GET", .path = "/2015-03-31/functions"
};
static const struct aws_request get_function = {
        .service = AWS_LAMBDA, .operation = "GetFunction", .method = "GET", .path = "/2015-03-31/functions/f"
};

static const struct scripted_answer ok = { "200 OK\r\n", "{\"a\": \"b\"}" };
static const struct scripted_answer down = { "503 Down\r\n", "" };
#define SLOW                                                                                    \
        {                                                                                       \
                "429 Slow\r\nRetry-After: 3\r\nx-amzn-ErrorType: TooManyRequestsException\r\n", \
                        "{\"message\": \"Rate exceeded\"}"                                      \
        }
static const struct scripted_answer slow = SLOW;

static void a_call_is_signed_and_read(void **state) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct fixture fixture;
        struct error err = { 0 };
        const char *head;

        (void)state;
        setenv("AWS_SESSION_TOKEN", "token", 1);
        open_client(&fixture, &ok, 1, 1, NULL);
        assert_string_equal(aws_client_region(fixture.client), "eu-west-1");
        assert_string_equal(aws_client_partition(fixture.client), "aws");
        assert_int_equal(aws_call(fixture.client, &list_functions, &response, &err), 0);
        assert_string_equal(json_text(response.json, "a"), "b");
        stop(&fixture);
        head = fixture.server.received[0];
        assert_non_null(strstr(head, "\r\nx-amz-date: 20260131T120000Z\r\n"));
        assert_non_null(strstr(head, "\r\nx-amz-security-token: token\r\n"));
        assert_non_null(strstr(head, "\r\nauthorization: AWS4-HMAC-SHA256 "
                                     "Credential=AKID/20260131/eu-west-1/lambda/aws4_request, "
                                     "SignedHeaders=host;x-amz-date;x-amz-security-token, Signature="));
        assert_null(strstr(head, "secret"));
        release(&fixture);
}

static void failures_pass(void **state) {
        static const struct scripted_answer answers[] = { { "", "" },
                                                          { "503 Down\r\n", "" },
                                                          { "200 OK\r\n", "{}" } };
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct fixture fixture;
        struct error err = { 0 };

        (void)state;
        open_client(&fixture, answers, 3, 1, NULL);
        assert_int_equal(aws_call(fixture.client, &get_function, &response, &err), 0);
        assert_int_equal(err.kind, ERROR_NONE); /* untouched on success */
        assert_int_equal(response.status, 200);
        assert_string_equal(response.error_code, "");
        /* 0.5 x (1 s + 2 s) */
        assert_int_equal(atomic_load(&elapsed_ms), 1500);
        stop(&fixture);
        assert_int_equal(fixture.server.requests, 3);
        release(&fixture);
}

static void half_an_answer_is_a_failure_that_passes(void **state) {
        static const struct scripted_answer answers[] = { { "200 OK\r\n", "{\"a\":" },
                                                          { "200 OK\r\n", "{}" } };
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct fixture fixture;
        struct error err = { 0 };

        (void)state;
        open_client(&fixture, answers, 2, 1, NULL);
        assert_int_equal(aws_call(fixture.client, &get_function, &response, &err), 0);
        stop(&fixture);
        assert_int_equal(fixture.server.requests, 2);
        release(&fixture);
}

static void failures_that_last_end(void **state) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct fixture fixture;
        struct error err = { 0 };

        (void)state;
        open_client(&fixture, &down, 1, 1, NULL);
        assert_int_equal(aws_call(fixture.client, &get_function, &response, &err), -1);
        assert_string_equal(
                err.message,
                "after 3 tries: lambda GetFunction: 503 ServiceUnavailable; the trouble is on that side: try again later");
        assert_int_equal(response.status, 503);
        stop(&fixture);
        assert_int_equal(fixture.server.requests, 3);
        release(&fixture);
}

static void throttling_is_waited_out(void **state) {
        static const struct scripted_answer answers[] = {
                { "429 Slow\r\nRetry-After: 3\r\nx-amzn-ErrorType: TooManyRequestsException\r\n", "{}" },
                { "429 Slow\r\nRetry-After: 3\r\nx-amzn-ErrorType: TooManyRequestsException\r\n", "{}" },
                { "429 Slow\r\nRetry-After: 3\r\nx-amzn-ErrorType: TooManyRequestsException\r\n", "{}" },
                { "429 Slow\r\nRetry-After: 3\r\nx-amzn-ErrorType: TooManyRequestsException\r\n", "{}" },
                { "200 OK\r\n", "{}" },
        };
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct fixture fixture;
        struct error err = { 0 };

        (void)state;
        open_client(&fixture, answers, 5, 1, NULL);
        assert_int_equal(aws_call(fixture.client, &get_function, &response, &err), 0);
        assert_int_equal(atomic_load(&elapsed_ms), 3000 + 3000 + 3000 + 4000);
        stop(&fixture);
        release(&fixture);

        begin(state);
        open_client(&fixture, &slow, 1, 1, NULL);
        assert_int_equal(aws_call(fixture.client, &get_function, &response, &err), -1);
        assert_non_null(strstr(
                err.message,
                "after 8 tries: lambda GetFunction: 429 TooManyRequestsException (its words are not quoted: "));
        stop(&fixture);
        assert_int_equal(fixture.server.requests, 8);
        release(&fixture);
}

static void no_call_takes_for_ever(void **state) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct fixture fixture;
        struct error err = { 0 };

        (void)state;
        setenv("AWS_MAX_ATTEMPTS", "100", 1);
        open_client(&fixture, &down, 1, 1, NULL);
        assert_int_equal(aws_call(fixture.client, &get_function, &response, &err), -1);
        assert_true(atomic_load(&elapsed_ms) > 280000 && atomic_load(&elapsed_ms) <= 300000);
        stop(&fixture);
        assert_true(fixture.server.requests > 20 && fixture.server.requests < 50);
        release(&fixture);
}

static void the_user_may_interrupt(void **state) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct fixture fixture;
        struct error err = { 0 };

        (void)state;
        interrupted = true;
        open_client(&fixture, &down, 1, 1, NULL);
        assert_int_equal(aws_call(fixture.client, &get_function, &response, &err), -1);
        assert_int_equal(err.kind, ERROR_INTERRUPTED);
        stop(&fixture);
        assert_int_equal(fixture.server.requests, 1);
        release(&fixture);
}

static void calls_keep_to_the_quota(void **state) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct fixture fixture;
        struct error err = { 0 };

        (void)state;
        open_client(&fixture, &ok, 1, 1, NULL);
        for (int i = 0; i < 31; i++)
                assert_int_equal(aws_call(fixture.client, &list_functions, &response, &err), 0);
        assert_true(atomic_load(&elapsed_ms) >= 2000 && atomic_load(&elapsed_ms) <= 2120);
        stop(&fixture);
        assert_int_equal(fixture.server.connections, 1);
        release(&fixture);
}

static int step(struct fixture *fixture, const struct aws_request *request, struct aws_response *response,
                struct error *err) {
        return aws_step_call(fixture->client, request, &fixture->progress, response, err);
}

/* --- who watches --- */

struct seen {
        struct strbuf calls;
        int64_t waited_ms;
        unsigned waits;
};

static void on_called(void *context, const char *service, const char *operation, int status, bool throttled) {
        struct seen *seen = context;

        strbuf_printf(&seen->calls, "%s %s %d%s; ", service, operation, status,
                      throttled ? " throttled" : "");
}

static void on_waited(void *context, const char *service, int64_t wait_ms) {
        struct seen *seen = context;

        assert_string_equal(service, "lambda");
        assert_true(wait_ms > 0);
        seen->waited_ms += wait_ms;
        seen->waits++;
}

static void open_watched(struct fixture *fixture, const struct scripted_answer *answers, size_t count,
                         const struct provider_watch *watch) {
        open_with(fixture, answers, count, (struct aws_client_options){ .watch = watch }, NULL);
}

static void each_try_is_told(void **state) {
        static const struct scripted_answer answers[] = {
                { "", "" },
                SLOW,
                { "200 OK\r\n", "not JSON" },
                { "404 No\r\nx-amzn-ErrorType: ResourceNotFoundException\r\n", "{}" },
                { "200 OK\r\n", "{}" },
        };
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct seen seen = { 0 };
        const struct provider_watch watch = { &seen, on_called, on_waited };
        struct fixture fixture;
        struct error err = { 0 };

        (void)state;
        open_watched(&fixture, answers, 5, &watch);
        assert_int_equal(aws_call(fixture.client, &get_function, &response, &err), -1);
        assert_int_equal(aws_call(fixture.client, &get_function, &response, &err), -1);
        assert_int_equal(aws_call(fixture.client, &get_function, &response, &err), 0);
        assert_string_equal(strbuf_text(&seen.calls),
                            "lambda GetFunction 0; lambda GetFunction 429 throttled; "
                            "lambda GetFunction 200; lambda GetFunction 404; lambda GetFunction 200; ");
        stop(&fixture);
        release(&fixture);
        strbuf_release(&seen.calls);
}

static void waits_for_the_quota_are_told(void **state) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct seen seen = { 0 };
        const struct provider_watch watch = { &seen, on_called, on_waited };
        struct fixture fixture;
        struct error err = { 0 };

        (void)state;
        open_watched(&fixture, &ok, 1, &watch);
        assert_int_equal(step(&fixture, &list_functions, &response, &err), STEP_DONE);
        assert_int_equal(seen.waits, 0);
        /* A place in the line is one wait, however often the step is called too early. */
        for (int i = 0; i < 3; i++)
                assert_int_equal(step(&fixture, &list_functions, &response, &err), STEP_AGAIN);
        assert_int_equal(seen.waits, 1);
        assert_int_equal(seen.waited_ms, 68);
        /*
         * A call that waits by itself takes the rest of the second at once, and waits for the
         * sixteenth call in it.
         */
        for (int i = 0; i < 13; i++)
                assert_int_equal(aws_call(fixture.client, &list_functions, &response, &err), 0);
        assert_int_equal(seen.waits, 1);
        assert_int_equal(aws_call(fixture.client, &list_functions, &response, &err), 0);
        assert_int_equal(seen.waits, 2);
        assert_true(seen.waited_ms >= 68 + 1000 && seen.waited_ms <= 68 + 1035);
        stop(&fixture);
        release(&fixture);
        strbuf_release(&seen.calls);
}

static void nobody_has_to_watch(void **state) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        const struct provider_watch watch = { 0 };
        struct fixture fixture;
        struct error err = { 0 };

        (void)state;
        open_watched(&fixture, &ok, 1, &watch);
        for (int i = 0; i < 2; i++)
                assert_int_equal(aws_call(fixture.client, &list_functions, &response, &err), 0);
        stop(&fixture);
        release(&fixture);
}

/* --- steps: the same without sleeping --- */

static void steps_say_when_to_come_back(void **state) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct fixture fixture;
        struct error err = { 0 };
        int64_t start;

        (void)state;
        may_sleep = false;
        open_client(&fixture, &ok, 1, 1, NULL);
        start = monotonic_ms(&test_clock);
        assert_int_equal(step(&fixture, &list_functions, &response, &err), STEP_DONE);
        assert_int_equal(step(&fixture, &list_functions, &response, &err), STEP_AGAIN);
        assert_true(fixture.progress.reserved);
        assert_int_equal(fixture.progress.not_before_ms, start + 68);
        /* Called too early, it keeps its place in the line. */
        assert_int_equal(step(&fixture, &list_functions, &response, &err), STEP_AGAIN);
        assert_int_equal(fixture.progress.not_before_ms, start + 68);
        atomic_store(&elapsed_ms, 68);
        assert_int_equal(step(&fixture, &list_functions, &response, &err), STEP_DONE);
        assert_false(fixture.progress.reserved);
        stop(&fixture);
        assert_int_equal(fixture.server.requests, 2);
        release(&fixture);
}

static void a_free_turn_is_now(void **state) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct fixture fixture;
        struct error err = { 0 };

        (void)state;
        may_sleep = false;
        open_client(&fixture, &ok, 1, 1, NULL);
        tick_ms = 1;
        assert_false(fixture.progress.sent);
        assert_int_equal(step(&fixture, &list_functions, &response, &err), STEP_DONE);
        assert_true(fixture.progress.sent);
        stop(&fixture);
        release(&fixture);
}

static void steps_try_again_later(void **state) {
        static const struct scripted_answer answers[] = { { "503 Down\r\n", "" },
                                                          SLOW,
                                                          { "200 OK\r\n", "{}" } };
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct fixture fixture;
        struct error err = { 0 };
        int64_t start;

        (void)state;
        may_sleep = false;
        open_client(&fixture, answers, 3, 1000, NULL);
        start = monotonic_ms(&test_clock);
        assert_int_equal(step(&fixture, &get_function, &response, &err), STEP_AGAIN);
        assert_int_equal(fixture.progress.attempts, 1);
        assert_int_equal(fixture.progress.not_before_ms, start + 500);
        atomic_store(&elapsed_ms, 500);
        assert_int_equal(step(&fixture, &get_function, &response, &err), STEP_AGAIN);
        assert_int_equal(fixture.progress.not_before_ms, start + 500 + 3000);
        atomic_store(&elapsed_ms, 3500);
        assert_int_equal(step(&fixture, &get_function, &response, &err), STEP_DONE);
        assert_int_equal(fixture.progress.attempts, 0);
        assert_int_equal(err.kind, ERROR_NONE);
        stop(&fixture);
        release(&fixture);
}

static void steps_fail_at_last_and_begin_anew(void **state) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct fixture fixture;
        struct error err = { 0 };

        (void)state;
        may_sleep = false;
        open_client(&fixture, &down, 1, 1000, NULL);
        for (int round = 0; round < 2; round++) {
                assert_int_equal(step(&fixture, &get_function, &response, &err), STEP_AGAIN);
                atomic_fetch_add(&elapsed_ms, 60000);
                assert_int_equal(step(&fixture, &get_function, &response, &err), STEP_AGAIN);
                atomic_fetch_add(&elapsed_ms, 60000);
                assert_int_equal(step(&fixture, &get_function, &response, &err), -1);
                assert_string_equal(
                        err.message,
                        "after 3 tries: lambda GetFunction: 503 ServiceUnavailable; the trouble is on that side: try again later");
                assert_int_equal(fixture.progress.attempts, 0);
                assert_false(fixture.progress.reserved);
        }
        stop(&fixture);
        assert_int_equal(fixture.server.requests, 6);
        release(&fixture);
}

static void an_expected_error_is_for_the_caller(void **state) {
        static const struct scripted_answer missing = {
                "404 Not Found\r\nx-amzn-ErrorType: ResourceNotFoundException\r\nx-amzn-RequestId: r-1\r\n",
                "{\"Message\": \"Function not found: f\"}"
        };
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct fixture fixture;
        struct error err = { 0 };

        (void)state;
        may_sleep = false;
        open_client(&fixture, &missing, 1, 1000, NULL);
        assert_int_equal(step(&fixture, &get_function, &response, &err), -1);
        assert_true(aws_failed_with(&response, "ResourceNotFoundException"));
        assert_int_equal(response.status, 404);
        assert_string_equal(
                err.message,
                "lambda GetFunction: 404 ResourceNotFoundException (its words are not quoted: the Stack's "
                "aws.endpointUrl names an endpoint that is not AWS's own)");
        /* For callers that decide by it, it is there. */
        assert_string_equal(response.error_message, "Function not found: f");
        stop(&fixture);
        release(&fixture);
}

/* --- clocks and keys --- */

#define SKEWED \
        "403 Forbidden\r\nDate: Sat, 31 Jan 2026 13:00:00 GMT\r\nx-amzn-ErrorType: InvalidSignatureException\r\n"

static void a_wrong_clock_is_mended_once(void **state) {
        static const struct scripted_answer answers[] = { { SKEWED, "{}" },
                                                          { "200 OK\r\n", "{}" },
                                                          { SKEWED, "{}" } };
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct fixture fixture;
        struct error err = { 0 };

        (void)state;
        may_sleep = false;
        open_client(&fixture, answers, 3, 1000, NULL);
        assert_int_equal(aws_call(fixture.client, &get_function, &response, &err), 0);
        /* The same again: the clock is not what is wrong. */
        atomic_fetch_add(&elapsed_ms, 1000);
        assert_int_equal(aws_call(fixture.client, &get_function, &response, &err), -1);
        assert_non_null(strstr(err.message,
                               "check the secret key of AWS_ACCESS_KEY_ID, and this machine's clock (the "
                               "request says 2026-01-31T13:00:01Z)"));
        stop(&fixture);
        assert_int_equal(fixture.server.requests, 3);
        assert_non_null(strstr(fixture.server.received[0], "x-amz-date: 20260131T120000Z"));
        assert_non_null(strstr(fixture.server.received[1], "x-amz-date: 20260131T130000Z"));
        assert_non_null(strstr(fixture.server.received[2], "x-amz-date: 20260131T130001Z"));
        release(&fixture);
}

#define ASSUMED(key)                                                                                                  \
        "<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>" key                                        \
        "</AccessKeyId><SecretAccessKey>s"                                                                            \
        "</SecretAccessKey><SessionToken>t</SessionToken><Expiration>2026-01-31T13:00:00Z</Expiration></Credentials>" \
        "</AssumeRoleResult></AssumeRoleResponse>"

static void an_expired_session_is_renewed(void **state) {
        static const struct scripted_answer answers[] = {
                { "200 OK\r\n", ASSUMED("FIRST") },
                { "403 Forbidden\r\nx-amzn-ErrorType: ExpiredTokenException\r\n", "{}" },
                { "200 OK\r\n", ASSUMED("SECOND") },
                { "200 OK\r\n", "{}" },
        };
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct fixture fixture;
        struct error err = { 0 };

        (void)state;
        may_sleep = false;
        open_client(&fixture, answers, 4, 1000, "arn:aws:iam::1:role/r");
        assert_int_equal(aws_call(fixture.client, &get_function, &response, &err), 0);
        stop(&fixture);
        assert_int_equal(fixture.server.requests, 4);
        assert_non_null(strstr(fixture.server.received[0], "Credential=AKID/20260131/eu-west-1/sts/"));
        assert_non_null(strstr(fixture.server.received[1], "Credential=FIRST/20260131/eu-west-1/lambda/"));
        assert_non_null(strstr(fixture.server.received[2], "Credential=AKID/"));
        assert_non_null(strstr(fixture.server.received[3], "Credential=SECOND/"));
        release(&fixture);
}

static void a_role_that_fails_once_is_asked_for_again(void **state) {
        static const struct scripted_answer answers[] = {
                { "503 Down\r\n", "" },
                { "200 OK\r\n", ASSUMED("FIRST") },
                { "200 OK\r\n", "{}" },
        };
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct fixture fixture;
        struct error err = { 0 };

        (void)state;
        may_sleep = false;
        open_client(&fixture, answers, 3, 1000, "arn:aws:iam::1:role/r");
        assert_int_equal(step(&fixture, &get_function, &response, &err), STEP_AGAIN); /* without sleeping */
        atomic_fetch_add(&elapsed_ms, 60000);
        assert_int_equal(step(&fixture, &get_function, &response, &err), STEP_DONE);
        stop(&fixture);
        release(&fixture);
}

static void a_role_that_is_denied_says_so(void **state) {
        static const struct scripted_answer denied = {
                "403 Forbidden\r\n",
                "<ErrorResponse><Error><Code>AccessDenied</Code><Message>no</Message></Error></ErrorResponse>"
        };
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct fixture fixture;
        struct error err = { 0 };

        (void)state;
        open_client(&fixture, &denied, 1, 1000, "arn:aws:iam::1:role/r");
        assert_int_equal(aws_call(fixture.client, &get_function, &response, &err), -1);
        assert_string_equal(
                err.message,
                "lambda GetFunction: cannot assume the role arn:aws:iam::1:role/r: sts AssumeRole: 403 "
                "AccessDenied (its words are not quoted: the Stack's aws.endpointUrl names an endpoint that is not "
                "AWS's own); allow sts:AssumeRole to whom the credentials of AWS_ACCESS_KEY_ID belong");
        stop(&fixture);
        release(&fixture);
}

/* --- requests of each protocol --- */

static void each_protocol_has_its_form(void **state) {
        static const struct aws_request requests[] = {
                { .service = AWS_ECR, .operation = "DescribeRepositories" },
                { .service = AWS_IAM, .operation = "GetRole", .body = "&RoleName=r", .body_length = 11 },
                { .service = AWS_S3,
                  .operation = "PutBucketLifecycleConfiguration",
                  .method = "PUT",
                  .path = "/",
                  .bucket = "b-1",
                  .query = { { "lifecycle", NULL } },
                  .body = "<x/>",
                  .body_length = 4,
                  .checksum = true },
                { .service = AWS_S3,
                  .operation = "PutObject",
                  .method = "PUT",
                  .path = "/a b/ü",
                  .bucket = "b-1",
                  .headers = { { "if-none-match", "*" } } },
                { .service = AWS_LAMBDA,
                  .operation = "UntagResource",
                  .method = "DELETE",
                  .path = "/2017-03-31/tags/arn%3Aaws",
                  .query = { { "tagKeys", "a b" }, { "tagKeys", "berth:x" } } },
        };
        static const struct scripted_answer answers[] = {
                { "200 OK\r\n", "{}" },
                { "200 OK\r\n", "<GetRoleResponse xmlns=\"https://iam.amazonaws.com/doc/2010-05-08/\"/>" },
                { "200 OK\r\n", "" },
                { "200 OK\r\nETag: \"e\"\r\n", "" },
                { "200 OK\r\nETag: \"e\"\r\n", "" },
        };
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct fixture fixture;
        struct error err = { 0 };
        char **got;

        (void)state;
        open_client(&fixture, answers, sizeof(answers) / sizeof(answers[0]), 1000, NULL);
        for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
                assert_int_equal(aws_call(fixture.client, &requests[i], &response, &err), 0);
        assert_string_equal(response.etag, "\"e\"");
        stop(&fixture);
        got = fixture.server.received;
        assert_ptr_equal(strstr(got[0], "POST / HTTP/1.1\r\n"), got[0]);
        assert_non_null(strstr(
                got[0], "\r\nx-amz-target: AmazonEC2ContainerRegistry_V20150921.DescribeRepositories\r\n"));
        assert_non_null(strstr(got[0], "\r\ncontent-type: application/x-amz-json-1.1\r\n"));
        assert_non_null(strstr(got[0], "\r\nContent-Length: 2\r\n"));
        assert_non_null(
                strstr(got[1], "\r\ncontent-type: application/x-www-form-urlencoded; charset=utf-8\r\n"));
        assert_non_null(strstr(got[1], "us-east-1/iam/aws4_request"));
        assert_non_null(strstr(got[1], "Action=GetRole&Version=2010-05-08&RoleName=r"));
        assert_ptr_equal(strstr(got[2], "PUT /b-1?lifecycle HTTP/1.1\r\n"), got[2]);
        assert_non_null(strstr(
                got[2], "\r\nx-amz-checksum-sha256: KjH0TaS9fey70939GjeuBNAuxmXiwmiIFszGVjFYbtE=\r\n"));
        assert_non_null(strstr(got[2], "\r\nx-amz-content-sha256: "));
        assert_ptr_equal(strstr(got[3], "PUT /b-1/a%20b/%C3%BC HTTP/1.1\r\n"), got[3]);
        assert_non_null(strstr(got[3], "\r\nContent-Length: 0\r\n"));
        assert_null(strcasestr(got[3], "content-type"));
        assert_non_null(strstr(got[3], "SignedHeaders=host;if-none-match;x-amz-content-sha256;x-amz-date"));
        assert_ptr_equal(
                strstr(got[4],
                       "DELETE /2017-03-31/tags/arn%3Aaws?tagKeys=a%20b&tagKeys=berth%3Ax HTTP/1.1\r\n"),
                got[4]);
        release(&fixture);
}

static void no_line_breaks_in_headers(void **state) {
        struct aws_request request = { .service = AWS_S3,
                                       .operation = "PutObject",
                                       .method = "PUT",
                                       .path = "/k",
                                       .bucket = "b-1",
                                       .headers = { { "x-amz-tagging", "a=b\r\nx-evil: 1" } } };
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct fixture fixture;
        struct error err = { 0 };

        (void)state;
        open_client(&fixture, &ok, 1, 1000, NULL);
        assert_int_equal(aws_call(fixture.client, &request, &response, &err), -1);
        assert_non_null(strstr(err.message, "the header x-amz-tagging would hold a line break"));
        stop(&fixture);
        assert_int_equal(fixture.server.requests, 0);
        release(&fixture);
}

static void who_we_are_is_asked_once(void **state) {
        static const struct scripted_answer me = {
                "200 OK\r\n",
                "<GetCallerIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><GetCallerIdentityResult>"
                "<Arn>arn:aws:iam::123456789012:user/me</Arn><UserId>u</UserId><Account>123456789012</Account>"
                "</GetCallerIdentityResult></GetCallerIdentityResponse>"
        };
        struct fixture fixture;
        struct error err = { 0 };
        const char *account, *arn;

        (void)state;
        open_client(&fixture, &me, 1, 1, NULL);
        for (int i = 0; i < 3; i++) {
                assert_int_equal(aws_client_account(fixture.client, &account, &arn, &err), 0);
                assert_string_equal(account, "123456789012");
                assert_string_equal(arn, "arn:aws:iam::123456789012:user/me");
        }
        stop(&fixture);
        assert_int_equal(fixture.server.requests, 1);
        release(&fixture);
}

static int requests(struct fixture *fixture) {
        int count;

        pthread_mutex_lock(&fixture->server.lock);
        count = fixture->server.requests;
        pthread_mutex_unlock(&fixture->server.lock);
        return count;
}

/* Another account than the expected one: what was asked ahead is forgotten, and the pace is that account's. */
static void another_account_than_was_expected(void **state) {
        static const struct scripted_answer answers[] = {
                { "200 OK\r\n", "{\"of\": \"whom?\"}" },
                { "200 OK\r\n",
                  "<GetCallerIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><GetCallerIdentityResult>"
                  "<Arn>arn:aws:iam::123456789012:user/me</Arn><UserId>u</UserId><Account>123456789012</Account>"
                  "</GetCallerIdentityResult></GetCallerIdentityResponse>" },
                { "200 OK\r\n", "{\"of\": \"ours\"}" },
        };
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct fixture fixture;
        struct error err = { 0 };
        const char *account, *arn;

        (void)state;
        open_client(&fixture, answers, 3, 1, NULL);
        assert_int_equal(aws_client_expect(fixture.client, "999999999999", &err), 1);
        assert_int_equal(aws_client_expect(fixture.client, "999999999999", &err), 1);
        aws_ahead(fixture.client, &get_function);
        while (requests(&fixture) < 1)
                poll(NULL, 0, 1);
        assert_int_equal(aws_client_account(fixture.client, &account, &arn, &err), 0);
        assert_string_equal(account, "123456789012");
        assert_int_equal(aws_call(fixture.client, &get_function, &response, &err), 0);
        assert_string_equal(json_text(response.json, "of"), "ours");
        assert_int_equal(aws_client_expect(fixture.client, "123456789012", &err), 1);
        assert_int_equal(aws_client_expect(fixture.client, "999999999999", &err), 0);
        stop(&fixture);
        release(&fixture);
        /* Without credentials nothing is asked ahead, and the caller is told. */
        unsetenv("AWS_ACCESS_KEY_ID");
        setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
        open_client(&fixture, answers, 3, 1, NULL);
        assert_int_equal(aws_client_expect(fixture.client, "123456789012", &err), -1);
        assert_non_null(strstr(err.message, "sts GetCallerIdentity: no AWS credentials found"));
        assert_int_equal(aws_client_account(fixture.client, &account, &arn, &err), -1);
        assert_non_null(strstr(err.message, "no AWS credentials found"));
        stop(&fixture);
        release(&fixture);
}

static void presigned_urls_carry_no_signature_of_ours(void **state) {
        static const struct scripted_answer answers[] = { { "503 Down\r\n", "" }, { "200 OK\r\n", "layer" } };
        struct strbuf body STRBUF_CLEANUP = STRBUF_INIT;
        struct fixture fixture;
        struct error err = { 0 };
        char url[128];

        (void)state;
        open_client(&fixture, answers, 2, 1, NULL);
        snprintf(url, sizeof(url), "%s/layer?X-Amz-Signature=abc", fixture.server.url);
        assert_int_equal(aws_fetch_presigned(fixture.client, url, 100, &body, &err), 0);
        assert_string_equal(strbuf_text(&body), "layer");
        assert_int_equal(aws_fetch_presigned(fixture.client, url, 3, &body, &err), -1);
        assert_int_equal(aws_fetch_presigned(fixture.client, "http://example.com/x", 100, &body, &err), -1);
        assert_non_null(strstr(err.message, "http to example.com:80 is refused"));
        stop(&fixture);
        assert_null(strcasestr(fixture.server.received[0], "authorization"));
        assert_null(strcasestr(fixture.server.received[1], "x-amz-date"));
        release(&fixture);
}

static void *call_some(void *opaque) {
        struct aws_client *client = opaque;

        for (int i = 0; i < 25; i++) {
                struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
                struct error err = { 0 };
                const char *account, *arn;

                if (aws_call(client, &get_function, &response, &err) < 0)
                        return "failed";
                /* Fails: that answer is no XML. */
                if (aws_client_account(client, &account, &arn, &err) == 0)
                        return "succeeded";
        }
        return NULL;
}

static void many_threads_use_one_client(void **state) {
        struct fixture fixture;
        pthread_t threads[8];

        (void)state;
        open_client(&fixture, &ok, 1, 100000, NULL);
        for (size_t i = 0; i < 8; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, call_some, fixture.client), 0);
        for (size_t i = 0; i < 8; i++) {
                void *result;

                pthread_join(threads[i], &result);
                assert_null(result);
        }
        stop(&fixture);
        assert_int_equal(fixture.server.requests, 400);
        release(&fixture);
}

static void what_stops_it_from_opening(void **state) {
        static const struct {
                const char *name, *value, *message;
        } cases[] = {
                { "AWS_REGION", NULL, "no AWS region: set the Stack's aws.region, AWS_REGION" },
                { "AWS_REGION", "not a region", "is not the name of an AWS region" },
                { "AWS_ENDPOINT_URL", "localhost:4566",
                  "AWS_ENDPOINT_URL \"localhost:4566\" is not a usable URL" },
                { "AWS_MAX_ATTEMPTS", "many", "AWS_MAX_ATTEMPTS" },
                { "AWS_MAX_ATTEMPTS", "0", "AWS_MAX_ATTEMPTS" },
                { "AWS_CONFIG_FILE", "/", "cannot read /" },
        };

        unsetenv("AWS_DEFAULT_REGION");
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct aws_client *client = NULL;
                struct error err = { 0 };

                begin(state);
                if (cases[i].value)
                        setenv(cases[i].name, cases[i].value, 1);
                else
                        unsetenv(cases[i].name);
                assert_int_equal(aws_client_open(NULL, &test_clock, &client, &err), -1);
                print_message("  %s\n", err.message);
                assert_null(client);
                assert_non_null(strstr(err.message, cases[i].message));
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup(a_call_is_signed_and_read, begin),
                cmocka_unit_test_setup(failures_pass, begin),
                cmocka_unit_test_setup(half_an_answer_is_a_failure_that_passes, begin),
                cmocka_unit_test_setup(failures_that_last_end, begin),
                cmocka_unit_test_setup(throttling_is_waited_out, begin),
                cmocka_unit_test_setup(no_call_takes_for_ever, begin),
                cmocka_unit_test_setup(the_user_may_interrupt, begin),
                cmocka_unit_test_setup(calls_keep_to_the_quota, begin),
                cmocka_unit_test_setup(each_try_is_told, begin),
                cmocka_unit_test_setup(waits_for_the_quota_are_told, begin),
                cmocka_unit_test_setup(nobody_has_to_watch, begin),
                cmocka_unit_test_setup(steps_say_when_to_come_back, begin),
                cmocka_unit_test_setup(a_free_turn_is_now, begin),
                cmocka_unit_test_setup(steps_try_again_later, begin),
                cmocka_unit_test_setup(steps_fail_at_last_and_begin_anew, begin),
                cmocka_unit_test_setup(an_expected_error_is_for_the_caller, begin),
                cmocka_unit_test_setup(a_wrong_clock_is_mended_once, begin),
                cmocka_unit_test_setup(an_expired_session_is_renewed, begin),
                cmocka_unit_test_setup(a_role_that_fails_once_is_asked_for_again, begin),
                cmocka_unit_test_setup(a_role_that_is_denied_says_so, begin),
                cmocka_unit_test_setup(each_protocol_has_its_form, begin),
                cmocka_unit_test_setup(no_line_breaks_in_headers, begin),
                cmocka_unit_test_setup(who_we_are_is_asked_once, begin),
                cmocka_unit_test_setup(another_account_than_was_expected, begin),
                cmocka_unit_test_setup(another_account_than_was_expected, begin),
                cmocka_unit_test_setup(presigned_urls_carry_no_signature_of_ours, begin),
                cmocka_unit_test_setup(many_threads_use_one_client, begin),
                cmocka_unit_test_setup(what_stops_it_from_opening, begin),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
