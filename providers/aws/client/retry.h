/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether to try again, and when: the SDKs' standard mode, with more patience for throttling, since
 * the quotas are shared with all others in the account and being slowed down is not a failure.
 *
 *     reason              tries at the most              draws on the retry quota
 *     throttled           8                              no: the rate buckets slow down instead
 *     transient           AWS_MAX_ATTEMPTS, default 3    5
 *     timed out           the same                       10
 *     clock corrected     one more, at once              no
 *     keys refreshed      one more, at once              no
 *
 * The delay before retry n (from 0) is rand(0,1) x min(2^n, 20) seconds, and at least what x-amz-retry-after (ms) or
 * Retry-After (s) ask for, up to 60 s.
 *
 * A try whose answer was lost may have been carried out. It is repeated nevertheless, as the SDKs
 * do: a caller that creates something must take "exists already" for an answer, by checking whether
 * it is its own.
 */
#ifndef BERTH_PROVIDERS_AWS_CLIENT_RETRY_H
#define BERTH_PROVIDERS_AWS_CLIENT_RETRY_H

#include "http/http.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum retry_reason {
        RETRY_NOT,
        RETRY_THROTTLED,
        RETRY_TRANSIENT,
        RETRY_TIMED_OUT,
        RETRY_CLOCK, /* the server thinks our clock is wrong: only if correcting it changes anything */
        RETRY_KEYS   /* the session has expired: only if newer keys exist */
};

/* `status` and `code` are looked at where an answer came. */
enum retry_reason retry_reason_of(enum http_failure failure, int status, const char *code);

/* Whether another try may follow `attempts` made (>= 1). */
bool retry_allowed(enum retry_reason reason, unsigned attempts, unsigned max_attempts);

/* `unit` uniform in [0, 1); `asked_ms` what the answer asked for, or 0. */
int64_t retry_delay_ms(unsigned attempts, double unit, int64_t asked_ms);

/* What the answer asks for, in ms; 0 where nothing. `wall_ms` is now, for a Retry-After that is a date. */
int64_t retry_asked_ms(const struct http_response *response, int64_t wall_ms);

/* Tokens for retries, shared by all calls of a client: when everything fails, retries stop by themselves. */
struct retry_quota {
        pthread_mutex_t lock;
        int tokens;
};
void retry_quota_init(struct retry_quota *quota);
void retry_quota_destroy(struct retry_quota *quota);
/* Takes the price of a retry: false where there is not enough left. */
bool retry_quota_take(struct retry_quota *quota, enum retry_reason reason);
/* A call has succeeded, after `attempts` tries. */
void retry_quota_refund(struct retry_quota *quota, unsigned attempts);

#define RETRY_ATTEMPTS_DEFAULT 3U
#define RETRY_ATTEMPTS_THROTTLED 8U

#endif
