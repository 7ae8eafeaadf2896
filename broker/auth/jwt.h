/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON Web Tokens (RFC 7519) as they come in Authorization: three parts in base64url, signed (RFC
 * 7515). Pure. Nothing that such a token says of itself is trusted: the algorithm is its key's;
 * keys that it carries or whose address it names are ignored; a token that demands something
 * unknown (crit, b64) is invalid (RFC 8725).
 *
 *     jwt_read() -> jwt_is_of(): whose it says to be -> jwt_verify(): whether that is so -> jwt_check_times() -> jwt_claim()
 */
#ifndef BERTH_BROKER_AUTH_JWT_H
#define BERTH_BROKER_AUTH_JWT_H

#include "base/arena.h"
#include "broker/auth/jwks.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define JWT_SKEW_S 60 /* that two clocks may differ */

struct jwt {
        const char *signed_text; /* borrowed: what the signature is of */
        size_t signed_length;
        uint8_t *signature; /* in the arena */
        size_t signature_length;
        enum public_key_kind kind;
        json_t *header, *claims;
};

/* False for a token that cannot be verified here, by any key. `token` must outlive it. */
bool jwt_read(const char *token, struct arena *arena, struct jwt *ret) MUST_USE;
void jwt_release(struct jwt *jwt);
#define JWT_CLEANUP __attribute__((cleanup(jwt_release)))

/* Whether it says to be of that issuer, and for that audience. */
bool jwt_is_of(const struct jwt *jwt, const char *issuer, const char *audience);

enum jwt_verdict {
        JWT_GOOD,
        JWT_FORGED,     /* its key is known, and did not sign it */
        JWT_UNKNOWN_KEY /* signed by none of these keys: there may be newer ones */
};
enum jwt_verdict jwt_verify(const struct jwt *jwt, const struct jwks *jwks);

/* NULL where it is valid now; otherwise the reason, in words for its holder. */
const char *jwt_check_times(const struct jwt *jwt, int64_t now_s);
/* Until when jwt_check_times() says so, at most. */
int64_t jwt_until_s(const struct jwt *jwt);
/* A claim that is text; NULL if absent. */
const char *jwt_claim(const struct jwt *jwt, const char *name);

#endif
