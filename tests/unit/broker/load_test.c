/* SPDX-License-Identifier: Apache-2.0 */
/* Nobody has more under way than he may, and what was refused is not counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "broker/load.h"

#include <stdio.h>

static void an_owner_leaves_room(void **state) {
        struct load *load = load_new();

        (void)state;
        for (size_t i = 0; i < LOAD_PER_OWNER; i++)
                assert_true(load_enter(load, "client", "r/ann"));
        assert_false(load_enter(load, "client", "r/ann"));
        assert_false(load_enter(load, "other", "r/ann"));
        assert_true(load_enter(load, "client", "r/bob"));
        load_leave(load, "client", "r/ann");
        assert_true(load_enter(load, "client", "r/ann"));
        for (size_t i = 0; i < LOAD_PER_OWNER; i++)
                load_leave(load, "client", "r/ann");
        load_leave(load, "client", "r/bob");
        load_free(load);
}

/* A client is no owner of the same name; what an owner was refused is none of the client's. */
static void a_client_leaves_room(void **state) {
        struct load *load = load_new();
        char owner[32];

        (void)state;
        for (size_t i = 0; i < LOAD_PER_OWNER; i++)
                assert_true(load_enter(load, "same", "same"));
        for (size_t i = 0; i < LOAD_PER_CLIENT; i++)
                assert_false(load_enter(load, "same", "same"));
        for (size_t i = LOAD_PER_OWNER; i < LOAD_PER_CLIENT; i++) {
                snprintf(owner, sizeof(owner), "r/%zu", i);
                assert_true(load_enter(load, "same", owner));
        }
        assert_false(load_enter(load, "same", NULL));
        assert_true(load_enter(load, "another", NULL));
        for (size_t i = 0; i < LOAD_PER_OWNER; i++)
                load_leave(load, "same", "same");
        for (size_t i = LOAD_PER_OWNER; i < LOAD_PER_CLIENT; i++) {
                snprintf(owner, sizeof(owner), "r/%zu", i);
                load_leave(load, "same", owner);
        }
        load_leave(load, "another", NULL);
        load_free(load);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(an_owner_leaves_room),
                cmocka_unit_test(a_client_leaves_room),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
