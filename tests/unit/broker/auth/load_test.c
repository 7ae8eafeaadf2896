/* SPDX-License-Identifier: Apache-2.0 */
/* No owner has more under way than allowed, and a refused request is not counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "broker/auth/load.h"

#include <stdio.h>

static const struct broker_limits limits = BROKER_LIMITS_INIT;

static void an_owner_leaves_room(void **state) {
        struct load *load = load_new();

        (void)state;
        for (size_t i = 0; i < limits.owner_under_way; i++)
                assert_true(load_enter(load, &limits, "client", "r/ann"));
        assert_false(load_enter(load, &limits, "client", "r/ann"));
        assert_false(load_enter(load, &limits, "other", "r/ann"));
        assert_true(load_enter(load, &limits, "client", "r/bob"));
        load_leave(load, "client", "r/ann");
        assert_true(load_enter(load, &limits, "client", "r/ann"));
        for (size_t i = 0; i < limits.owner_under_way; i++)
                load_leave(load, "client", "r/ann");
        load_leave(load, "client", "r/bob");
        load_free(load);
}

/*
 * A client is no owner of the same name; a request refused to an owner does not count for the
 * client.
 */
static void a_client_leaves_room(void **state) {
        struct load *load = load_new();
        char owner[32];

        (void)state;
        for (size_t i = 0; i < limits.owner_under_way; i++)
                assert_true(load_enter(load, &limits, "same", "same"));
        for (size_t i = 0; i < limits.under_way; i++)
                assert_false(load_enter(load, &limits, "same", "same"));
        for (size_t i = limits.owner_under_way; i < limits.under_way; i++) {
                snprintf(owner, sizeof(owner), "r/%zu", i);
                assert_true(load_enter(load, &limits, "same", owner));
        }
        assert_false(load_enter(load, &limits, "same", NULL));
        assert_true(load_enter(load, &limits, "another", NULL));
        for (size_t i = 0; i < limits.owner_under_way; i++)
                load_leave(load, "same", "same");
        for (size_t i = limits.owner_under_way; i < limits.under_way; i++) {
                snprintf(owner, sizeof(owner), "r/%zu", i);
                load_leave(load, "same", owner);
        }
        load_leave(load, "another", NULL);
        load_free(load);
}

/* Clients of one realm share owners, and may have unlike limits. */
static void limits_are_each_clients(void **state) {
        const struct broker_limits wide = { .under_way = 5, .owner_under_way = 4 },
                                   narrow = { .under_way = 2, .owner_under_way = 2 };
        struct load *load = load_new();

        (void)state;
        for (size_t i = 0; i < 4; i++)
                assert_true(load_enter(load, &wide, "wide", "r/ann"));
        assert_false(load_enter(load, &narrow, "narrow", "r/ann"));
        assert_false(load_enter(load, &wide, "wide", "r/ann"));
        assert_true(load_enter(load, &wide, "wide", "r/bob"));
        assert_false(load_enter(load, &wide, "wide", "r/cid"));
        for (size_t i = 0; i < 2; i++)
                assert_true(load_enter(load, &narrow, "narrow", "r/cid"));
        assert_false(load_enter(load, &narrow, "narrow", NULL));
        for (size_t i = 0; i < 4; i++)
                load_leave(load, "wide", "r/ann");
        load_leave(load, "wide", "r/bob");
        for (size_t i = 0; i < 2; i++)
                load_leave(load, "narrow", "r/cid");
        load_free(load);
}

/* One owner's large bodies leave room for another's, one client's for another's; answers and bodies are apart, and little never counts. */
static void memory_is_shared(void **state) {
        struct load *load = load_new();
        struct load_held ann = { load, "client", "r/ann", LOAD_BODIES, 0 }, ann_too = ann, answer = ann,
                         bob = { load, "client", "r/bob", LOAD_BODIES, 0 },
                         cid = { load, "client", "r/cid", LOAD_BODIES, 0 },
                         other = { load, "other", "other", LOAD_BODIES, 0 };

        (void)state;
        answer.kind = LOAD_ANSWERS;
        assert_true(load_enter(load, &limits, "client", "r/ann"));
        assert_true(load_enter(load, &limits, "client", "r/ann"));
        assert_true(load_enter(load, &limits, "client", "r/bob"));
        assert_true(load_enter(load, &limits, "client", "r/cid"));
        assert_true(load_enter(load, &limits, "other", "other"));
        assert_true(load_hold(&ann, LOAD_OWNER_HELD_MAX));
        assert_false(load_hold(&ann, LOAD_OWNER_HELD_MAX + 1));
        assert_false(load_hold(&ann_too, LOAD_LITTLE + 1));
        assert_true(load_hold(&ann_too, LOAD_LITTLE));
        assert_true(load_hold(&answer, LOAD_OWNER_HELD_MAX));
        assert_true(load_hold(&bob, LOAD_OWNER_HELD_MAX));
        assert_false(load_hold(&cid, LOAD_LITTLE + 1)); /* the client's */
        assert_true(load_hold(&other, LOAD_HELD_MAX - LOAD_CLIENT_HELD_MAX));
        assert_false(load_hold(&other, LOAD_HELD_MAX - LOAD_CLIENT_HELD_MAX + 1)); /* of all */
        assert_true(load_hold(&ann, LOAD_LITTLE + 1));
        assert_true(load_hold(&ann_too, LOAD_OWNER_HELD_MAX - LOAD_LITTLE - 1));
        assert_true(load_hold(&ann, 0));
        assert_true(load_hold(&ann_too, 0));
        assert_true(load_hold(&cid, LOAD_OWNER_HELD_MAX));
        assert_true(load_hold(&answer, 0));
        assert_true(load_hold(&bob, 0));
        assert_true(load_hold(&cid, 0));
        assert_true(load_hold(&other, 0));
        load_leave(load, "client", "r/ann");
        load_leave(load, "client", "r/ann");
        load_leave(load, "client", "r/bob");
        load_leave(load, "client", "r/cid");
        load_leave(load, "other", "other");
        load_free(load);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(an_owner_leaves_room),
                cmocka_unit_test(a_client_leaves_room),
                cmocka_unit_test(limits_are_each_clients),
                cmocka_unit_test(memory_is_shared),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
