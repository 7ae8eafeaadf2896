/* SPDX-License-Identifier: Apache-2.0 */
#include "base/digest.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <stdlib.h>

static void compute(const EVP_MD *type, const void *data, size_t length, uint8_t *result) {
        if (EVP_Digest(data, length, result, NULL, type, NULL) != 1)
                abort();
}

void digest_sha256(const void *data, size_t length, uint8_t digest[SHA256_SIZE]) {
        compute(EVP_sha256(), data, length, digest);
}

void digest_sha256_hex(const void *data, size_t length, char hex[SHA256_HEX_SIZE]) {
        uint8_t result[SHA256_SIZE];

        digest_sha256(data, length, result);
        digest_hex(result, sizeof(result), hex);
}

void digest_sha1(const void *data, size_t length, uint8_t digest[SHA1_SIZE]) {
        compute(EVP_sha1(), data, length, digest);
}

void digest_md5(const void *data, size_t length, uint8_t digest[MD5_SIZE]) {
        compute(EVP_md5(), data, length, digest);
}

void digest_hmac_sha256(const void *key, size_t key_length, const void *data, size_t length,
                        uint8_t mac[SHA256_SIZE]) {
        unsigned int size = SHA256_SIZE;

        if (!HMAC(EVP_sha256(), key, (int)key_length, data, length, mac, &size) || size != SHA256_SIZE)
                abort();
}

/* Only ever seen through casts: the library's context, named so that its header stays in here. */
struct digest_stream *digest_stream_new(void) {
        EVP_MD_CTX *context = EVP_MD_CTX_new();

        if (!context || EVP_DigestInit_ex(context, EVP_sha256(), NULL) != 1)
                abort();
        return (struct digest_stream *)context;
}

void digest_stream_add(struct digest_stream *stream, const void *data, size_t length) {
        if (EVP_DigestUpdate((EVP_MD_CTX *)stream, data, length) != 1)
                abort();
}

void digest_stream_end(struct digest_stream *stream, char hex[SHA256_HEX_SIZE]) {
        uint8_t result[SHA256_SIZE];

        if (hex) {
                if (EVP_DigestFinal_ex((EVP_MD_CTX *)stream, result, NULL) != 1)
                        abort();
                digest_hex(result, sizeof(result), hex);
        }
        EVP_MD_CTX_free((EVP_MD_CTX *)stream);
}

void digest_hex(const uint8_t *bytes, size_t length, char *hex) {
        static const char digits[] = "0123456789abcdef";

        for (size_t i = 0; i < length; i++) {
                hex[2 * i] = digits[bytes[i] >> 4];
                hex[2 * i + 1] = digits[bytes[i] & 15];
        }
        hex[2 * length] = '\0';
}

void digest_base64(const uint8_t *bytes, size_t length, char *text) {
        EVP_EncodeBlock((unsigned char *)text, bytes, (int)length);
}

void random_bytes(void *bytes, size_t length) {
        if (RAND_bytes(bytes, (int)length) != 1)
                abort();
}

double random_unit(void) {
        uint32_t bits;

        random_bytes(&bits, sizeof(bits));
        return (double)bits / 4294967296.0;
}
