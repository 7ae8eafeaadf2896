/* SPDX-License-Identifier: Apache-2.0 */
/* Names of owners, and lists of names; who is let in: tests/e2e/test_serve.py. */
#include "broker/auth/door.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void owner_names(void **state) {
        static const char *const good[] = {
                "a",    "alice@example.com", "a/b", "uid:0", "client:x", "two words", "Ünïcode",
                "日本", "\xf0\x9f\x90\xa7",
        };
        static const char turned[] = {
                'a', '\xe2', '\x80', '\xae', 'b', '\0'
        }; /* what follows is written backwards */
        static const char *const bad[] = {
                "",     "a\tb",          "a\nb",     "a\x7f",        "\xff", "\xc0\xaf", "\xed\xa0\x80",
                turned, "a\xe2\x80\x8b", "\xc2\x85", "\xe2\x80\xa8",
        };
        char longest[DOOR_OWNER_CHARACTERS + 2] = "";

        (void)state;
        for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
                if (!door_is_owner_name(good[i]))
                        fail_msg("%s is refused", good[i]);
        }
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                if (door_is_owner_name(bad[i]))
                        fail_msg("number %zu is taken", i);
        }
        memset(longest, 'x', DOOR_OWNER_CHARACTERS);
        assert_true(door_is_owner_name(longest));
        longest[DOOR_OWNER_CHARACTERS] = 'x';
        assert_false(door_is_owner_name(longest));
}

static void lists(void **state) {
        struct arena *arena = arena_new();
        struct value list = { .type = VALUE_LIST }, item = { .type = VALUE_TEXT, .text = "data", .count = 4 };

        (void)state;
        assert_true(door_lists(NULL, "anything"));
        assert_false(door_lists(&list, "data"));
        value_append(arena, &list, item);
        assert_true(door_lists(&list, "data"));
        assert_false(door_lists(&list, "dat"));
        assert_false(door_lists(&list, "data2"));
        arena_free(arena);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(owner_names),
                cmocka_unit_test(lists),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
