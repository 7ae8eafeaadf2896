/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "providers/aws/client/quota_set.h"

#include <pthread.h>

static const struct clock other_clock;

static void who_shares_with_whom(void **state) {
        static const struct {
                const char *account, *region;
                const struct clock *clock;
                double scale;
                bool same;
        } cases[] = {
                { "111111111111", "eu-west-1", &clock_system, 1.0, true },
                { "111111111111", "eu-west-2", &clock_system, 1.0, false },
                { "222222222222", "eu-west-1", &clock_system, 1.0, false },
                { "111111111111", "eu-west-1", &other_clock, 1.0, false },
                { "111111111111", "eu-west-1", &clock_system, 2.0, false },
        };
        struct quota_set *first = quota_set_share("111111111111", "eu-west-1", &clock_system, 1.0);

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct quota_set *set =
                        quota_set_share(cases[i].account, cases[i].region, cases[i].clock, cases[i].scale);

                assert_int_equal(set == first, cases[i].same);
                quota_set_release(set);
        }
        quota_set_release(first);
        quota_set_release(NULL);
}

/* Two sources that call at once get one after the other's interval, as one alone would. */
static void the_pace_is_one(void **state) {
        struct quota_set *a = quota_set_share("1", "r", &clock_system, 1.0);
        struct quota_set *b = quota_set_share("1", "r", &clock_system, 1.0);
        struct quota_set *alone = quota_set_new(1.0);

        (void)state;
        for (int i = 0; i < 100; i++) {
                struct quota_set *caller = i % 2 ? a : b;

                assert_int_equal(quota_reserve(&caller->buckets[QUOTA_LAMBDA_CONTROL], 0, false),
                                 quota_reserve(&alone->buckets[QUOTA_LAMBDA_CONTROL], 0, false));
        }
        /* If one of them goes, the other loses nothing. */
        quota_set_release(a);
        assert_int_equal(quota_reserve(&b->buckets[QUOTA_LAMBDA_CONTROL], 0, false),
                         quota_reserve(&alone->buckets[QUOTA_LAMBDA_CONTROL], 0, false));
        quota_set_release(b);
        quota_set_release(alone);
}

static void *come_and_go(void *argument) {
        (void)argument;
        for (int i = 0; i < 2000; i++) {
                struct quota_set *set = quota_set_share(i % 3 ? "1" : "2", "r", &clock_system, 1.0);

                quota_reserve(&set->buckets[QUOTA_TAGGING], i, false);
                quota_set_release(set);
        }
        return NULL;
}

static void many_threads(void **state) {
        pthread_t threads[4];

        (void)state;
        for (size_t i = 0; i < 4; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, NULL), 0);
        for (size_t i = 0; i < 4; i++)
                assert_int_equal(pthread_join(threads[i], NULL), 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(who_shares_with_whom),
                cmocka_unit_test(the_pace_is_one),
                cmocka_unit_test(many_threads),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
