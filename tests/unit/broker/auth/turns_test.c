/* SPDX-License-Identifier: Apache-2.0 */
/* How often a caller may ask; and that an owner who asks too often takes nothing from others. */
#include "broker/auth/rate.h"
#include "broker/auth/turns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static unsigned take_all(struct rate *rate, int64_t per_second, int64_t now_ms) {
        unsigned taken = 0;

        while (rate_take(rate, per_second, now_ms))
                taken++;
        return taken;
}

static void rates(void **state) {
        static const int64_t speeds[] = { 1, 3, 1000, 1000000 };

        (void)state;
        for (size_t i = 0; i < sizeof(speeds) / sizeof(speeds[0]); i++) {
                int64_t speed = speeds[i];
                struct rate rate = { 0 };

                assert_int_equal(take_all(&rate, speed, 1000000), 2 * speed);
                assert_false(rate_take(&rate, speed, 1000000));
                assert_int_equal(take_all(&rate, speed, 1000001), speed / 1000);
                assert_int_equal(take_all(&rate, speed, 1001000), speed - speed / 1000);
                /* A clock that went back gives nothing, and a long pause no more than all. */
                assert_int_equal(take_all(&rate, speed, 5), 0);
                assert_int_equal(take_all(&rate, speed, 1002000), speed);
                assert_int_equal(take_all(&rate, speed, INT64_MAX), 2 * speed);
                assert_int_equal(take_all(&rate, speed, INT64_MAX), 0);
                rate_return(&rate);
                assert_int_equal(take_all(&rate, speed, INT64_MAX), 1);
        }
}

static unsigned ask(struct turns *turns, size_t client, const struct broker_limits *limits, const char *owner,
                    unsigned times, enum turn wanted) {
        unsigned count = 0;

        for (unsigned i = 0; i < times; i++)
                count += turns_take(turns, client, limits, owner, 1000) == wanted;
        return count;
}

static void clients_are_apart(void **state) {
        const struct broker_limits five = { .per_second = 5 }, two = { .per_second = 2 };
        struct turns *turns = turns_new(2);

        (void)state;
        assert_int_equal(ask(turns, 0, &five, NULL, 100, TURN_TAKEN), 10);
        assert_int_equal(ask(turns, 0, &five, "r/ann", 10, TURN_NOT_OF_CLIENT), 10);
        assert_int_equal(ask(turns, 1, &two, NULL, 100, TURN_TAKEN), 4);
        assert_int_equal(turns_owners(turns), 0); /* none has a limit of its own */
        turns_free(turns);
}

static void owners_are_apart(void **state) {
        const struct broker_limits limits = { .per_second = 10, .owner_per_second = 3 };
        struct turns *turns = turns_new(2);

        (void)state;
        assert_int_equal(ask(turns, 0, &limits, "r/ann", 6, TURN_TAKEN), 6);
        assert_int_equal(ask(turns, 0, &limits, "r/ann", 1000, TURN_NOT_OF_OWNER), 1000);
        /* What she was refused the client has still: 20 at once. */
        assert_int_equal(ask(turns, 0, &limits, "r/bob", 100, TURN_TAKEN), 6);
        assert_int_equal(ask(turns, 0, &limits, NULL, 100, TURN_TAKEN), 8);
        assert_int_equal(ask(turns, 0, &limits, "r/cid", 1, TURN_NOT_OF_CLIENT), 1);
        /* By another client she is another's owner. */
        assert_int_equal(ask(turns, 1, &limits, "r/ann", 100, TURN_TAKEN), 6);
        turns_free(turns);
}

/* A client that makes up a name for each request is kept in mind no longer than names say anything. */
static void names_are_forgotten(void **state) {
        const struct broker_limits limits = { .per_second = 1000000, .owner_per_second = 1 };
        struct turns *turns = turns_new(1);
        char name[32];

        (void)state;
        for (int64_t i = 0; i < 200000; i++) {
                snprintf(name, sizeof(name), "r/%lld", (long long)i);
                assert_int_equal(turns_take(turns, 0, &limits, name, i), TURN_TAKEN);
                assert_true(turns_owners(turns) <= (size_t)(2 * RATE_RESTS_MS + 2));
        }
        /* A caller that is not rested is not forgotten. */
        assert_int_equal(turns_take(turns, 0, &limits, "r/199999", 200000), TURN_TAKEN);
        assert_int_equal(turns_take(turns, 0, &limits, "r/199999", 200000), TURN_NOT_OF_OWNER);
        turns_free(turns);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(rates),
                cmocka_unit_test(clients_are_apart),
                cmocka_unit_test(owners_are_apart),
                cmocka_unit_test(names_are_forgotten),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
