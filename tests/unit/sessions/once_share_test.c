/* SPDX-License-Identifier: Apache-2.0 */
#include "sessions/once_share.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define HOUR ((int64_t)3600 * 1000)
#define START (500000 * HOUR + 5)

static void hours_are_forgotten(void **state) {
        static const struct {
                int64_t now; /* hours after the first */
                uint64_t bytes, frees;
        } cases[] = { { 0, 111, 25 },  { 24, 111, 25 }, { 25, 110, 26 },
                      { 26, 100, 49 }, { 48, 100, 49 }, { 49, 0, 0 } };
        struct once_shares shares = { 0 };
        int64_t frees;

        (void)state;
        once_share_add(&shares, "a", 1, START, START);
        once_share_add(&shares, "a", 10, START + HOUR, START + HOUR);
        once_share_add(&shares, "a", 100, START + 24 * HOUR, START + 24 * HOUR);
        once_share_add(&shares, "a", 1000, START - HOUR, START + 24 * HOUR); /* forgotten already */
        once_share_add(&shares, "b", 5, START, START);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                int64_t now = START + cases[i].now * HOUR;

                assert_int_equal(once_share_bytes(&shares, "a", now, &frees), cases[i].bytes);
                assert_int_equal(frees, cases[i].bytes ? START - 5 + (int64_t)cases[i].frees * HOUR : now);
        }
        assert_int_equal(once_share_bytes(&shares, "c", START, &frees), 0);
        /* The place of an hour is another's now. */
        once_share_add(&shares, "a", 7, START + 50 * HOUR, START + 50 * HOUR);
        assert_int_equal(once_share_bytes(&shares, "a", START + 50 * HOUR, &frees), 7);
        once_shares_clear(&shares);
}

static void what_is_taken_back(void **state) {
        struct once_shares shares = { 0 };
        int64_t frees, now = START + 2 * HOUR;

        (void)state;
        once_share_take(&shares, "a", 5);
        for (int i = 0; i < 3; i++)
                once_share_add(&shares, "a", 10, START + i * HOUR, START + i * HOUR);
        once_share_take(&shares, "a", 15);
        assert_int_equal(once_share_bytes(&shares, "a", now, &frees), 15);
        assert_int_equal(once_share_bytes(&shares, "a", START + 25 * HOUR, &frees), 5);
        once_share_take(&shares, "a", 1000);
        assert_int_equal(once_share_bytes(&shares, "a", now, &frees), 0);
        once_shares_clear(&shares);
}

/* A clock that was set back by days: nothing is lost, and nothing counts forever. */
static void a_clock_that_is_set_back(void **state) {
        struct once_shares shares = { 0 };
        int64_t frees;

        (void)state;
        once_share_add(&shares, "a", 1, START + 75 * HOUR, START + 75 * HOUR);
        once_share_add(&shares, "a", 2, START, START);
        assert_int_equal(once_share_bytes(&shares, "a", START, &frees), 3);
        assert_int_equal(once_share_bytes(&shares, "a", START + 100 * HOUR, &frees), 0);
        once_shares_clear(&shares);
}

/* Owners who come no more do not stay in memory; those that do, do. */
static void owners_come_and_go(void **state) {
        struct once_shares shares = { 0 };
        char owner[RECORD_DIGEST_SIZE];
        int64_t frees;

        (void)state;
        for (int i = 0; i < 20000; i++) {
                snprintf(owner, sizeof(owner), "%040d", i);
                once_share_add(&shares, owner, 1, START + i / 100 * HOUR, START + i / 100 * HOUR);
        }
        for (int i = 0; i < 20000; i++) {
                snprintf(owner, sizeof(owner), "%040d", i);
                assert_int_equal(once_share_bytes(&shares, owner, START + 199 * HOUR, &frees),
                                 i / 100 >= 175);
        }
        once_shares_clear(&shares);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(hours_are_forgotten),
                cmocka_unit_test(what_is_taken_back),
                cmocka_unit_test(a_clock_that_is_set_back),
                cmocka_unit_test(owners_come_and_go),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
