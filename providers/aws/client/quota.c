/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/client/quota.h"

#include <stdlib.h>
#include <string.h>

#define SLOWDOWN 0.7
#define SLOWEST 0.2
#define CALM_MS 1000        /* throttled calls within it were all sent at the old pace: they count once */
#define RECOVERY_PER_S 0.02 /* of the rate: from the slowest back to full in 40 s */

void quota_init(struct quota_bucket *bucket, double calls_per_second) {
        *bucket = (struct quota_bucket){ .rate = calls_per_second, .factor = 1.0, .slowed_ms = -CALM_MS };
        if (pthread_mutex_init(&bucket->lock, NULL) != 0)
                abort();
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

/*
 * A reservation, not a lock: the caller is given the next free moment, and the bucket moves on by one interval.
 * Nobody waits here. The pace is the rate times a factor, which each throttled answer lowers and time raises again.
 */
int64_t quota_reserve(struct quota_bucket *bucket, int64_t now_ms) {
        int64_t now_us = now_ms * 1000, go_us;

        if (bucket->rate <= 0)
                return now_ms;
        pthread_mutex_lock(&bucket->lock);
        recover(bucket, now_ms);
        go_us = bucket->next_us > now_us ? bucket->next_us : now_us;
        bucket->next_us = go_us + (int64_t)(1000000.0 / (bucket->rate * bucket->factor) + 0.5);
        pthread_mutex_unlock(&bucket->lock);
        return go_us / 1000; /* a part of a millisecond early: below what any server counts */
}

void quota_slow_down(struct quota_bucket *bucket, int64_t now_ms) {
        pthread_mutex_lock(&bucket->lock);
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
 * GetFunction and GetPolicy requests"). GetPolicy has 15 of its own and is not called here. "Tagging API quotas":
 * GetResources 15 a second. ECR, S3, Logs and STS allow far more than Berth sends; IAM publishes nothing, and throttles
 * an account that hurries.
 */
enum quota_kind quota_kind_of(enum aws_service service, const char *operation) {
        if (service == AWS_TAGGING)
                return QUOTA_TAGGING;
        if (service == AWS_IAM)
                return QUOTA_IAM;
        if (service != AWS_LAMBDA || strncmp(operation, "Invoke", 6) == 0)
                return QUOTA_NONE;
        return strcmp(operation, "GetFunction") == 0 ? QUOTA_LAMBDA_READ : QUOTA_LAMBDA_CONTROL;
}

double quota_default_rate(enum quota_kind kind) {
        static const double rates[QUOTA_COUNT] = {
                [QUOTA_LAMBDA_READ] = 97.0,
                [QUOTA_LAMBDA_CONTROL] = 14.5,
                [QUOTA_TAGGING] = 14.5,
                [QUOTA_IAM] = 10.0,
        };

        return rates[kind];
}
