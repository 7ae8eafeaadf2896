/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of the operations as documents. docs/api.md must be what they write now:
 * BERTH_WRITE_DOCS=1 build/dev/tests/unit/broker_openapi_test writes it again. (That the document
 * is one of OpenAPI, and what the server does about it, others say: tests/e2e/test_openapi.py.)
 */
#include "broker/api/openapi.h"

#include "base/json.h"
#include "broker/api/api.h"
#include "broker/request/answers.h"
#include "page.h"
#include "schema/json_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void page_is_current(void **state) {
        (void)state;
        page_check(TEST_DATA "/..", "api.md", openapi_markdown);
}

/* Each row has what documents tell of it; its example is what it takes; its names are its own. */
static void rows_are_whole(void **state) {
        struct arena *arena = arena_new();
        const struct operation *operation, *other;

        (void)state;
        for (size_t at = 0; (operation = openapi_next(&at, true));) {
                const char *name;

                assert_non_null(operation->tag);
                assert_non_null(operation->title);
                assert_int_not_equal(operation->answers->status, 0);
                for (size_t i = 0; (name = openapi_path_parameter(operation->route.path, i, arena)); i++)
                        assert_non_null(api_path_field(name));
                for (const char *const *code = operation->problems; code && *code; code++)
                        assert_non_null(answers_code(*code));
                if (operation->example) {
                        json_t *example JSON_CLEANUP =
                                json_loads(operation->example, JSON_REJECT_DUPLICATES, NULL);
                        const char *wrong =
                                json_check(example, operation->body->fields, operation->body->groups, arena);

                        if (wrong)
                                fail_msg("%s: %s", operation->id, wrong);
                }
                for (size_t before = 0; (other = openapi_next(&before, true)) != operation;)
                        assert_string_not_equal(other->id, operation->id);
        }
        arena_free(arena);
}

static void without_sessions(void **state) {
        json_t *all JSON_CLEANUP = openapi_document(true), *few JSON_CLEANUP = openapi_document(false);

        (void)state;
        assert_non_null(json_object_get(json_object_get(all, "paths"), "/v1/sessions"));
        assert_null(json_object_get(json_object_get(few, "paths"), "/v1/sessions"));
        assert_non_null(json_object_get(json_object_get(few, "paths"), "/v1/map"));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(page_is_current),
                cmocka_unit_test(rows_are_whole),
                cmocka_unit_test(without_sessions),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
