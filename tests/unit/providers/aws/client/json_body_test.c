/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "providers/aws/client/json_body.h"

#include <string.h>

/* A token that was asked with, the answer's, and what is to be asked with next: NULL ends, "!" fails. */
static const struct {
        const char *before, *answer, *after;
} pages[] = {
        { NULL, "{}", NULL },
        { NULL, "{\"nextToken\": null}", NULL },
        { NULL, "{\"nextToken\": \"\"}", NULL },
        { NULL, "{\"nextToken\": 7}", NULL },
        { NULL, "[]", NULL },
        { NULL, "{\"nextToken\": \"a\"}", "a" },
        { "a", "{\"nextToken\": \"b\"}", "b" },
        { "a", "{}", NULL },
        { "a", "{\"nextToken\": \"a\"}", "!" },
};

static void pages_follow_each_other(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(pages) / sizeof(*pages); i++) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
                const char *token = pages[i].before;
                struct error err;

                response.json = json_loads(pages[i].answer, 0, NULL);
                if (aws_next_page(&response, "nextToken", &token, arena, &err) < 0) {
                        assert_string_equal(pages[i].after, "!");
                        assert_non_null(strstr(err.message, "no end"));
                } else if (!token || !pages[i].after) {
                        assert_null(token);
                        assert_null(pages[i].after);
                } else {
                        assert_string_equal(token, pages[i].after);
                }
        }
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(pages_follow_each_other) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
