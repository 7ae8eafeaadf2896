/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/client/quota.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ROOM (30.0 / 29.0) /* AWS's number of calls to our rate: 15 to 14.5 */
#define LONG_AGO_US (-INT64_C(1000000000000))
#define WAY_US 5000000 /* that a call may need to AWS, until its answer says more */
#define SLOWDOWN 0.7
#define SLOWEST 0.2
#define CALM_MS 1000        /* throttled calls within it were all sent at the old pace: they count once */
#define RECOVERY_PER_S 0.02 /* of the rate: from the slowest back to full in 40 s */

void quota_lock_init(pthread_mutex_t *lock, bool shared) {
        pthread_mutexattr_t attributes;

        if (pthread_mutexattr_init(&attributes) != 0 ||
            (shared && (pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED) != 0 ||
                        pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST) != 0)) ||
            pthread_mutex_init(lock, &attributes) != 0)
                abort();
        pthread_mutexattr_destroy(&attributes);
}

/*
 * A killed holder may have left one turn half written: a time that is wrong by at most its last
 * change.
 */
void quota_lock(pthread_mutex_t *lock) {
        if (pthread_mutex_lock(lock) == EOWNERDEAD)
                pthread_mutex_consistent(lock);
}

static void init_bucket(struct quota_bucket *bucket, double calls_per_second, bool shared) {
        *bucket = (struct quota_bucket){ .rate = calls_per_second, .factor = 1.0, .slowed_ms = -CALM_MS };
        /* AWS's own number is a whole one, just above the rate. */
        bucket->turn_count = calls_per_second < QUOTA_TURNS_MAX ? (size_t)(calls_per_second * ROOM + 0.5)
                                                                : QUOTA_TURNS_MAX;
        if (bucket->turn_count == 0)
                bucket->turn_count = 1;
        bucket->last_us = LONG_AGO_US;
        for (size_t i = 0; i < bucket->turn_count; i++) {
                bucket->turns_us[i] = LONG_AGO_US;
                bucket->calls[i] = (struct quota_call){ LONG_AGO_US, LONG_AGO_US, true };
        }
        quota_lock_init(&bucket->lock, shared);
}

void quota_init(struct quota_bucket *bucket, double calls_per_second) {
        init_bucket(bucket, calls_per_second, false);
}

void quota_init_shared(struct quota_bucket *bucket, double calls_per_second) {
        init_bucket(bucket, calls_per_second, true);
}

void quota_destroy(struct quota_bucket *bucket) {
        pthread_mutex_destroy(&bucket->lock);
}

static void recover(struct quota_bucket *bucket, int64_t now_ms) {
        if (bucket->factor >= 1.0 || now_ms <= bucket->recovered_ms)
                return;
        bucket->factor += RECOVERY_PER_S * (double)(now_ms - bucket->recovered_ms) / 1000.0;
        if (bucket->factor > 1.0)
                bucket->factor = 1.0;
        bucket->recovered_ms = now_ms;
}

static int64_t later(int64_t a, int64_t b) {
        return a > b ? a : b;
}

static int64_t interval_us(const struct quota_bucket *bucket) {
        return (int64_t)(1000000.0 / (bucket->rate * bucket->factor) + 0.5);
}

/* The second in which AWS counts `turn_count` calls. Whole milliseconds were cut: one more. */
static int64_t second_us(const struct quota_bucket *bucket) {
        return 1000 + (int64_t)((double)bucket->turn_count * 1000000.0 / (bucket->rate * ROOM));
}

static size_t first_free_call(const struct quota_bucket *bucket) {
        size_t first = 0;

        for (size_t i = 1; i < bucket->turn_count; i++) {
                if (bucket->calls[i].free_us < bucket->calls[first].free_us)
                        first = i;
        }
        return first;
}

/* Every turn that was given has come, and every call that counts is answered: what AWS has counted is known. */
static bool is_at_rest(const struct quota_bucket *bucket, int64_t now_us) {
        if (bucket->factor < 1.0 || bucket->last_us > now_us)
                return false;
        for (size_t i = 0; i < bucket->turn_count; i++) {
                if (!bucket->calls[i].answered && bucket->calls[i].free_us > now_us)
                        return false;
        }
        return true;
}

/*
 * A reservation, not a lock: the caller is given the next free moment, and does not wait here. The
 * pace is the rate times a factor, which each throttled answer lowers and time raises again.
 *
 * One list alone is never in AWS's way: each page is counted before its answer, and the next one is asked for after it. So it
 * has the next turn as soon as the second is over, not an interval later.
 */
int64_t quota_reserve(struct quota_bucket *bucket, int64_t now_ms, bool burst) {
        int64_t now_us = now_ms * 1000, go_us;
        int64_t *earliest_us = bucket->turns_us;
        bool alone;

        if (bucket->rate <= 0)
                return now_ms;
        quota_lock(&bucket->lock);
        recover(bucket, now_ms);
        alone = burst && is_at_rest(bucket, now_us);
        for (size_t i = 1; i < bucket->turn_count; i++) {
                if (bucket->turns_us[i] < *earliest_us)
                        earliest_us = &bucket->turns_us[i];
        }
        go_us = later(now_us, *earliest_us);
        if (alone)
                /* A whole millisecond: earlier, quota_start() would not have it. */
                go_us = (later(go_us, bucket->calls[first_free_call(bucket)].free_us) + 999) / 1000 * 1000;
        /*
         * A caller that has to wait at all does not start the next burst: that would follow the
         * last one a second later, forever.
         */
        else if (!burst || go_us / 1000 > now_ms || bucket->factor < 1.0)
                go_us = later(go_us, bucket->last_us + interval_us(bucket));
        *earliest_us =
                go_us + (alone ? second_us(bucket) : (int64_t)bucket->turn_count * interval_us(bucket));
        bucket->last_us = later(bucket->last_us, go_us);
        pthread_mutex_unlock(&bucket->lock);
        return go_us / 1000; /* a part of a millisecond early: below what any server counts */
}

/*
 * Calls that are made close together may be counted further apart: each on its way for longer than the next one. So they
 * count from their answers, or from when a handshake must have ended.
 */
static void count_late(struct quota_bucket *bucket, struct quota_call *call, int64_t now_us) {
        int64_t counted_us = call->at_us + WAY_US;

        if (call->answered && counted_us > now_us)
                counted_us = now_us;
        call->free_us = counted_us + second_us(bucket);
}

int64_t quota_start(struct quota_bucket *bucket, int64_t now_ms, bool burst) {
        int64_t now_us = now_ms * 1000, go_us = now_us;
        struct quota_call *call;

        if (bucket->rate <= 0)
                return now_ms;
        quota_lock(&bucket->lock);
        call = &bucket->calls[first_free_call(bucket)];
        if (call->free_us <= now_us) {
                struct quota_call *before = &bucket->calls[bucket->last];
                bool close = now_us - before->at_us < interval_us(bucket) / 2;

                *call = (struct quota_call){ .at_us = now_us, .free_us = now_us + second_us(bucket) };
                if (close)
                        count_late(bucket, before, now_us);
                if (close || burst)
                        count_late(bucket, call, now_us);
                bucket->last = (size_t)(call - bucket->calls);
        } else {
                /* An answer that came now would free the place a second later: no sooner, but long before WAY_US is over. */
                go_us = now_us + second_us(bucket);
                if (call->answered || call->free_us < go_us)
                        go_us = call->free_us;
                /* Behind all turns that are given: those who were held up together do not go together again. */
                go_us = later(go_us, bucket->last_us + interval_us(bucket));
                bucket->last_us = go_us;
        }
        pthread_mutex_unlock(&bucket->lock);
        return (go_us + 999) / 1000;
}

void quota_answered(struct quota_bucket *bucket, int64_t start_ms, int64_t now_ms) {
        int64_t free_us =
                now_ms * 1000 + second_us(bucket); /* no other room: the answer is later than the count */

        if (bucket->rate <= 0)
                return;
        quota_lock(&bucket->lock);
        for (size_t i = 0; i < bucket->turn_count; i++) {
                struct quota_call *call = &bucket->calls[i];

                if (call->answered || call->at_us != start_ms * 1000)
                        continue;
                call->answered = true;
                if (free_us < call->free_us)
                        call->free_us = free_us;
                break;
        }
        pthread_mutex_unlock(&bucket->lock);
}

void quota_slow_down(struct quota_bucket *bucket, int64_t now_ms) {
        quota_lock(&bucket->lock);
        recover(bucket, now_ms);
        if (now_ms - bucket->slowed_ms >= CALM_MS) {
                bucket->factor *= SLOWDOWN;
                if (bucket->factor < SLOWEST)
                        bucket->factor = SLOWEST;
                bucket->slowed_ms = now_ms;
                bucket->recovered_ms = now_ms;
        }
        pthread_mutex_unlock(&bucket->lock);
}

/*
 * "Lambda quotas" of the Lambda Developer Guide: GetFunction 100 a second; the rest of the control plane 15 together
 * across all functions, GetFunctionConfiguration among them ("the rest of the control plane API, excludes invocation,
 * GetFunction and GetPolicy requests"). GetPolicy has 15 of its own. "Tagging API quotas":
 * GetResources 15 a second. "CloudWatch Logs quotas" of its User Guide: each operation has its own, of an account and region.
 * "AWS Systems Manager endpoints and quotas": GetParameter and GetParameters 40 a second together. ECR, S3, STS, DynamoDB and Secrets Manager
 * allow far more than Berth sends; IAM publishes nothing, and throttles an account that hurries.
 */
static enum quota_kind quota_kind_of_logs(const char *operation) {
        static const struct {
                const char *operation;
                enum quota_kind kind;
        } known[] = {
                { "DescribeLogGroups", QUOTA_LOGS_LIST },       { "CreateLogGroup", QUOTA_LOGS_CREATE },
                { "DeleteLogGroup", QUOTA_LOGS_DELETE },        { "PutRetentionPolicy", QUOTA_LOGS_RETAIN },
                { "DeleteRetentionPolicy", QUOTA_LOGS_FORGET },
        };

        for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
                if (strcmp(operation, known[i].operation) == 0)
                        return known[i].kind;
        }
        return QUOTA_LOGS_OTHER;
}

enum quota_kind quota_kind_of(enum aws_service service, const char *operation) {
        if (service == AWS_TAGGING)
                return QUOTA_TAGGING;
        if (service == AWS_IAM)
                return QUOTA_IAM;
        if (service == AWS_SSM)
                return strcmp(operation, "GetParameters") == 0 ? QUOTA_SSM_GET : QUOTA_SSM_LIST;
        if (service == AWS_LOGS)
                return quota_kind_of_logs(operation);
        if (service != AWS_LAMBDA || strncmp(operation, "Invoke", 6) == 0)
                return QUOTA_NONE;
        if (strcmp(operation, "GetFunction") == 0)
                return QUOTA_LAMBDA_READ;
        return strcmp(operation, "GetPolicy") == 0 ? QUOTA_LAMBDA_POLICY : QUOTA_LAMBDA_CONTROL;
}

double quota_default_rate(enum quota_kind kind) {
        static const double of_aws[QUOTA_COUNT] = {
                [QUOTA_LAMBDA_READ] = 100.0,  [QUOTA_LAMBDA_CONTROL] = 15.0,
                [QUOTA_LAMBDA_POLICY] = 15.0, [QUOTA_TAGGING] = 15.0,
                [QUOTA_IAM] = 10.0,           [QUOTA_LOGS_LIST] = 10.0,
                [QUOTA_LOGS_CREATE] = 10.0,   [QUOTA_LOGS_DELETE] = 10.0,
                [QUOTA_LOGS_RETAIN] = 5.0,    [QUOTA_LOGS_FORGET] = 5.0,
                [QUOTA_LOGS_OTHER] = 5.0,     [QUOTA_SSM_GET] = 40.0,
                [QUOTA_SSM_LIST] = 5.0,
        };

        return of_aws[kind] / ROOM;
}
