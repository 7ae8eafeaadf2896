/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeping within AWS's request quotas by reservation: a caller is told when it may go, and waits
 * wherever it likes, or lets its change be parked. No lock and no thread is held meanwhile.
 *
 * AWS counts by the second: a number of calls in any one of them. A bucket remembers that many
 * turns, and gives a turn once the earliest of them is a second old, and a little more. A caller
 * that makes one call after another, as lists do, may have turns at once until the second is full
 * (`burst`), and one list alone has the next ones as the second passes. A caller that wants a turn
 * for each of a thousand changes gets them in equal intervals: fifteen first calls on new
 * connections arrive at any time within their handshakes, too near to the next ones. If AWS
 * throttles nevertheless, because others in the account use the quota too, the bucket slows down
 * and then recovers, and gives equal intervals only.
 *
 * A turn is a plan. A disk, a stopped process or a busy machine can hold up a whole second's turns, and they would all be
 * taken at once: so each call says when it starts, and is given another turn where this second is full already.
 */
#ifndef BERTH_PROVIDERS_AWS_CLIENT_QUOTA_H
#define BERTH_PROVIDERS_AWS_CLIENT_QUOTA_H

#include "providers/aws/client/aws_client.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QUOTA_TURNS_MAX 100

struct quota_call {
        int64_t at_us;   /* monotonic: it was made */
        int64_t free_us; /* monotonic: from when on it is of no matter to AWS */
        bool answered;
};

struct quota_bucket {
        pthread_mutex_t lock;
        double rate;   /* calls a second, a little below AWS's; 0 for no limit */
        double factor; /* of the rate, while it recovers from being throttled: (0, 1] */
        int64_t turns_us
                [QUOTA_TURNS_MAX]; /* monotonic: when those last given may be given again, in no order */
        size_t turn_count;         /* of them in use: those of one second */
        struct quota_call calls[QUOTA_TURNS_MAX]; /* the last `turn_count` that were made, in no order */
        size_t last;                              /* of them */
        int64_t last_us;                          /* monotonic: the last turn given */
        int64_t slowed_ms;                        /* monotonic: the last time it was slowed down */
        int64_t recovered_ms;                     /* monotonic: up to when recovery has been counted */
};

void quota_init(struct quota_bucket *bucket, double calls_per_second);
void quota_init_shared(struct quota_bucket *bucket,
                       double calls_per_second); /* in memory of several processes */
void quota_destroy(struct quota_bucket *bucket);

/* A lock that is still of use when a process that held it was killed, where it is shared between processes. */
void quota_lock_init(pthread_mutex_t *lock, bool shared);
void quota_lock(pthread_mutex_t *lock);

/* Takes the next turn: the monotonic time, in ms, before which the caller must not call. */
int64_t quota_reserve(struct quota_bucket *bucket, int64_t now_ms, bool burst);
/*
 * A call whose turn has come is about to be made: `now_ms` if it may be, and it is counted; else its new turn, to be waited
 * for as the first one was, and this is asked again. `burst` as quota_reserve() was told.
 */
int64_t quota_start(struct quota_bucket *bucket, int64_t now_ms, bool burst);
/*
 * The call that was made at `start_ms` is answered: AWS has counted it already, and one of several
 * that were made together counts from then on. Equal intervals count from when they were made: they
 * need only the little room that is in the rate.
 */
void quota_answered(struct quota_bucket *bucket, int64_t start_ms, int64_t now_ms);
/* A call was throttled. */
void quota_slow_down(struct quota_bucket *bucket, int64_t now_ms);

/* AWS's quotas that Berth's calls share. */
enum quota_kind {
        QUOTA_LAMBDA_READ,    /* GetFunction: 100 a second */
        QUOTA_LAMBDA_POLICY,  /* GetPolicy: 15 a second */
        QUOTA_LAMBDA_CONTROL, /* all other control-plane calls together: 15 a second */
        QUOTA_TAGGING,        /* 15 a second */
        QUOTA_IAM,            /* not published; slow and account-wide */
        QUOTA_LOGS_LIST,      /* DescribeLogGroups: 10 a second */
        QUOTA_LOGS_CREATE,    /* CreateLogGroup: 10 */
        QUOTA_LOGS_DELETE,    /* DeleteLogGroup: 10 */
        QUOTA_LOGS_RETAIN,    /* PutRetentionPolicy: 5 */
        QUOTA_LOGS_FORGET,    /* DeleteRetentionPolicy: 5 */
        QUOTA_LOGS_OTHER,     /* each other call of CloudWatch Logs: 5 */
        QUOTA_SSM_GET,        /* GetParameters: 40 */
        QUOTA_SSM_LIST,       /* DescribeParameters: not published */
        QUOTA_NONE,
        QUOTA_COUNT
};

enum quota_kind quota_kind_of(enum aws_service service, const char *operation);
/* In calls a second, a little below AWS's, so that jitter on the way never makes them one too many. */
double quota_default_rate(enum quota_kind kind);

#endif
