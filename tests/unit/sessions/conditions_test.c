/* SPDX-License-Identifier: Apache-2.0 */
#include "sessions/conditions.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_conditions(void **state) {
        static const struct {
                const char *match, *none, *etag;
                enum conditions_verdict verdict;
        } rows[] = {
                { NULL, NULL, NULL, CONDITIONS_HOLD },
                { NULL, NULL, "\"a\"", CONDITIONS_HOLD },
                { "*", NULL, "\"a\"", CONDITIONS_HOLD },
                { "*", NULL, NULL, CONDITIONS_FAIL },
                { NULL, "*", "\"a\"", CONDITIONS_MATCHED },
                { NULL, " * ", NULL, CONDITIONS_HOLD },
                { "\"a\"", NULL, "\"a\"", CONDITIONS_HOLD },
                { "\"a\"", NULL, "\"b\"", CONDITIONS_FAIL },
                { "\"a\"", NULL, NULL, CONDITIONS_FAIL },
                { "\"b\" , ,\t\"a\"", NULL, "\"a\"", CONDITIONS_HOLD },
                { "W/\"a\"", NULL, "\"a\"", CONDITIONS_FAIL },
                { NULL, "W/\"a\"", "\"a\"", CONDITIONS_MATCHED },
                { NULL, "\"b\",\"a\"", "\"a\"", CONDITIONS_MATCHED },
                { NULL, "\"aa\"", "\"a\"", CONDITIONS_HOLD },
                { "\"a,b\"", NULL, "\"a,b\"", CONDITIONS_HOLD },
                { "a", NULL, "\"a\"", CONDITIONS_BAD },
                { "\"a", NULL, "\"a\"", CONDITIONS_BAD },
                { "", NULL, "\"a\"", CONDITIONS_BAD },
                { ",", NULL, "\"a\"", CONDITIONS_BAD },
                { "\"a\" \"b\"", NULL, "\"a\"", CONDITIONS_BAD },
                { "\"a\x01\"", NULL, "\"a\"", CONDITIONS_BAD },
                { "*, \"a\"", NULL, "\"a\"", CONDITIONS_BAD },
                { "w/\"a\"", NULL, "\"a\"", CONDITIONS_BAD },
                { "\"a\"", "\"a\"", "\"a\"", CONDITIONS_MATCHED },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
                const struct conditions conditions = { rows[i].match, rows[i].none };

                assert_int_equal(conditions_judge(&conditions, rows[i].etag), rows[i].verdict);
        }
}

static void test_ranges(void **state) {
        static const struct {
                const char *range;
                uint64_t bytes;
                enum range_verdict verdict;
                uint64_t from, length;
        } rows[] = {
                { NULL, 10, RANGE_WHOLE, 0, 0 },
                { "bytes=0-0", 10, RANGE_PART, 0, 1 },
                { "bytes=0-", 10, RANGE_PART, 0, 10 },
                { "Bytes=2-5", 10, RANGE_PART, 2, 4 },
                { "bytes= 2-500 ", 10, RANGE_PART, 2, 8 },
                { "bytes=9-9", 10, RANGE_PART, 9, 1 },
                { "bytes=10-", 10, RANGE_BEHIND, 0, 0 },
                { "bytes=-3", 10, RANGE_PART, 7, 3 },
                { "bytes=-300", 10, RANGE_PART, 0, 10 },
                { "bytes=-0", 10, RANGE_BEHIND, 0, 0 },
                { "bytes=-1", 0, RANGE_BEHIND, 0, 0 },
                { "bytes=0-", 0, RANGE_BEHIND, 0, 0 },
                { "bytes=5-2", 10, RANGE_WHOLE, 0, 0 },
                { "bytes=0-1,3-4", 10, RANGE_WHOLE, 0, 0 },
                { "lines=0-1", 10, RANGE_WHOLE, 0, 0 },
                { "bytes=", 10, RANGE_WHOLE, 0, 0 },
                { "bytes=-", 10, RANGE_WHOLE, 0, 0 },
                { "bytes=a-b", 10, RANGE_WHOLE, 0, 0 },
                { "bytes=+1-2", 10, RANGE_WHOLE, 0, 0 },
                { "bytes=1-2x", 10, RANGE_WHOLE, 0, 0 },
                { "bytes=18446744073709551616-", 10, RANGE_BEHIND, 0, 0 },
                { "bytes=0-99999999999999999999999", 10, RANGE_PART, 0, 10 },
                { "bytes=-99999999999999999999999", 10, RANGE_PART, 0, 10 },
                { "bytes=18446744073709551614-18446744073709551615", UINT64_MAX, RANGE_PART, UINT64_MAX - 1,
                  1 },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
                uint64_t from = 0, length = 0;

                assert_int_equal(range_read(rows[i].range, rows[i].bytes, &from, &length), rows[i].verdict);
                assert_int_equal(from, rows[i].from);
                assert_int_equal(length, rows[i].length);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_conditions),
                                            cmocka_unit_test(test_ranges) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
