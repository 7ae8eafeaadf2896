/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gitops/backoff.h"

static void waits(void **state) {
        static const struct {
                unsigned failures;
                int64_t interval_ms;
                double random;
                int64_t wait_ms;
        } cases[] = {
                { 1, 60000, 0.0, BACKOFF_LEAST_MS },
                { 1, 60000, 0.999999, 4999 },
                { 2, 60000, 0.5, 5000 },
                { 3, 60000, 0.5, 10000 },
                { 7, 60000, 0.5, 160000 },
                { 8, 60000, 0.5, 300000 }, /* the cap */
                { 4000000000U, 60000, 0.999999, 599999 },
                { 1, 1000, 0.5, 500 }, /* who looks each second tries again within one */
                { 2, 1000, 0.5, 1000 },
                { 30, 1000, 1.0, BACKOFF_CAP_MS },
                { 0, 60000, 0.5, 2500 },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                assert_int_equal(backoff_ms(cases[i].failures, cases[i].interval_ms, cases[i].random),
                                 cases[i].wait_ms);
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(waits) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
