/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the manifest to what the server asks at each request; tokens become hashes, and invalid ones
 * are refused.
 */
#include "folder.h"

#include "broker/auth/config.h"

#include "broker/auth/token.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD "apiVersion: berth/v1\nkind: Server\nmetadata: {name: s}\nspec:\n"
#define TOKEN "0123456789abcdef"
#define TOKEN_HASH "9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f"

/* RFC 8037, A.2 */
#define KEYS                                               \
        "{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\"," \
        "\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}]}"

struct loaded {
        char folder[64];
        struct arena *arena;
        struct diagnostics diagnostics;
        struct broker_config config;
        struct error err;
        int result;
};

static int begin(void **state) {
        struct loaded *loaded = calloc(1, sizeof(*loaded));

        assert_non_null(loaded);
        folder_make_temporary(loaded->folder);
        loaded->arena = arena_new();
        folder_write(loaded->folder, "token", TOKEN "\n");
        folder_write(loaded->folder, "short", "0123456789abcde\n");
        folder_write(loaded->folder, "blank", "0123456789 abcdef\n");
        folder_write(loaded->folder, "keys", KEYS);
        folder_write(loaded->folder, "nothing", "{}");
        *state = loaded;
        return 0;
}

static int end(void **state) {
        struct loaded *loaded = *state;

        arena_free(loaded->arena);
        folder_remove(loaded->folder);
        free(loaded);
        return 0;
}

static void load(struct loaded *loaded, const char *text, bool elsewhere) {
        const char *path = arena_printf(loaded->arena, "%s/s.yaml", loaded->folder);

        folder_write(loaded->folder, "s.yaml", text);
        diagnostics_init(&loaded->diagnostics, loaded->arena);
        loaded->result = broker_config_load(path, elsewhere, loaded->arena, &loaded->config,
                                            &loaded->diagnostics, &loaded->err);
}

static void defaults(void **state) {
        struct loaded *loaded = *state;
        const char *stack = arena_printf(loaded->arena, "%s/.", loaded->folder);

        load(loaded, "apiVersion: berth/v1\nkind: Server\nmetadata: {name: s}\n", false);
        assert_int_equal(loaded->result, 0);
        assert_string_equal(loaded->config.name, "s");
        assert_string_equal(loaded->config.stack, stack);
        assert_string_equal(loaded->config.listen, "127.0.0.1:9471");
        assert_int_equal(loaded->config.host_count, 0);
        assert_int_equal(loaded->config.client_count, 0);
}

static void clients(void **state) {
        struct loaded *loaded = *state;
        const struct broker_client *client;
        uint8_t hash[SHA256_SIZE];

        load(loaded,
             HEAD
             "  stack: /usr\n  listen: 'off'\n  hosts: [a.example.com]\n  clients:\n"
             "  - {name: one, tokenFile: token, may: [execute, administer]}\n"
             "  - {name: two, realm: r, tokenSha256: "
             "00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00fe, actsFor: users, "
             "may: [containers, shell, observe], agents: [x], environments: [y, z], "
             "limits: {requestsPerSecond: 20, ownerRequestsPerSecond: 2, underWay: 8, ownerUnderWay: 3}}\n"
             "  - {name: three, may: [approve], jwt: {issuer: i, audience: b, jwksFile: keys, ownerClaim: sub}}\n",
             false);
        assert_int_equal(loaded->result, 0);
        assert_string_equal(loaded->config.stack, "/usr");
        assert_string_equal(loaded->config.listen, "");
        assert_string_equal(loaded->config.hosts[0], "a.example.com");
        assert_int_equal(loaded->config.client_count, 3);

        client = &loaded->config.clients[0];
        token_hash(TOKEN, hash);
        assert_string_equal(client->name, "one");
        assert_string_equal(client->realm, "one");
        assert_false(client->for_users);
        assert_int_equal(client->rights, BROKER_EXECUTE | BROKER_ADMINISTER);
        assert_true(client->has_token);
        assert_memory_equal(client->token_hash, hash, SHA256_SIZE);
        assert_null(client->agents);

        client = &loaded->config.clients[1];
        assert_string_equal(client->realm, "r");
        assert_true(client->for_users);
        assert_int_equal(client->rights, BROKER_CONTAINERS | BROKER_SHELL | BROKER_OBSERVE);
        assert_int_equal(client->token_hash[0], 0);
        assert_int_equal(client->token_hash[1], 0xff);
        assert_int_equal(client->token_hash[31], 0xfe);
        assert_int_equal(client->environments->count, 2);
        assert_int_equal(client->limits.per_second, 20);
        assert_int_equal(client->limits.owner_per_second, 2);
        assert_int_equal(client->limits.under_way, 8);
        assert_int_equal(client->limits.owner_under_way, 3);

        client = &loaded->config.clients[2];
        assert_true(client->for_users);
        assert_false(client->has_token);
        assert_string_equal(client->jwt.issuer, "i");
        assert_string_equal(client->jwt.audience, "b");
        assert_string_equal(client->jwt.owner_claim, "sub");
        assert_non_null(client->jwt.keys_file);
        assert_null(client->jwt.keys_url);
}

/* What the manifest does not say is what the schema tells people. */
static void usual_limits(void **state) {
        static const char *const entries[] = { "", ", limits: {}", ", limits: {ownerRequestsPerSecond: 7}" };
        const struct broker_limits usual = BROKER_LIMITS_INIT;
        struct loaded *loaded = *state;

        for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
                const struct broker_limits *limits;

                load(loaded,
                     arena_printf(loaded->arena,
                                  HEAD "  clients: [{name: a, tokenFile: token, may: [execute]%s}]\n",
                                  entries[i]),
                     false);
                assert_int_equal(loaded->result, 0);
                limits = &loaded->config.clients[0].limits;
                assert_int_equal(limits->per_second, usual.per_second);
                assert_int_equal(limits->under_way, usual.under_way);
                assert_int_equal(limits->owner_under_way, usual.owner_under_way);
                assert_int_equal(limits->owner_per_second, i == 2 ? 7 : 0);
        }
}

static void refused(void **state) {
        static const struct {
                const char *text, *says;
        } cases[] = {
                { HEAD "  clients: [{name: a, tokenFile: missing, may: [execute]}]\n", "tokenFile: " },
                { HEAD
                  "  clients: [{name: a, may: [execute], jwt: {issuer: i, audience: b, jwksFile: nothing}}]\n",
                  "jwksFile: " },
                { HEAD
                  "  clients: [{name: a, may: [execute], jwt: {issuer: i, audience: b, jwksFile: keys}}, "
                  "{name: c, may: [execute], jwt: {issuer: i, audience: b, jwksUrl: 'https://i/k'}}]\n",
                  "c has the same issuer and audience as a" },
                { HEAD "  clients: [{name: a, tokenFile: short, may: [execute]}]\n",
                  "has fewer than 16 characters" },
                { HEAD "  clients: [{name: a, tokenFile: blank, may: [execute]}]\n",
                  "has a character that no token may have" },
                { HEAD "  clients: [{name: a, tokenFile: ., may: [execute]}]\n", "is no file" },
                { HEAD
                  "  clients: [{name: a, tokenFile: token, may: [execute]}, {name: b, may: [execute], tokenSha256: " TOKEN_HASH
                  "}]\n",
                  "b has the same token as a" },
                { HEAD
                  "  clients: [{name: a, may: [execute], jwt: {issuer: i, audience: b, jwksFile: none}}]\n",
                  "jwksFile: " },
                { HEAD "  tls: {certFile: keys, keyFile: none}\n", "keyFile: " },
                { HEAD "  stack: none\n", "stack: " },
        };
        struct loaded *loaded = *state;

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                load(loaded, cases[i].text, false);
                if (loaded->result == 0 || loaded->diagnostics.count != 1 ||
                    !strstr(loaded->diagnostics.items[0].message, cases[i].says))
                        fail_msg("%s\nexpected: %s\nsaid: %s", cases[i].text, cases[i].says,
                                 loaded->diagnostics.count ? loaded->diagnostics.items[0].message : "");
                assert_int_equal(loaded->err.kind, ERROR_DIAGNOSED);
                assert_null(strstr(loaded->diagnostics.items[0].message, "0123456789"));
        }
}

/* Checked where it does not run: its secrets are not here, and nothing else is forgiven. */
static void elsewhere(void **state) {
        struct loaded *loaded = *state;

        load(loaded, HEAD "  clients: [{name: a, tokenFile: missing, may: [execute]}]\n", true);
        assert_int_equal(loaded->result, 0);
        assert_int_equal(loaded->diagnostics.count, 1);
        assert_int_equal(loaded->diagnostics.items[0].severity, SEVERITY_WARNING);
        load(loaded, HEAD "  clients: [{name: a, tokenFile: short, may: [execute]}]\n", true);
        assert_int_equal(loaded->result, -1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(defaults, begin, end),
                cmocka_unit_test_setup_teardown(clients, begin, end),
                cmocka_unit_test_setup_teardown(usual_limits, begin, end),
                cmocka_unit_test_setup_teardown(refused, begin, end),
                cmocka_unit_test_setup_teardown(elsewhere, begin, end),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
