/* SPDX-License-Identifier: Apache-2.0 */
/* Signatures: those of others, with the public keys that they are checked by, and own ones. By OpenSSL's libcrypto. Keys are read by any number of threads. */
#ifndef BERTH_BASE_PUBLIC_KEY_H
#define BERTH_BASE_PUBLIC_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum public_key_kind {
        PUBLIC_KEY_RSA,    /* PKCS #1 1.5 with SHA-256: RS256 (RFC 7518, 3.3) */
        PUBLIC_KEY_P256,   /* ECDSA on P-256 with SHA-256: ES256 (RFC 7518, 3.4) */
        PUBLIC_KEY_ED25519 /* EdDSA (RFC 8037, 3.1) */
};

#define PUBLIC_KEY_RSA_MIN 256 /* bytes of the modulus: fewer can be broken */
#define PUBLIC_KEY_RSA_MAX 1024
#define PUBLIC_KEY_COORDINATE 32 /* bytes of P-256's numbers, and of an Ed25519 key */

struct public_key;

/*
 * Numbers are big-endian, without a sign. RSA: modulus and exponent. P-256: x and y, PUBLIC_KEY_COORDINATE bytes each. Ed25519: the
 * key, and NULL. NULL where they are no key that one should trust: too small or too large, no point of the curve.
 */
struct public_key *public_key_new(enum public_key_kind kind, const uint8_t *first, size_t first_length,
                                  const uint8_t *second, size_t second_length);
void public_key_free(struct public_key *key); /* NULL is fine */
enum public_key_kind public_key_kind(const struct public_key *key);

/* Whether it is the signature of the bytes, in the form that JSON Web Signatures have: of ECDSA two numbers of 32 bytes. */
bool public_key_verifies(const struct public_key *key, const void *bytes, size_t length,
                         const uint8_t *signature, size_t signature_length);

/* A private key of P-256 with its public one: signs by ES256. */
struct public_key_pair;

/* From PEM, unencrypted (RFC 5915 or PKCS #8). NULL where it is no such key. */
struct public_key_pair *public_key_pair_new(const char *pem, size_t length);
void public_key_pair_free(struct public_key_pair *pair); /* NULL is fine */
/* The public key: x and y, as public_key_new() takes them. */
void public_key_pair_point(const struct public_key_pair *pair, uint8_t x[PUBLIC_KEY_COORDINATE],
                           uint8_t y[PUBLIC_KEY_COORDINATE]);
/* The signature of the bytes, in the form that public_key_verifies() takes. */
void public_key_pair_sign(const struct public_key_pair *pair, const void *bytes, size_t length,
                          uint8_t signature[2 * PUBLIC_KEY_COORDINATE]);

#endif
