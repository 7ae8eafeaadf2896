/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens of sandboxes, and paths as E2B's clients write them; whole requests: tests/e2e/test_e2b.py. */
#include "broker/e2b/e2b_call.h"
#include "broker/e2b/e2b_token.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define SANDBOX "s-aaaaaaaaaaaaaaaaaaaaaaaaaa"

static bool is_of(const struct door *door, const uint8_t *key, enum e2b_token_kind kind, const char *token,
                  const char *sandbox, struct arena *arena) {
        const struct broker_client *client;
        const char *owner;

        return e2b_token_check(key, kind, door, token, sandbox, arena, &client, &owner);
}

static void tokens(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct broker_client clients[] = { { .name = "one", .has_token = true, .token_hash = { 1 } },
                                           { .name = "two", .has_token = true, .token_hash = { 2 } } };
        struct door *door = door_new(clients, 2, NULL);
        const uint8_t key[SHA256_SIZE] = { 7 }, other[SHA256_SIZE] = { 8 };
        const struct broker_client *client;
        const char *token, *owner, *of_two;
        char changed[512];

        (void)state;
        token = e2b_token_make(key, E2B_TOKEN_ACCESS, &clients[0], "realm/Ann", 0, SANDBOX, arena);
        of_two = e2b_token_make(key, E2B_TOKEN_ACCESS, &clients[1], "realm/Ann", 0, SANDBOX, arena);
        assert_true(e2b_token_check(key, E2B_TOKEN_ACCESS, door, token, SANDBOX, arena, &client, &owner));
        assert_ptr_equal(client, &clients[0]);
        assert_string_equal(owner, "realm/Ann");
        assert_false(is_of(door, key, E2B_TOKEN_TRAFFIC, token, SANDBOX, arena));
        assert_false(is_of(door, other, E2B_TOKEN_ACCESS, token, SANDBOX, arena));
        assert_false(is_of(door, key, E2B_TOKEN_ACCESS, token, SANDBOX "b", arena));
        assert_false(is_of(door, key, E2B_TOKEN_ACCESS, "", SANDBOX, arena));
        assert_false(is_of(door, key, E2B_TOKEN_ACCESS, ".", SANDBOX, arena));
        /* Whose it says that it is, and the proof of another. */
        snprintf(changed, sizeof(changed), "%.*s%s", (int)strcspn(token, "."), token, strchr(of_two, '.'));
        assert_false(is_of(door, key, E2B_TOKEN_ACCESS, changed, SANDBOX, arena));
        for (size_t i = 0; i < strlen(token); i++) {
                snprintf(changed, sizeof(changed), "%s", token);
                changed[i] = changed[i] == '0' ? '1' : '0';
                assert_false(is_of(door, key, E2B_TOKEN_ACCESS, changed, SANDBOX, arena));
                changed[i] = '\0';
                assert_false(is_of(door, key, E2B_TOKEN_ACCESS, changed, SANDBOX, arena));
        }
        /* A client that got another token has others' sandboxes no more. */
        clients[0].token_hash[0] = 9;
        assert_false(is_of(door, key, E2B_TOKEN_ACCESS, token, SANDBOX, arena));
        door_free(door);
}

/* Of a client whose tokens end, a sandbox's ends with the one that it was made by. */
static void tokens_end(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct broker_client sso = { .name = "sso" };
        struct door *door = door_new(&sso, 1, NULL);
        const uint8_t key[SHA256_SIZE] = { 7 };
        const struct broker_client *client;
        const char *owner, *token;

        (void)state;
        token = e2b_token_make(key, E2B_TOKEN_ACCESS, &sso, "realm/Ann", INT64_MAX, SANDBOX, arena);
        assert_true(e2b_token_check(key, E2B_TOKEN_ACCESS, door, token, SANDBOX, arena, &client, &owner));
        assert_string_equal(owner, "realm/Ann");
        token = e2b_token_make(key, E2B_TOKEN_ACCESS, &sso, "realm/Ann", 1, SANDBOX, arena);
        assert_false(is_of(door, key, E2B_TOKEN_ACCESS, token, SANDBOX, arena));
        token = e2b_token_make(key, E2B_TOKEN_ACCESS, &sso, "realm/Ann", 0, SANDBOX, arena);
        assert_false(is_of(door, key, E2B_TOKEN_ACCESS, token, SANDBOX, arena));
        door_free(door);
}

static void paths(void **state) {
        static const char *const rows[][2] = {
                { "a", "a" },
                { "./a//b/.", "a/b" },
                { "/workspace", "" },
                { "/workspace/", "" },
                { "/workspace/a", "a" },
                { "/home/user/a b", "a b" },
                { "/home/user", "" },
                { ".", "" },
                { "...", "..." },
                { "", NULL },
                { "/", NULL },
                { "/workspaces/a", NULL },
                { "/home/users", NULL },
                { "//workspace/a", NULL },
                { "/etc/passwd", NULL },
                { "..", NULL },
                { "a/../b", NULL },
                { "/workspace/..", NULL },
                { "/home/user/../../etc", NULL },
        };
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct problem problem;
        const char *path;

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                int result = e2b_call_path(rows[i][0], arena, &path, &problem);

                if ((result == 0) != (rows[i][1] != NULL))
                        fail_msg("%s", rows[i][0]);
                if (result == 0)
                        assert_string_equal(path, rows[i][1]);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(tokens), cmocka_unit_test(tokens_end),
                                            cmocka_unit_test(paths) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
