/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HMAC over a body that comes in pieces, which digest_hmac_sha256() cannot do: the inner hash is fed as the body
 * comes, the outer one at the end.
 */
#include "gitops/signature.h"

#include <string.h>

#define BLOCK 64 /* of SHA-256 */

/* RFC 2104: H(key ^ opad, H(key ^ ipad, text)), where a key longer than a block is its hash. */
void signature_begin(struct signature *signature, const char *secret) {
        uint8_t key[BLOCK] = { 0 };
        size_t length = strlen(secret);

        if (length > BLOCK)
                digest_sha256(secret, length, key);
        for (size_t i = 0; length <= BLOCK && i < length; i++)
                key[i] = (uint8_t)secret[i];
        for (size_t i = 0; i < BLOCK; i++) {
                signature->outer_key[i] = key[i] ^ 0x5c;
                key[i] ^= 0x36;
        }
        signature->inner = digest_stream_new();
        digest_stream_add(signature->inner, key, BLOCK);
        explicit_bzero(key, sizeof(key));
}

void signature_add(struct signature *signature, const void *data, size_t length) {
        digest_stream_add(signature->inner, data, length);
}

void signature_end(struct signature *signature, char hex[SHA256_HEX_SIZE]) {
        char inner[SHA256_HEX_SIZE];
        uint8_t text[BLOCK + SHA256_SIZE];

        if (!signature->inner)
                return;
        digest_stream_end(signature->inner, hex ? inner : NULL);
        if (hex) {
                memcpy(text, signature->outer_key, BLOCK);
                for (size_t i = 0; i < SHA256_SIZE; i++)
                        text[BLOCK + i] = (uint8_t)(digest_from_hex(inner[2 * i]) << 4 |
                                                    digest_from_hex(inner[2 * i + 1]));
                digest_sha256_hex(text, sizeof(text), hex);
                explicit_bzero(text, sizeof(text));
        }
        explicit_bzero(signature, sizeof(*signature));
}

bool signature_same(const char *text, const char *other) {
        uint8_t hash[SHA256_SIZE], other_hash[SHA256_SIZE];
        volatile uint8_t different = 0;

        /* By their hashes: so that neither the place of the first difference nor the length can be measured. */
        digest_sha256(text, strlen(text), hash);
        digest_sha256(other, strlen(other), other_hash);
        for (size_t i = 0; i < SHA256_SIZE; i++)
                different = (uint8_t)(different | (hash[i] ^ other_hash[i]));
        return different == 0;
}
