/* SPDX-License-Identifier: Apache-2.0 */
/* HEX(CLIENT LF OWNER [LF UNTIL]) "." HEX(HMAC-SHA256): no name of either kind has a line's end. */
#include "broker/e2b/e2b_token.h"

#include "base/clock.h"
#include "broker/auth/token.h"
#include "sessions/engine.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define WHOSE_MAX ((size_t)ENGINE_OWNER_MAX + 256) /* bytes of both names */

static const char *hex_of(const void *bytes, size_t length, struct arena *arena) {
        char *hex = arena_alloc(arena, 2 * length + 1);

        digest_hex(bytes, length, hex);
        return hex;
}

static void sign(const uint8_t key[SHA256_SIZE], enum e2b_token_kind kind, const struct broker_client *client,
                 const char *owner, const char *sandbox, struct arena *arena, uint8_t ret[SHA256_SIZE]) {
        const char *what =
                arena_printf(arena, "%s\n%s\n%s\n%s\n%s", kind == E2B_TOKEN_ACCESS ? "access" : "traffic",
                             sandbox, client->name, owner, hex_of(client->token_hash, SHA256_SIZE, arena));

        digest_hmac_sha256(key, SHA256_SIZE, what, strlen(what), ret);
}

const char *e2b_token_make(const uint8_t key[SHA256_SIZE], enum e2b_token_kind kind,
                           const struct broker_client *client, const char *owner, int64_t until_s,
                           const char *sandbox, struct arena *arena) {
        const char *whom = until_s ? arena_printf(arena, "%s\n%" PRId64, owner, until_s) : owner,
                   *whose = arena_printf(arena, "%s\n%s", client->name, whom);
        uint8_t mac[SHA256_SIZE];

        sign(key, kind, client, whom, sandbox, arena, mac);
        return arena_printf(arena, "%s.%s", hex_of(whose, strlen(whose), arena),
                            hex_of(mac, sizeof(mac), arena));
}

/* False if it is not hex of that length. */
static bool read_hex(const char *hex, size_t length, uint8_t *ret) {
        for (size_t i = 0; i < length; i++) {
                int high = digest_from_hex(hex[2 * i]), low = high < 0 ? -1 : digest_from_hex(hex[2 * i + 1]);

                if (low < 0)
                        return false;
                ret[i] = (uint8_t)(high << 4 | low);
        }
        return true;
}

/* Cuts the end off, of what was signed. One without an end may be of a version that gave such to clients of an issuer, too. */
static bool holds_still(const struct broker_client *client, char *owner) {
        char *end = strchr(owner, '\n');

        if (!end)
                return client->has_token;
        *end = '\0';
        return strtoll(end + 1, NULL, 10) > clock_wall_ms() / 1000;
}

bool e2b_token_check(const uint8_t key[SHA256_SIZE], enum e2b_token_kind kind, const struct door *door,
                     const char *token, const char *sandbox, struct arena *arena,
                     const struct broker_client **ret_client, const char **ret_owner) {
        size_t length = strcspn(token, ".");
        uint8_t said[SHA256_SIZE], mac[SHA256_SIZE];
        const struct broker_client *client;
        char *whose, *owner;

        if (length % 2 != 0 || length / 2 > WHOSE_MAX || token[length] != '.' ||
            strlen(token + length + 1) != (size_t)2 * SHA256_SIZE)
                return false;
        length /= 2;
        whose = arena_alloc(arena, length + 1);
        if (!read_hex(token, length, (uint8_t *)whose) ||
            !read_hex(token + 2 * length + 1, sizeof(said), said))
                return false;
        whose[length] = '\0';
        owner = strchr(whose, '\n');
        if (!owner)
                return false;
        *owner++ = '\0';
        client = door_client(door, whose);
        if (!client)
                return false;
        sign(key, kind, client, owner, sandbox, arena, mac);
        if (!token_is_same(said, mac) || !holds_still(client, owner))
                return false;
        *ret_client = client;
        *ret_owner = owner;
        return true;
}
