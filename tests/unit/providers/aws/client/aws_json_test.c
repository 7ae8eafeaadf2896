/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "providers/aws/client/aws_json.h"

#include <string.h>

/* An answer, and the marker with which the next page must be asked for: NULL ends the listing. */
static const struct {
        const char *answer, *next;
} pages[] = {
        { "{}", NULL },
        { "{\"nextToken\": null}", NULL },
        { "{\"nextToken\": \"\"}", NULL },
        { "{\"nextToken\": 7}", NULL },
        { "[]", NULL },
        { "{\"nextToken\": \"a\"}", "a" },
};

static void pages_follow_each_other(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(pages) / sizeof(*pages); i++) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
                struct aws_paging paging = { 0 };
                struct error err;

                response.json = json_loads(pages[i].answer, 0, NULL);
                assert_int_equal(aws_next_page(&response, "nextToken", &paging, arena, &err), 0);
                if (!paging.token || !pages[i].next)
                        assert_ptr_equal(paging.token, pages[i].next);
                else
                        assert_string_equal(paging.token, pages[i].next);
                if (pages[i].next) {
                        /* The page that leads to itself. */
                        assert_int_equal(aws_next_page(&response, "nextToken", &paging, arena, &err), -1);
                        assert_non_null(strstr(err.message, "no end"));
                }
        }
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(pages_follow_each_other) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
