/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "providers/aws/client/quota.h"

/* A server's token bucket: `rate` a second, at most `burst` saved up. */
struct server {
        double level, rate, burst;
        int64_t at_ms;
};

static bool server_takes(struct server *server, int64_t now_ms) {
        server->level += server->rate * (double)(now_ms - server->at_ms) / 1000.0;
        if (server->level > server->burst)
                server->level = server->burst;
        server->at_ms = now_ms;
        if (server->level < 1.0)
                return false;
        server->level -= 1.0;
        return true;
}

static int by_time(const void *a, const void *b) {
        int64_t first = *(const int64_t *)a, second = *(const int64_t *)b;

        return first < second ? -1 : first > second;
}

static void a_thousand_calls_use_the_quota_nearly_whole(void **state) {
        struct quota_bucket bucket;
        struct server server = { .level = 3.0, .rate = 15.0, .burst = 3.0 };
        int64_t last = 0;

        (void)state;
        quota_init(&bucket, quota_default_rate(QUOTA_LAMBDA_CONTROL));
        /* All of them ask at once, as an apply's steps do. */
        for (int i = 0; i < 1000; i++) {
                int64_t go = quota_reserve(&bucket, 0, false);

                assert_true(go >= last);
                assert_true(server_takes(&server, go));
                last = go;
        }
        assert_true((double)last <= 1000.0 * 1000.0 / 15.0 * 1.10);
        quota_destroy(&bucket);
}

static void no_second_holds_more_than_fifteen(void **state) {
        struct quota_bucket bucket;
        int64_t times[200];

        (void)state;
        quota_init(&bucket, quota_default_rate(QUOTA_LAMBDA_CONTROL));
        for (int i = 0; i < 200; i++)
                times[i] = quota_reserve(&bucket, i < 100 ? 0 : 20000, false); /* and again after a rest */
        for (int i = 15; i < 200; i++)
                assert_true(times[i] - times[i - 15] >= 1000);
        quota_destroy(&bucket);
}

/* What AWS counts of calls made one after another, each `way_ms` on its way there and as long back. */
static void walk_a_list(int pages, int64_t first_way_ms, int64_t way_ms, int64_t *ret_end_ms) {
        struct quota_bucket bucket;
        int64_t now = 5000, counted[64];

        quota_init(&bucket, quota_default_rate(QUOTA_LAMBDA_CONTROL));
        for (int i = 0; i < pages; i++) {
                int64_t way = i ? way_ms : first_way_ms, go = quota_reserve(&bucket, now, true), start;

                while ((start = quota_start(&bucket, go, true)) > go)
                        go = start;
                counted[i] = start + way;
                now = start + 2 * way;
                quota_answered(&bucket, start, now);
                if (i >= 15)
                        assert_true(counted[i] - counted[i - 15] >= 1000);
        }
        *ret_end_ms = now - 5000;
        quota_destroy(&bucket);
}

static void a_list_has_its_first_fifteen_pages_at_once(void **state) {
        int64_t end;

        (void)state;
        walk_a_list(15, 0, 0, &end);
        assert_int_equal(end, 0);
        walk_a_list(60, 0, 0, &end);
        assert_true(end >= 3000 && end <= 3150);
        walk_a_list(20, 50, 50, &end); /* a hundred milliseconds a page: never fifteen in a second */
        assert_int_equal(end, 2000);
        walk_a_list(20, 4, 4,
                    &end); /* the last five as the first five's seconds end, not an interval apart */
        assert_in_range(end, 1001 + 8 * 6, 1001 + 8 * 6 + 12);
        walk_a_list(40, 150, 1,
                    &end); /* the first one with a handshake: the next burst must not overtake it */
        assert_true(end <= 2700);
}

static void a_burst_is_not_followed_by_bursts(void **state) {
        struct quota_bucket bucket;
        int64_t times[60];

        (void)state;
        quota_init(&bucket, quota_default_rate(QUOTA_LAMBDA_CONTROL));
        for (int i = 0; i < 60; i++)
                times[i] = quota_reserve(&bucket, 0, true);
        for (int i = 1; i < 60; i++) {
                assert_true(i < 15 ? times[i] == 0 : times[i] > times[i - 1]);
                assert_true(i < 15 || times[i] - times[i - 15] >= 1000);
        }
        /* Nor is there one for who recovers from being throttled. */
        quota_slow_down(&bucket, 60000);
        assert_int_equal(quota_reserve(&bucket, 60000, true), 60000);
        assert_true(quota_reserve(&bucket, 60000, true) > 60000);
        quota_destroy(&bucket);
}

/* A second list while the first one's page is on its way: what AWS has counted of that is not known. */
static void two_lists_that_wait_have_equal_intervals(void **state) {
        struct quota_bucket bucket;
        int64_t turns[2];

        (void)state;
        quota_init(&bucket, quota_default_rate(QUOTA_LAMBDA_CONTROL));
        for (int i = 0; i < 15; i++) {
                assert_int_equal(quota_reserve(&bucket, 0, true), 0);
                assert_int_equal(quota_start(&bucket, 0, true), 0);
                if (i > 0)
                        quota_answered(&bucket, 0, 10);
        }
        for (int i = 0; i < 2; i++)
                turns[i] = quota_reserve(&bucket, 10, true);
        assert_true(turns[0] >= 1000 && turns[1] - turns[0] >= 68);
        quota_destroy(&bucket);
}

static void whoever_comes_late_goes_at_once(void **state) {
        struct quota_bucket bucket;

        (void)state;
        quota_init(&bucket, 10.0);
        assert_int_equal(quota_reserve(&bucket, 1000, false), 1000);
        assert_int_equal(quota_reserve(&bucket, 1000, false), 1100);
        assert_int_equal(quota_reserve(&bucket, 1050, false), 1200);
        assert_int_equal(quota_reserve(&bucket, 5000, false), 5000);
        quota_destroy(&bucket);
}

/*
 * Forty turns are given, and for five seconds no process can take one: a disk that hangs, a process
 * that was stopped.
 */
static void those_that_were_held_up_do_not_go_together(void **state) {
        struct quota_bucket bucket;
        int64_t turns[40], made[40], now = 5000;
        size_t count = 0;

        (void)state;
        quota_init(&bucket, quota_default_rate(QUOTA_LAMBDA_CONTROL));
        for (size_t i = 0; i < 40; i++)
                turns[i] = quota_reserve(&bucket, 0, false);
        for (; count < 40 && now < 20000; now++) {
                for (size_t i = 0; i < 40; i++) {
                        if (turns[i] > now || (turns[i] = quota_start(&bucket, now, false)) > now)
                                continue;
                        turns[i] = INT64_MAX;
                        /* The first ones have new connections, whose handshakes take their time. */
                        made[count++] = now + (now == 5000 ? 100 : 1);
                        if (now != 5000)
                                quota_answered(&bucket, now, now + 1);
                }
                for (size_t i = 0; now == 5200 && i < 15; i++)
                        quota_answered(&bucket, 5000, now);
        }
        assert_int_equal(count, 40);
        for (size_t i = 15; i < 40; i++)
                assert_true(made[i] - made[i - 15] >= 1000);
        /* A second's calls at once, the rest in equal intervals. */
        assert_int_equal(made[14], 5100);
        for (size_t i = 16; i < 40; i++)
                assert_true(made[i] - made[i - 1] >= 68);
        assert_true(made[39] <= 5200 + 1001 + 25 * 70);
        quota_destroy(&bucket);
}

/* Each fifth second the way to AWS stands still for `still_ms`: what was sent meanwhile comes all at once. */
static int64_t arrives(int64_t sent_ms, int64_t still_ms) {
        int64_t second = sent_ms / 5000 * 5000;

        return sent_ms - second < still_ms ? second + still_ms : sent_ms + 5;
}

/* Reads of many functions by a few threads. */
static void read_side_by_side(int64_t still_ms, int64_t *ret_end_ms) {
        enum { THREADS = 12, CALLS = 300 };
        struct quota_bucket bucket;
        int64_t turns[THREADS], started[THREADS] = { 0 }, counted[CALLS], now = 1;
        size_t count = 0;

        quota_init(&bucket, quota_default_rate(QUOTA_LAMBDA_POLICY));
        for (size_t i = 0; i < THREADS; i++)
                turns[i] = quota_reserve(&bucket, now, true);
        for (; count < CALLS && now < 600000; now++) {
                for (size_t i = 0; i < THREADS && count < CALLS; i++) {
                        if (started[i] && now >= arrives(started[i], still_ms) + 5) {
                                quota_answered(&bucket, started[i], now);
                                started[i] = 0;
                                turns[i] = quota_reserve(&bucket, now, true);
                        }
                        if (started[i] || turns[i] > now ||
                            (turns[i] = quota_start(&bucket, now, true)) > now)
                                continue;
                        started[i] = now;
                        counted[count++] = arrives(now, still_ms);
                }
        }
        assert_int_equal(count, CALLS);
        qsort(counted, CALLS, sizeof(*counted), by_time);
        for (size_t i = 15; i < CALLS; i++)
                assert_true(counted[i] - counted[i - 15] >= 1000);
        *ret_end_ms = now;
        quota_destroy(&bucket);
}

static void calls_count_until_they_are_answered(void **state) {
        int64_t end;

        (void)state;
        read_side_by_side(0, &end);
        assert_true(end <= 300 * 1000 / 14);
        for (int64_t still_ms = 100; still_ms <= 2500; still_ms += 100) {
                read_side_by_side(still_ms, &end);
                assert_true(end <= 60000);
        }
}

/* Turns that are taken as they come are taken at once, however many. */
static void who_is_on_time_is_not_held_up(void **state) {
        struct quota_bucket bucket;

        (void)state;
        quota_init(&bucket, quota_default_rate(QUOTA_LAMBDA_CONTROL));
        for (int i = 0; i < 500; i++) {
                int64_t go =
                        quota_reserve(&bucket, 0, false) + i % 30; /* thirty milliseconds early or late */

                assert_int_equal(quota_start(&bucket, go, false), go);
        }
        quota_destroy(&bucket);
}

static void no_limit_means_now(void **state) {
        struct quota_bucket bucket;

        (void)state;
        quota_init(&bucket, quota_default_rate(QUOTA_NONE));
        for (int i = 0; i < 100; i++)
                assert_int_equal(quota_reserve(&bucket, 7, false), 7);
        quota_slow_down(&bucket, 7);
        assert_int_equal(quota_reserve(&bucket, 7, false), 7);
        for (int i = 0; i < 200; i++)
                assert_int_equal(quota_start(&bucket, 7, false), 7);
        quota_destroy(&bucket);
}

static int64_t gap(struct quota_bucket *bucket, int64_t now_ms) {
        int64_t first = quota_reserve(bucket, now_ms, false);

        return quota_reserve(bucket, now_ms, false) - first;
}

static void throttling_slows_down_and_passes(void **state) {
        struct quota_bucket bucket;
        int64_t slow;

        (void)state;
        quota_init(&bucket, 10.0);
        assert_int_equal(gap(&bucket, 0), 100);
        quota_slow_down(&bucket, 10000);
        quota_slow_down(&bucket, 10001);            /* sent at the old pace: the same event */
        assert_int_equal(gap(&bucket, 10001), 142); /* 100 / 0.7 */
        for (int i = 1; i < 20; i++)
                quota_slow_down(&bucket, 10000 + i * 1000);
        slow = gap(&bucket, 29000);
        assert_true(slow > 400 && slow <= 501); /* never slower than a fifth */
        assert_int_equal(gap(&bucket, 120000), 100);
        quota_destroy(&bucket);
}

static void each_call_has_its_bucket(void **state) {
        (void)state;
        assert_int_equal(quota_kind_of(AWS_LAMBDA, "GetFunction"), QUOTA_LAMBDA_READ);
        assert_int_equal(quota_kind_of(AWS_LAMBDA, "GetPolicy"), QUOTA_LAMBDA_POLICY);
        assert_int_equal(quota_kind_of(AWS_LAMBDA, "GetFunctionUrlConfig"), QUOTA_LAMBDA_CONTROL);
        assert_int_equal(quota_kind_of(AWS_LAMBDA, "GetFunctionConfiguration"), QUOTA_LAMBDA_CONTROL);
        assert_int_equal(quota_kind_of(AWS_LAMBDA, "CreateFunction"), QUOTA_LAMBDA_CONTROL);
        assert_int_equal(quota_kind_of(AWS_LAMBDA, "ListTags"), QUOTA_LAMBDA_CONTROL);
        assert_int_equal(quota_kind_of(AWS_LAMBDA, "Invoke"), QUOTA_NONE);
        assert_int_equal(quota_kind_of(AWS_LAMBDA, "InvokeWithResponseStream"), QUOTA_NONE);
        assert_int_equal(quota_kind_of(AWS_TAGGING, "GetResources"), QUOTA_TAGGING);
        assert_int_equal(quota_kind_of(AWS_IAM, "GetRole"), QUOTA_IAM);
        assert_int_equal(quota_kind_of(AWS_S3, "PutObject"), QUOTA_NONE);
        assert_int_equal(quota_kind_of(AWS_LOGS, "CreateLogGroup"), QUOTA_LOGS_CREATE);
        assert_int_equal(quota_kind_of(AWS_LOGS, "PutRetentionPolicy"), QUOTA_LOGS_RETAIN);
        assert_int_equal(quota_kind_of(AWS_LOGS, "TagResource"), QUOTA_LOGS_OTHER);
        assert_true(quota_default_rate(QUOTA_LAMBDA_READ) < 100 &&
                    quota_default_rate(QUOTA_LAMBDA_READ) > 90);
        assert_true(quota_default_rate(QUOTA_LAMBDA_CONTROL) < 15 &&
                    quota_default_rate(QUOTA_LAMBDA_CONTROL) > 14);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_thousand_calls_use_the_quota_nearly_whole),
                cmocka_unit_test(no_second_holds_more_than_fifteen),
                cmocka_unit_test(a_list_has_its_first_fifteen_pages_at_once),
                cmocka_unit_test(a_burst_is_not_followed_by_bursts),
                cmocka_unit_test(two_lists_that_wait_have_equal_intervals),
                cmocka_unit_test(whoever_comes_late_goes_at_once),
                cmocka_unit_test(those_that_were_held_up_do_not_go_together),
                cmocka_unit_test(calls_count_until_they_are_answered),
                cmocka_unit_test(who_is_on_time_is_not_held_up),
                cmocka_unit_test(no_limit_means_now),
                cmocka_unit_test(throttling_slows_down_and_passes),
                cmocka_unit_test(each_call_has_its_bucket),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
