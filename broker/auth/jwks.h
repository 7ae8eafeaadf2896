/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public keys of an issuer of tokens: a JSON Web Key Set (RFC 7517). Pure. Of its keys those are taken that sign by RS256, ES256 or
 * EdDSA (Ed25519); all others, secret ones above all, are passed over.
 */
#ifndef BERTH_BROKER_AUTH_JWKS_H
#define BERTH_BROKER_AUTH_JWKS_H

#include "base/error.h"
#include "base/public_key.h"

#include <stddef.h>

#define JWKS_BYTES_MAX ((size_t)1 << 20)
#define JWKS_KEYS_MAX 100

struct jwks_key {
        char *id; /* its kid; NULL: it has none */
        struct public_key *key;
};

/* Any number of threads may read one. */
struct jwks {
        size_t count;
        struct jwks_key keys[JWKS_KEYS_MAX];
};

/* -1 where it is no such set, or has no key that can be used. */
int jwks_read(const char *text, size_t length, struct jwks **ret, struct error *err) MUST_USE;
/* The same of a file, which must not be writable by all users. */
int jwks_file(const char *path, struct jwks **ret, struct error *err) MUST_USE;
void jwks_free(struct jwks *jwks); /* NULL is fine */

#endif
