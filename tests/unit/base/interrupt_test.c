/* SPDX-License-Identifier: Apache-2.0 */
/* Levels, and the descriptors that tell of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/interrupt.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <unistd.h>

static bool is_readable(const struct interrupt *interrupt, int level) {
        struct pollfd polled = { .fd = interrupt_descriptor(interrupt, level), .events = POLLIN };

        return poll(&polled, 1, 0) == 1;
}

static void assert_level(const struct interrupt *interrupt, int level) {
        assert_int_equal(interrupt_level(interrupt), level);
        for (int each = INTERRUPT_FINISH; each <= INTERRUPT_NOW; each++)
                assert_int_equal(is_readable(interrupt, each), level >= each);
}

static void each_level_has_its_descriptor(void **state) {
        struct interrupt interrupt;
        struct error err = { 0 };

        (void)state;
        assert_int_equal(interrupt_init(&interrupt, &err), 0);
        assert_level(&interrupt, INTERRUPT_NONE);
        interrupt_raise(&interrupt);
        assert_level(&interrupt, INTERRUPT_FINISH);
        interrupt_raise_to(&interrupt, INTERRUPT_FINISH);
        assert_level(&interrupt, INTERRUPT_FINISH);
        interrupt_raise(&interrupt);
        interrupt_raise(&interrupt);
        assert_level(&interrupt, INTERRUPT_NOW);
        interrupt_raise_to(&interrupt, INTERRUPT_FINISH);
        assert_level(&interrupt, INTERRUPT_NOW);
        interrupt_dispose(&interrupt);
        assert_int_equal(interrupt_init(&interrupt, &err), 0);
        interrupt_raise_to(&interrupt, INTERRUPT_NOW);
        assert_level(&interrupt, INTERRUPT_NOW);
        interrupt_dispose(&interrupt);
}

static void none_never_comes(void **state) {
        (void)state;
        assert_int_equal(interrupt_level(NULL), INTERRUPT_NONE);
        assert_int_equal(interrupt_descriptor(NULL, INTERRUPT_NOW), -1);
}

static void *raise_once(void *opaque) {
        interrupt_raise(opaque);
        return NULL;
}

/* None is lost between two that come at once. */
static void two_at_once_are_two(void **state) {
        (void)state;
        for (int i = 0; i < 200; i++) {
                struct interrupt interrupt;
                struct error err = { 0 };
                pthread_t threads[2];

                assert_int_equal(interrupt_init(&interrupt, &err), 0);
                for (int k = 0; k < 2; k++)
                        assert_int_equal(pthread_create(&threads[k], NULL, raise_once, &interrupt), 0);
                for (int k = 0; k < 2; k++)
                        pthread_join(threads[k], NULL);
                assert_level(&interrupt, INTERRUPT_NOW);
                interrupt_dispose(&interrupt);
        }
}

/* In this order: the user's is never taken back. */
static void signals_raise_the_users(void **state) {
        (void)state;
        interrupt_install();
        signal(SIGHUP, SIG_IGN);
        interrupt_on_hangup();
        raise(SIGHUP);
        assert_level(interrupt_of_user(), INTERRUPT_NONE);
        assert_int_equal(clock_system.sleep_until(&clock_system, 0), 0);
        signal(SIGHUP, SIG_DFL);
        interrupt_on_hangup();
        raise(SIGHUP);
        raise(SIGHUP);
        assert_level(interrupt_of_user(), INTERRUPT_FINISH);
        assert_int_equal(interrupt_signal(), SIGHUP);
        assert_int_equal(
                clock_system.sleep_until(&clock_system, clock_system.monotonic_ms(&clock_system) + 600000),
                -1);
        raise(SIGINT);
        assert_level(interrupt_of_user(), INTERRUPT_NOW);
        assert_int_equal(interrupt_signal(), SIGHUP);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(each_level_has_its_descriptor),
                cmocka_unit_test(none_never_comes),
                cmocka_unit_test(two_at_once_are_two),
                cmocka_unit_test(signals_raise_the_users),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
