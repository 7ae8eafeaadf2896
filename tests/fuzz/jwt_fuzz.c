/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A key set and tokens, in parts: the set, a token as it comes, the header and the claims of one that is signed here. The key that signs
 * is the example of RFC 8037: no token is good by another's, or once a bit of it is another, whatever it says of itself; and
 * what a good one says of its times and its owner holds.
 */
#include "base/digest.h"
#include "base/json.h"
#include "base/text.h"
#include "broker/auth/door.h"
#include "broker/auth/jwt.h"
#include "parts.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#define OWN_SET                                                          \
        "{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"k\"," \
        "\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}]}"
#define OWN_SECRET "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"
#define SIGNATURE 64

static void require(bool condition) {
        if (!condition)
                abort();
}

static char *encode(const void *bytes, size_t length, struct arena *arena) {
        char *text = arena_alloc(arena, 4 * ((length + 2) / 3) + 1);

        digest_base64(bytes, length, text);
        for (char *at = text; *at; at++)
                *at = *at == '+' ? '-' : *at == '/' ? '_' : *at == '=' ? '\0' : *at;
        return text;
}

static const char *sign(const char *text, struct arena *arena) {
        uint8_t secret[48], signature[SIGNATURE];
        size_t length = sizeof(signature);
        EVP_MD_CTX *context = EVP_MD_CTX_new();
        EVP_PKEY *key;

        require(digest_from_base64url(OWN_SECRET, strlen(OWN_SECRET), secret) == 32);
        key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, secret, 32);
        require(context && key && EVP_DigestSignInit(context, NULL, NULL, NULL, key) == 1 &&
                EVP_DigestSign(context, signature, &length, (const uint8_t *)text, strlen(text)) == 1);
        EVP_MD_CTX_free(context);
        EVP_PKEY_free(key);
        return arena_printf(arena, "%s.%s", text, encode(signature, length, arena));
}

static struct jwks *read_set(const char *text, size_t length) {
        struct jwks *jwks = NULL;
        struct error err = { 0 };

        if (jwks_read(text, length, &jwks, &err) < 0) {
                require(!jwks && err.message[0]);
                return NULL;
        }
        require(jwks->count >= 1 && jwks->count <= JWKS_KEYS_MAX);
        for (size_t i = 0; i < jwks->count; i++)
                require(jwks->keys[i].key && public_key_kind(jwks->keys[i].key) <= PUBLIC_KEY_ED25519);
        return jwks;
}

/* A token that was good is so by these bytes alone. */
static void check_bits(const struct jwt *jwt, const struct jwks *jwks, struct arena *arena) {
        struct jwt other = *jwt;
        char *text = arena_strndup(arena, jwt->signed_text, jwt->signed_length);

        text[jwt->signed_length / 2] ^= 1;
        other.signed_text = text;
        require(jwt_verify(&other, jwks) != JWT_GOOD);
        other.signed_text = jwt->signed_text;
        other.signature = arena_alloc(arena, jwt->signature_length);
        memcpy(other.signature, jwt->signature, jwt->signature_length);
        other.signature[jwt->signature_length - 1] ^= 1;
        require(jwt_verify(&other, jwks) != JWT_GOOD);
        other.signature[jwt->signature_length - 1] ^= 1;
        other.signature_length--;
        require(jwt_verify(&other, jwks) != JWT_GOOD);
        for (enum public_key_kind kind = PUBLIC_KEY_RSA; kind <= PUBLIC_KEY_ED25519; kind++) {
                other = *jwt;
                other.kind = kind;
                require(kind == jwt->kind || jwt_verify(&other, jwks) != JWT_GOOD);
        }
}

static void check_claims(const struct jwt *jwt) {
        static const int64_t times[] = { 0, 1000, 1700000000, 1900000000, 4000000000 };
        const json_t *expires = json_object_get(jwt->claims, "exp");
        unsigned runs = 0;
        bool before = false;

        /* Valid from some time on until some time: never again once it has expired. */
        for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
                const char *why = jwt_check_times(jwt, times[i]);

                require(why ? *why
                            : json_is_number(expires) &&
                                        json_number_value(expires) > (double)times[i] - JWT_SKEW_S);
                runs += !why && !before;
                before = !why;
        }
        require(runs <= 1);
        if (jwt_is_of(jwt, "i", "a"))
                require(strcmp(json_text(jwt->claims, "iss"), "i") == 0 &&
                        json_object_get(jwt->claims, "aud"));
        require(!jwt_is_of(jwt, "another issuer", "another audience") ||
                strstr(json_text(jwt->claims, "iss"), "another"));
        if (jwt_claim(jwt, "sub") && door_is_owner_name(jwt_claim(jwt, "sub"))) {
                const char *name = jwt_claim(jwt, "sub");

                require(text_characters(name, strlen(name)) <= DOOR_OWNER_CHARACTERS);
                for (; *name; name++)
                        require((unsigned char)*name >= ' ' && *name != 0x7f);
        }
}

/* A token that is read has three parts and says one of the four names; what is behind it makes it another. */
static bool check_token(const char *token, const struct jwks *jwks, struct arena *arena) {
        static const char *const names[] = { "RS256", "ES256", "EdDSA", "Ed25519" };
        struct jwt jwt JWT_CLEANUP = { 0 }, again JWT_CLEANUP = { 0 };
        const char *algorithm;
        bool is_good, is_named = false;

        if (!jwt_read(token, arena, &jwt))
                return false;
        algorithm = json_text(jwt.header, "alg");
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                is_named |= strcmp(algorithm, names[i]) == 0;
        require(is_named && json_is_object(jwt.claims) && jwt.signature_length > 0 &&
                jwt.signed_length < strlen(token));
        require(!jwt_read(arena_printf(arena, "%s.", token), arena, &again));
        require(!jwt_read(arena_printf(arena, "%s=", token), arena, &again));
        require(!jwt_read(arena_printf(arena, " %s", token), arena, &again));
        is_good = jwks && jwt_verify(&jwt, jwks) == JWT_GOOD;
        if (is_good)
                check_bits(&jwt, jwks, arena);
        check_claims(&jwt);
        return is_good;
}

/*
 * A token that is signed here is good where it says that it is by such a key, and has the key's
 * name or none; no other set verifies it, except one with the key.
 */
static void check_signed(const char *header, size_t header_length, const char *claims, size_t claims_length,
                         const struct jwks *own, struct arena *arena) {
        const char *text = arena_printf(arena, "%s.%s", encode(header, header_length, arena),
                                        encode(claims, claims_length, arena));
        const char *token = sign(text, arena), *algorithm, *id;
        struct jwt jwt JWT_CLEANUP = { 0 };

        if (!check_token(token, own, arena)) {
                if (!jwt_read(token, arena, &jwt))
                        return;
                algorithm = json_text(jwt.header, "alg");
                id = json_text(jwt.header, "kid");
                require((strcmp(algorithm, "EdDSA") != 0 && strcmp(algorithm, "Ed25519") != 0) ||
                        (id && strcmp(id, "k") != 0));
                return;
        }
        require(jwt_read(token, arena, &jwt) && jwt.kind == PUBLIC_KEY_ED25519);
        id = json_text(jwt.header, "kid");
        require(!id || strcmp(id, "k") == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct parts parts = parts_of(data, size);
        size_t set_length, header_length, claims_length;
        char *set = parts_next(&parts, &set_length), *token = parts_next_text(&parts),
             *header = parts_next(&parts, &header_length), *claims = parts_next(&parts, &claims_length);
        struct jwks *jwks = read_set(set, set_length), *own = read_set(OWN_SET, strlen(OWN_SET));

        require(own != NULL);
        token[strcspn(token, "\n")] = '\0';
        (void)check_token(token, jwks, arena);
        check_signed(header, header_length, claims, claims_length, own, arena);
        jwks_free(jwks);
        jwks_free(own);
        free(set);
        free(token);
        free(header);
        free(claims);
        return 0;
}
