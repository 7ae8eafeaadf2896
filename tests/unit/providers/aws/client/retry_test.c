/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "providers/aws/client/retry.h"

static const struct {
        enum http_failure failure;
        int status;
        const char *code;
        enum retry_reason reason;
} reasons[] = {
        { HTTP_ANSWERED, 200, "", RETRY_NOT },
        { HTTP_ANSWERED, 204, "", RETRY_NOT },
        { HTTP_ANSWERED, 400, "ValidationException", RETRY_NOT },
        { HTTP_ANSWERED, 403, "AccessDeniedException", RETRY_NOT },
        { HTTP_ANSWERED, 404, "ResourceNotFoundException", RETRY_NOT },
        { HTTP_ANSWERED, 409, "ResourceConflictException", RETRY_NOT },
        { HTTP_ANSWERED, 412, "PreconditionFailedException", RETRY_NOT },
        { HTTP_ANSWERED, 501, "NotImplemented", RETRY_NOT },
        { HTTP_ANSWERED, 307, "TemporaryRedirect", RETRY_NOT },
        { HTTP_ANSWERED, 429, "TooManyRequestsException", RETRY_THROTTLED },
        { HTTP_ANSWERED, 429, "Whatever", RETRY_THROTTLED },
        { HTTP_ANSWERED, 400, "ThrottlingException", RETRY_THROTTLED },
        { HTTP_ANSWERED, 400, "Throttling", RETRY_THROTTLED },
        { HTTP_ANSWERED, 503, "SlowDown", RETRY_THROTTLED },
        { HTTP_ANSWERED, 400, "RequestLimitExceeded", RETRY_THROTTLED },
        { HTTP_ANSWERED, 400, "LimitExceededException", RETRY_TRANSIENT },
        { HTTP_ANSWERED, 400, "RequestTimeout", RETRY_TRANSIENT },
        { HTTP_ANSWERED, 500, "ServiceException", RETRY_TRANSIENT },
        { HTTP_ANSWERED, 502, "BadGateway", RETRY_TRANSIENT },
        { HTTP_ANSWERED, 503, "ServiceUnavailable", RETRY_TRANSIENT },
        { HTTP_ANSWERED, 504, "GatewayTimeout", RETRY_TRANSIENT },
        { HTTP_ANSWERED, 403, "SignatureDoesNotMatch", RETRY_CLOCK },
        { HTTP_ANSWERED, 403, "RequestTimeTooSkewed", RETRY_CLOCK },
        { HTTP_ANSWERED, 403, "InvalidSignatureException", RETRY_CLOCK },
        { HTTP_ANSWERED, 403, "ExpiredToken", RETRY_KEYS },
        { HTTP_ANSWERED, 400, "ExpiredTokenException", RETRY_KEYS },
        { HTTP_UNREACHABLE, 0, "", RETRY_TRANSIENT },
        { HTTP_BROKEN, 0, "", RETRY_TRANSIENT },
        { HTTP_TIMED_OUT, 0, "", RETRY_TIMED_OUT },
        { HTTP_TLS, 0, "", RETRY_NOT },
        { HTTP_TOO_LARGE, 0, "", RETRY_NOT },
        { HTTP_REFUSED, 0, "", RETRY_NOT },
        { HTTP_INTERRUPTED, 0, "", RETRY_NOT },
};

static void reasons_are_recognised(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
                print_message("  %d %d %s\n", (int)reasons[i].failure, reasons[i].status, reasons[i].code);
                assert_int_equal(retry_reason_of(reasons[i].failure, reasons[i].status, reasons[i].code),
                                 reasons[i].reason);
        }
}

static void patience_depends_on_the_reason(void **state) {
        (void)state;
        assert_false(retry_allowed(RETRY_NOT, 1, 3));
        assert_true(retry_allowed(RETRY_TRANSIENT, 2, 3));
        assert_false(retry_allowed(RETRY_TRANSIENT, 3, 3));
        assert_true(retry_allowed(RETRY_TIMED_OUT, 9, 10));
        assert_false(retry_allowed(RETRY_TIMED_OUT, 1, 1));
        assert_true(retry_allowed(RETRY_THROTTLED, 7, 3));
        assert_false(retry_allowed(RETRY_THROTTLED, 8, 3));
        assert_true(retry_allowed(RETRY_THROTTLED, 11, 12));
}

static const struct {
        unsigned attempts;
        double unit;
        int64_t asked_ms, delay_ms;
} delays[] = {
        { 1, 0.5, 0, 500 },     { 2, 0.5, 0, 1000 },        { 3, 0.5, 0, 2000 }, { 5, 0.5, 0, 8000 },
        { 6, 0.5, 0, 10000 },   { 40, 0.5, 0, 10000 },      { 1, 0.0, 0, 0 },    { 1, 0.5, 3000, 3000 },
        { 3, 0.5, 1000, 2000 }, { 4000000, 0.9, 0, 18000 },
};

static void delays_double_and_end(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(delays) / sizeof(delays[0]); i++)
                assert_int_equal(retry_delay_ms(delays[i].attempts, delays[i].unit, delays[i].asked_ms),
                                 delays[i].delay_ms);
}

#define NOW INT64_C(1769860800000) /* Sat, 31 Jan 2026 12:00:00 GMT */

static const struct {
        const char *headers;
        int64_t asked_ms;
} asked[] = {
        { "", 0 },
        { "retry-after: 2\n", 2000 },
        { "retry-after: 0\n", 0 },
        { "retry-after: -1\n", 0 },
        { "retry-after: soon\n", 0 },
        { "retry-after: 86400\n", 60000 },
        { "retry-after: Sat, 31 Jan 2026 12:00:05 GMT\n", 5000 },
        { "retry-after: Sat, 31 Jan 2026 11:00:00 GMT\n", 0 },
        { "x-amz-retry-after: 1500\nretry-after: 9\n", 1500 },
        { "x-amz-retry-after: x\nretry-after: 9\n", 9000 },
};

static void what_the_answer_asks_is_understood(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
                struct http_response response HTTP_RESPONSE_CLEANUP = HTTP_RESPONSE_INIT;

                print_message("  %s\n", asked[i].headers);
                strbuf_append(&response.headers, asked[i].headers);
                assert_int_equal(retry_asked_ms(&response, NOW), asked[i].asked_ms);
        }
}

static void retries_run_out_where_everything_fails(void **state) {
        struct retry_quota quota;
        int retries = 0;

        (void)state;
        retry_quota_init(&quota);
        while (retry_quota_take(&quota, RETRY_TRANSIENT))
                retries++;
        assert_int_equal(retries, 100);
        assert_false(retry_quota_take(&quota, RETRY_TIMED_OUT));
        assert_true(retry_quota_take(&quota, RETRY_THROTTLED)); /* the rate buckets handle that */
        retry_quota_refund(&quota, 2);                          /* a retry succeeded: its price comes back */
        assert_false(retry_quota_take(&quota, RETRY_TIMED_OUT));
        assert_true(retry_quota_take(&quota, RETRY_TRANSIENT));
        for (int i = 0; i < 10; i++)
                retry_quota_refund(&quota, 1);
        assert_true(retry_quota_take(&quota, RETRY_TIMED_OUT));
        for (int i = 0; i < 2000; i++)
                retry_quota_refund(&quota, 1);
        for (retries = 0; retry_quota_take(&quota, RETRY_TRANSIENT);)
                retries++;
        assert_int_equal(retries, 100);
        retry_quota_destroy(&quota);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(reasons_are_recognised),
                cmocka_unit_test(patience_depends_on_the_reason),
                cmocka_unit_test(delays_double_and_end),
                cmocka_unit_test(what_the_answer_asks_is_understood),
                cmocka_unit_test(retries_run_out_where_everything_fails),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
