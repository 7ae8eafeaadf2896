/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "providers/aws/client/aws_paging.h"

#include <stdio.h>
#include <string.h>

static void pages_follow_each_other_to_the_last(void **state) {
        static const char *const last[] = { NULL, "" };

        (void)state;
        for (size_t i = 0; i < sizeof(last) / sizeof(*last); i++) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                struct aws_paging paging = { 0 };
                struct error err;

                for (int page = 1; page <= 1000; page++) {
                        char next[16];

                        snprintf(next, sizeof(next), "%d", page);
                        assert_int_equal(aws_paging_next(&paging, next, arena, &err), 0);
                        assert_string_equal(paging.token, next);
                }
                assert_int_equal(aws_paging_next(&paging, last[i], arena, &err), 0);
                assert_null(paging.token);
        }
}

/* Pages before the circle, and in it. */
static void circles_are_left(void **state) {
        (void)state;
        for (int before = 0; before < 20; before++) {
                for (int round = 1; round < 20; round++) {
                        struct arena *arena ARENA_CLEANUP = arena_new();
                        struct aws_paging paging = { 0 };
                        struct error err = { 0 };
                        int page = 0, result = 0;

                        for (; result == 0 && page < 1000; page++) {
                                char next[16];

                                snprintf(next, sizeof(next), "%d",
                                         page < before ? page : before + (page - before) % round);
                                result = aws_paging_next(&paging, next, arena, &err);
                        }
                        assert_int_equal(result, -1);
                        assert_non_null(strstr(err.message, "the listing has no end: it leads back"));
                        if (page > 3 * (before + round) + 1)
                                fail_msg("%d and %d: %d pages", before, round, page);
                }
        }
}

static void new_tokens_for_ever_are_too_many(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct aws_paging paging = { 0 };
        struct error err = { 0 };
        int page = 0, result = 0;

        (void)state;
        for (; result == 0 && page <= AWS_PAGES_MAX; page++) {
                char next[16];

                snprintf(next, sizeof(next), "%d", page);
                result = aws_paging_next(&paging, next, arena, &err);
        }
        assert_int_equal(page, AWS_PAGES_MAX);
        assert_non_null(strstr(err.message, "after 20000 pages there are more"));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(pages_follow_each_other_to_the_last),
                cmocka_unit_test(circles_are_left),
                cmocka_unit_test(new_tokens_for_ever_are_too_many),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
