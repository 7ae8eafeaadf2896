/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the AWS provider share, the client's included: an arena, values out of JSON. */
#ifndef BERTH_TESTS_PROVIDERS_AWS_CLIENT_SUPPORT_H
#define BERTH_TESTS_PROVIDERS_AWS_CLIENT_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"
#include "schema/value.h"

#include <string.h>

#define ACCOUNT "123456789012"
#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define DIGEST "sha256:" HEX

/* All of a group's tests share it: cmocka_run_group_tests(tests, make_arena, drop_arena). */
static struct arena *arena;

static inline int make_arena(void **state) {
        (void)state;
        arena = arena_new();
        return 0;
}

static inline int drop_arena(void **state) {
        (void)state;
        arena_free(arena);
        return 0;
}

/* Any JSON; NULL for a NULL text. Lives in the arena. */
static inline struct value *value_of(const char *text) {
        json_t *json JSON_CLEANUP = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
        struct value *value = arena_alloc(arena, sizeof(*value));

        if (!text)
                return NULL;
        assert_non_null(json);
        *value = value_from_json(arena, json);
        return value;
}

/* NULL expects NULL. */
static inline void assert_text(const char *found, const char *expected) {
        if (!expected)
                assert_null(found);
        else
                assert_string_equal(found ? found : "(null)", expected);
}

#endif
