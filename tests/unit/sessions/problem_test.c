/* SPDX-License-Identifier: Apache-2.0 */
/* Every code has what clients are told of it. */
#include "sessions/problem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void each_code_is_whole(void **state) {
        (void)state;
        for (int a = PROBLEM_NONE; a < PROBLEM_CODE_COUNT; a++) {
                assert_non_null(problem_name((enum problem_code)a));
                assert_non_null(problem_title((enum problem_code)a));
                assert_in_range(problem_status((enum problem_code)a), a == PROBLEM_NONE ? 200 : 400, 599);
                for (int b = PROBLEM_NONE; b < a; b++)
                        assert_string_not_equal(problem_name((enum problem_code)a),
                                                problem_name((enum problem_code)b));
        }
}

static void names_stay_what_clients_know(void **state) {
        static const struct {
                enum problem_code code;
                const char *name;
                unsigned status;
        } known[] = {
                { PROBLEM_AGENT_OUT_OF_SERVICE, "agent-out-of-service", 409 },
                { PROBLEM_HAS_SESSIONS, "has-sessions", 409 },
                { PROBLEM_QUEUE_FULL, "queue-full", 429 },
                { PROBLEM_AGENT_LIMIT, "agent-limit", 429 },
                { PROBLEM_NOT_FOUND, "not-found", 404 },
                { PROBLEM_KEY_REUSED, "idempotency-key-reused", 422 },
                { PROBLEM_KEYS_FULL, "idempotency-keys-full", 429 },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
                assert_string_equal(problem_name(known[i].code), known[i].name);
                assert_int_equal(problem_status(known[i].code), known[i].status);
        }
}

static void a_long_detail_is_cut(void **state) {
        struct problem problem = { 0 };
        char text[4096];

        (void)state;
        memset(text, 'x', sizeof(text) - 1);
        text[sizeof(text) - 1] = '\0';
        assert_int_equal(problem_set(&problem, PROBLEM_INVALID, "%s", text), -1);
        assert_int_equal(problem.code, PROBLEM_INVALID);
        assert_int_equal(strlen(problem.detail), sizeof(problem.detail) - 1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(each_code_is_whole),
                cmocka_unit_test(names_stay_what_clients_know),
                cmocka_unit_test(a_long_detail_is_cut),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
