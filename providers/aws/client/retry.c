/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The "standard" mode of the SDKs: which failures are worth another try, a wait that doubles up to
 * 20 s with a random part, and a quota of 500 tokens for a client's tries, so that many clients
 * that try again do not make an outage worse. Throttling costs no tokens here: the pace is lowered
 * instead (quota.c), and such a call is tried for longer.
 *
 * What a server asks for (Retry-After) is heeded up to a minute.
 */
#include "providers/aws/client/retry.h"

#include <stdlib.h>
#include <string.h>

#define QUOTA_FULL 500
#define COST_RETRY 5
#define COST_TIMEOUT 10
#define LONGEST_BACKOFF_S 20
#define LONGEST_ASKED_MS 60000

static const char *const throttling_codes[] = {
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "RequestThrottledException",
        "RequestThrottled",
        "TooManyRequestsException",
        "ProvisionedThroughputExceededException",
        "TransactionInProgressException",
        "RequestLimitExceeded",
        "BandwidthLimitExceeded",
        "SlowDown",
        "PriorRequestNotComplete",
        "EC2ThrottledException",
};
/*
 * LimitExceededException is throttling in some services and a full account in others (ECR's repositories, Logs' groups):
 * tried again, but not for long.
 */
static const char *const transient_codes[] = { "RequestTimeout", "RequestTimeoutException",
                                               "LimitExceededException", "IDPCommunicationError" };
static const char *const clock_codes[] = {
        "InvalidSignature",   "InvalidSignatureException", "SignatureDoesNotMatch",
        "AuthFailure",        "RequestTimeTooSkewed",      "RequestExpired",
        "RequestInTheFuture",
};
static const char *const key_codes[] = { "ExpiredToken", "ExpiredTokenException" };

static bool is_one_of(const char *code, const char *const *codes, size_t count) {
        for (size_t i = 0; i < count; i++) {
                if (strcmp(code, codes[i]) == 0)
                        return true;
        }
        return false;
}
#define IS_ONE_OF(code, codes) is_one_of((code), (codes), sizeof(codes) / sizeof((codes)[0]))

enum retry_reason retry_reason_of(enum http_failure failure, int status, const char *code) {
        switch (failure) {
        case HTTP_UNREACHABLE:
        case HTTP_BROKEN:
                return RETRY_TRANSIENT;
        case HTTP_TIMED_OUT:
                return RETRY_TIMED_OUT;
        case HTTP_TLS:
        case HTTP_TOO_LARGE:
        case HTTP_REFUSED:
        case HTTP_INTERRUPTED:
                return RETRY_NOT;
        case HTTP_ANSWERED:
                break;
        }
        if (status >= 200 && status < 300)
                return RETRY_NOT;
        if (IS_ONE_OF(code, throttling_codes) || status == 429)
                return RETRY_THROTTLED;
        if (IS_ONE_OF(code, clock_codes))
                return RETRY_CLOCK;
        if (IS_ONE_OF(code, key_codes))
                return RETRY_KEYS;
        if (IS_ONE_OF(code, transient_codes) || status == 500 || status == 502 || status == 503 ||
            status == 504)
                return RETRY_TRANSIENT;
        return RETRY_NOT;
}

bool retry_allowed(enum retry_reason reason, unsigned attempts, unsigned max_attempts) {
        switch (reason) {
        case RETRY_THROTTLED:
                return attempts <
                       (max_attempts > RETRY_ATTEMPTS_THROTTLED ? max_attempts : RETRY_ATTEMPTS_THROTTLED);
        case RETRY_TRANSIENT:
        case RETRY_TIMED_OUT:
                return attempts < max_attempts;
        case RETRY_CLOCK:
        case RETRY_KEYS:
                return attempts < RETRY_ATTEMPTS_THROTTLED;
        case RETRY_NOT:
                break;
        }
        return false;
}

int64_t retry_delay_ms(unsigned attempts, double unit, int64_t asked_ms) {
        unsigned steps = attempts > 0 ? attempts - 1 : 0;
        double ceiling = steps < 5 ? (double)(1U << steps) : LONGEST_BACKOFF_S;
        int64_t delay;

        if (ceiling > LONGEST_BACKOFF_S)
                ceiling = LONGEST_BACKOFF_S;
        delay = (int64_t)(unit * ceiling * 1000.0);
        return delay > asked_ms ? delay : asked_ms;
}

static int64_t within_longest_wait(int64_t asked_ms) {
        if (asked_ms < 0)
                return 0;
        return asked_ms > LONGEST_ASKED_MS ? LONGEST_ASKED_MS : asked_ms;
}

/* A number as a whole, or -1. */
static int64_t parse_seconds(const char *text) {
        char *end;
        long long value = strtoll(text, &end, 10);

        return end == text || *end || value < 0 || value > INT32_MAX ? -1 : (int64_t)value;
}

int64_t retry_asked_ms(const struct http_response *response, int64_t wall_ms) {
        char text[64];
        int64_t value;

        if (http_header(response, "x-amz-retry-after", text, sizeof(text))) {
                value = parse_seconds(text);
                if (value >= 0)
                        return within_longest_wait(value);
        }
        if (!http_header(response, "retry-after", text, sizeof(text)))
                return 0;
        value = parse_seconds(text);
        if (value >= 0)
                return within_longest_wait(value * 1000);
        value = http_date_ms(text);
        return value < 0 ? 0 : within_longest_wait(value - wall_ms);
}

void retry_quota_init(struct retry_quota *quota) {
        quota->tokens = QUOTA_FULL;
        if (pthread_mutex_init(&quota->lock, NULL) != 0)
                abort();
}

void retry_quota_destroy(struct retry_quota *quota) {
        pthread_mutex_destroy(&quota->lock);
}

bool retry_quota_take(struct retry_quota *quota, enum retry_reason reason) {
        int cost = 0;
        bool enough;

        if (reason == RETRY_TRANSIENT)
                cost = COST_RETRY;
        else if (reason == RETRY_TIMED_OUT)
                cost = COST_TIMEOUT;
        pthread_mutex_lock(&quota->lock);
        enough = quota->tokens >= cost;
        if (enough)
                quota->tokens -= cost;
        pthread_mutex_unlock(&quota->lock);
        return enough;
}

void retry_quota_refund(struct retry_quota *quota, unsigned attempts) {
        pthread_mutex_lock(&quota->lock);
        quota->tokens += attempts > 1 ? COST_RETRY : 1;
        if (quota->tokens > QUOTA_FULL)
                quota->tokens = QUOTA_FULL;
        pthread_mutex_unlock(&quota->lock);
}
