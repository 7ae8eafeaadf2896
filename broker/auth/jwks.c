/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/auth/jwks.h"

#include "base/digest.h"
#include "base/files.h"
#include "base/json.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DEPTH_MAX 16
#define VALUES_MAX 20000
#define NUMBER_MAX 1100 /* bytes: of a modulus, with zeros in front of it */

/* A member that is base64url: how many bytes; 0 if it is not base64url, or too long. */
static size_t read_number(const json_t *key, const char *name, uint8_t ret[NUMBER_MAX]) {
        const char *text = json_text(key, name);
        size_t length = text ? strlen(text) : 0;
        ssize_t count =
                length > 0 && length <= NUMBER_MAX / 3 * 4 ? digest_from_base64url(text, length, ret) : -1;

        return count > 0 ? (size_t)count : 0;
}

/* Where a member is there, it must say this. */
static bool agrees(const json_t *key, const char *name, const char *wanted) {
        const json_t *value = json_object_get(key, name);

        return !value || (json_is_string(value) && strcmp(json_string_value(value), wanted) == 0);
}

static bool is_for_verifying(const json_t *key) {
        const json_t *operations = json_object_get(key, "key_ops"), *operation;
        size_t i;

        if (!agrees(key, "use", "sig"))
                return false;
        json_array_foreach (operations, i, operation) {
                if (json_is_string(operation) && strcmp(json_string_value(operation), "verify") == 0)
                        return true;
        }
        return !operations;
}

/*
 * NULL if this key cannot be used here. The kind is the key's own: no token can have it used as
 * another.
 */
static struct public_key *read_key(const json_t *json) {
        static const struct {
                const char *type, *curve, *algorithm, *first, *second;
                enum public_key_kind kind;
        } rows[] = {
                { "RSA", NULL, "RS256", "n", "e", PUBLIC_KEY_RSA },
                { "EC", "P-256", "ES256", "x", "y", PUBLIC_KEY_P256 },
                { "OKP", "Ed25519", "EdDSA", "x", NULL, PUBLIC_KEY_ED25519 },
        };
        const char *type = json_text(json, "kty"), *curve = json_text(json, "crv");
        uint8_t first[NUMBER_MAX], second[NUMBER_MAX];

        for (size_t i = 0; type && i < sizeof(rows) / sizeof(rows[0]); i++) {
                size_t first_length, second_length = 0;
                bool is_meant = agrees(json, "alg", rows[i].algorithm) ||
                                (rows[i].curve && agrees(json, "alg", rows[i].curve)); /* RFC 9864 */

                if (strcmp(type, rows[i].type) != 0 || !is_meant ||
                    (rows[i].curve && (!curve || strcmp(curve, rows[i].curve) != 0)))
                        continue;
                first_length = read_number(json, rows[i].first, first);
                if (rows[i].second)
                        second_length = read_number(json, rows[i].second, second);
                return first_length > 0 && (!rows[i].second || second_length > 0)
                               ? public_key_new(rows[i].kind, first, first_length, second, second_length)
                               : NULL;
        }
        return NULL;
}

static void add_key(struct jwks *jwks, const json_t *json) {
        const json_t *id = json_object_get(json, "kid");
        struct public_key *key;

        if (!json_is_object(json) || !is_for_verifying(json) || (id && !json_is_string(id)) ||
            !(key = read_key(json)))
                return;
        jwks->keys[jwks->count] = (struct jwks_key){ id ? strdup(json_string_value(id)) : NULL, key };
        if (id && !jwks->keys[jwks->count].id)
                abort();
        jwks->count++;
}

int jwks_read(const char *text, size_t length, struct jwks **ret, struct error *err) {
        struct json_extent extent = json_measure(text, length);
        json_t *json JSON_CLEANUP = NULL;
        const json_t *keys, *key;
        struct jwks *jwks;
        size_t i;

        if (length <= JWKS_BYTES_MAX && extent.depth <= DEPTH_MAX && extent.values <= VALUES_MAX)
                json = json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL);
        keys = json_object_get(json, "keys");
        if (!json_is_array(keys))
                return error_set(err, "it is no JSON Web Key Set: an object with a list `keys`");
        if (json_array_size(keys) > JWKS_KEYS_MAX)
                return error_set(err, "it has more than %d keys", JWKS_KEYS_MAX);
        if (!(jwks = calloc(1, sizeof(*jwks))))
                abort();
        json_array_foreach (keys, i, key)
                add_key(jwks, key);
        if (jwks->count == 0) {
                jwks_free(jwks);
                return error_set(
                        err, "it has no key for RS256 (of 2,048 bits and more), ES256 or EdDSA (Ed25519)");
        }
        *ret = jwks;
        return 0;
}

/* A user who can write the file can sign any token. */
int jwks_file(const char *path, struct jwks **ret, struct error *err) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct stat status;

        if (stat(path, &status) == 0 && status.st_mode & S_IWOTH)
                return error_set(err,
                                 "every user of this machine may write %s, and so sign tokens: chmod o-w %s",
                                 path, path);
        if (file_read(path, JWKS_BYTES_MAX, &text, err) < 0)
                return -1;
        return jwks_read(strbuf_text(&text), text.length, ret, err) < 0 ? error_context(err, "%s", path) : 0;
}

void jwks_free(struct jwks *jwks) {
        if (!jwks)
                return;
        for (size_t i = 0; i < jwks->count; i++) {
                free(jwks->keys[i].id);
                public_key_free(jwks->keys[i].key);
        }
        free(jwks);
}
