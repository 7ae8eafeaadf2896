/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "providers/tenancy.h"

static const struct value *tenancy(struct arena *arena, int said) {
        struct value *spec = value_new_map(arena);

        if (said >= 0)
                value_set_boolean(arena, spec, TENANCY_MEMBER, said == 1);
        return spec;
}

/* 1 and 0 are the member's value, SILENT is a spec without the member, NO_SPEC none at all. */
enum { SILENT = -1, NO_SPEC = -2 };

static void test_desired(void **state) {
        static const struct {
                int manifest;
                bool observed, exists;
                int seen, recorded;
                bool expected;
        } rows[] = {
                { 1, true, true, 0, 0, true },
                { 0, true, true, 1, 1, false },
                /* Nothing is said: as it is. */
                { SILENT, true, true, 1, 0, true },
                { SILENT, true, true, 0, 1, false },
                { SILENT, true, true, SILENT, 1, false },
                /* It does not exist yet, or no longer. */
                { SILENT, true, false, NO_SPEC, NO_SPEC, true },
                { SILENT, true, false, NO_SPEC, 0, true },
                /* An offline plan assumes that it exists, and has read nothing: as recorded. */
                { SILENT, true, true, NO_SPEC, 1, true },
                { SILENT, true, true, NO_SPEC, 0, false },
                { SILENT, false, false, NO_SPEC, 0, false },
                { SILENT, false, false, NO_SPEC, 1, true },
                { SILENT, false, false, NO_SPEC, NO_SPEC, true },
        };
        struct arena *arena = arena_new();

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct observation observation = {
                        .exists = rows[i].exists,
                        .spec = rows[i].seen == NO_SPEC ? NULL : tenancy(arena, rows[i].seen),
                };
                const struct value *recorded =
                        rows[i].recorded == NO_SPEC ? NULL : tenancy(arena, rows[i].recorded);

                if (tenancy_desired(tenancy(arena, rows[i].manifest), rows[i].observed ? &observation : NULL,
                                    recorded) != rows[i].expected)
                        fail_msg("row %zu", i);
        }
        arena_free(arena);
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_desired) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
