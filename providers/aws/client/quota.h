/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeping within AWS's request quotas by reservation: a caller is told when it may go, and waits wherever it likes, or
 * lets its change be parked. Nobody holds a lock or a thread meanwhile.
 *
 * A bucket is a line of equal intervals (the "generic cell rate algorithm" with a burst of one): the n-th caller in a
 * hurry gets the n-th interval. Bursts would gain a few milliseconds once and cost throttled calls at a server that
 * counts by the second. Where AWS throttles all the same, because others in the account use the quota too, the bucket
 * slows down and then recovers.
 */
#ifndef BERTH_PROVIDERS_AWS_CLIENT_QUOTA_H
#define BERTH_PROVIDERS_AWS_CLIENT_QUOTA_H

#include "providers/aws/client/client.h"

#include <pthread.h>
#include <stdint.h>

struct quota_bucket {
        pthread_mutex_t lock;
        double rate;          /* calls a second; 0 for no limit */
        double factor;        /* of the rate, while it recovers from being throttled: (0, 1] */
        int64_t next_us;      /* monotonic: the first interval not given away */
        int64_t slowed_ms;    /* monotonic: the last time it was slowed down */
        int64_t recovered_ms; /* monotonic: up to when recovery has been counted */
};

void quota_init(struct quota_bucket *bucket, double calls_per_second);
void quota_destroy(struct quota_bucket *bucket);

/* Takes the next interval: the monotonic time, in ms, before which the caller must not call. */
int64_t quota_reserve(struct quota_bucket *bucket, int64_t now_ms);
/* A call was throttled. */
void quota_slow_down(struct quota_bucket *bucket, int64_t now_ms);

/* AWS's quotas that Berth's calls share. */
enum quota_kind {
        QUOTA_LAMBDA_READ,    /* GetFunction: 100 a second */
        QUOTA_LAMBDA_CONTROL, /* all other control-plane calls together: 15 a second */
        QUOTA_TAGGING,        /* 15 a second */
        QUOTA_IAM,            /* not published; slow and account-wide */
        QUOTA_NONE,
        QUOTA_COUNT
};

enum quota_kind quota_kind_of(enum aws_service service, const char *operation);
/* A little below AWS's, so that jitter on the way never makes them one too many. */
double quota_default_rate(enum quota_kind kind);

#endif
