/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/auth/jwt.h"

#include "base/digest.h"
#include "base/json.h"

#include <string.h>
#include <strings.h>

#define LATEST_S ((int64_t)1 << 40)
#define DEPTH_MAX 16
#define VALUES_MAX 2000
#define TRIES_MAX 8 /* of keys, for one token: a signature takes longer to check than all else */
#define RSA_SIGNATURE_MAX PUBLIC_KEY_RSA_MAX

/*
 * One part, up to `end`, as the JSON object that it is; NULL if it is not an object, or two
 * programs may read it differently.
 */
static json_t *read_part(const char *text, const char *end, struct arena *arena) {
        size_t length = (size_t)(end - text);
        char *bytes = arena_alloc(arena, length + 1);
        ssize_t count = digest_from_base64url(text, length, (uint8_t *)bytes);
        struct json_extent extent;
        json_t *json;

        if (count < 0)
                return NULL;
        extent = json_measure(bytes, (size_t)count);
        if (extent.depth > DEPTH_MAX || extent.values > VALUES_MAX)
                return NULL;
        json = json_loadb(bytes, (size_t)count, JSON_REJECT_DUPLICATES, NULL);
        if (json_is_object(json))
                return json;
        json_decref(json);
        return NULL;
}

/* Tokens of other uses (a DPoP proof, a logout) are signed by the same keys, and say in `typ` what they are (RFC 8725, 3.11). */
static bool is_for_access(const json_t *header) {
        static const char *const types[] = { "JWT", "at+jwt", "application/jwt", "application/at+jwt" };
        const json_t *type = json_object_get(header, "typ");

        for (size_t i = 0; json_is_string(type) && i < sizeof(types) / sizeof(types[0]); i++) {
                if (strcasecmp(json_string_value(type), types[i]) == 0)
                        return true;
        }
        return !type;
}

/*
 * The algorithm that the header names: only to find the key, whose kind it must be. Names are to
 * the letter.
 */
static bool read_header(const json_t *header, enum public_key_kind *ret) {
        static const struct {
                const char *name;
                enum public_key_kind kind;
        } rows[] = {
                { "RS256", PUBLIC_KEY_RSA },
                { "ES256", PUBLIC_KEY_P256 },
                { "EdDSA", PUBLIC_KEY_ED25519 },
                { "Ed25519", PUBLIC_KEY_ED25519 }, /* its name since RFC 9864 */
        };
        /* Other forms of tokens; and keys that it brings along, or says where to find. */
        static const char *const refused[] = { "crit", "b64", "enc", "zip", "jwk", "jku", "x5c", "x5u" };
        const char *algorithm = json_text(header, "alg");
        const json_t *id = json_object_get(header, "kid");

        if (!algorithm || (id && !json_is_string(id)) || !is_for_access(header))
                return false;
        for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
                if (json_object_get(header, refused[i]))
                        return false;
        }
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                if (strcmp(algorithm, rows[i].name) != 0)
                        continue;
                *ret = rows[i].kind;
                return true;
        }
        return false;
}

bool jwt_read(const char *token, struct arena *arena, struct jwt *ret) {
        const char *first = strchr(token, '.'), *second = first ? strchr(first + 1, '.') : NULL;
        struct jwt jwt = { .signed_text = token };
        size_t length;
        ssize_t count;

        if (!second || strchr(second + 1, '.'))
                return false;
        length = strlen(second + 1);
        if (length == 0 || length > RSA_SIGNATURE_MAX / 3 * 4 + 4)
                return false;
        jwt.signature = arena_alloc(arena, length);
        if ((count = digest_from_base64url(second + 1, length, jwt.signature)) < 0)
                return false;
        jwt.signed_length = (size_t)(second - token);
        jwt.signature_length = (size_t)count;
        jwt.header = read_part(token, first, arena);
        jwt.claims = jwt.header ? read_part(first + 1, second, arena) : NULL;
        if (!jwt.claims || !read_header(jwt.header, &jwt.kind)) {
                jwt_release(&jwt);
                return false;
        }
        *ret = jwt;
        return true;
}

void jwt_release(struct jwt *jwt) {
        json_decref(jwt->header);
        json_decref(jwt->claims);
        jwt->header = jwt->claims = NULL;
}

/* RFC 7519, 4.1.3: one text, or a list of texts. */
static bool is_for(const json_t *audience, const char *wanted) {
        const json_t *one;
        bool found = false;
        size_t i;

        if (json_is_string(audience))
                return strcmp(json_string_value(audience), wanted) == 0;
        json_array_foreach (audience, i, one) {
                if (!json_is_string(one))
                        return false;
                found |= strcmp(json_string_value(one), wanted) == 0;
        }
        return found;
}

bool jwt_is_of(const struct jwt *jwt, const char *issuer, const char *audience) {
        const char *given = json_text(jwt->claims, "iss");

        return given && strcmp(given, issuer) == 0 && is_for(json_object_get(jwt->claims, "aud"), audience);
}

/* A key without an id may be any token's; a token without one is tried with each. */
enum jwt_verdict jwt_verify(const struct jwt *jwt, const struct jwks *jwks) {
        const char *id = json_text(jwt->header, "kid");
        bool is_known = false;
        size_t tries = 0;

        for (size_t i = 0; i < jwks->count && tries < TRIES_MAX; i++) {
                const struct jwks_key *key = &jwks->keys[i];
                bool named = id && key->id && strcmp(id, key->id) == 0;

                is_known |= named;
                if (public_key_kind(key->key) != jwt->kind || (id && key->id && !named))
                        continue;
                tries++;
                if (public_key_verifies(key->key, jwt->signed_text, jwt->signed_length, jwt->signature,
                                        jwt->signature_length))
                        return JWT_GOOD;
        }
        return is_known ? JWT_FORGED : JWT_UNKNOWN_KEY;
}

const char *jwt_check_times(const struct jwt *jwt, int64_t now_s) {
        const json_t *expires = json_object_get(jwt->claims, "exp"),
                     *begins = json_object_get(jwt->claims, "nbf");

        if (!json_is_number(expires))
                return "the token does not say until when it is valid (exp)";
        if (begins && !json_is_number(begins))
                return "the token does not say from when on it is valid (nbf)";
        if (json_number_value(expires) <= (double)(now_s - JWT_SKEW_S))
                return "the token has expired";
        if (begins && json_number_value(begins) > (double)(now_s + JWT_SKEW_S))
                return "the token is not valid yet";
        return NULL;
}

int64_t jwt_until_s(const struct jwt *jwt) {
        double seconds = json_number_value(json_object_get(jwt->claims, "exp")) + JWT_SKEW_S;

        return seconds < LATEST_S ? (int64_t)seconds : LATEST_S;
}

const char *jwt_claim(const struct jwt *jwt, const char *name) {
        return json_text(jwt->claims, name);
}
