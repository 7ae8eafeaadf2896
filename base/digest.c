/* SPDX-License-Identifier: Apache-2.0 */
#include "base/digest.h"

#include "base/library.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/params.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CRYPTO_SYMBOLS(X)     \
        X(EVP_Digest)         \
        X(EVP_DigestFinal_ex) \
        X(EVP_DigestInit_ex)  \
        X(EVP_DigestUpdate)   \
        X(EVP_MD_CTX_free)    \
        X(EVP_MD_CTX_new)     \
        X(EVP_MD_fetch)       \
        X(EVP_MAC_CTX_free)   \
        X(EVP_MAC_CTX_new)    \
        X(EVP_MAC_fetch)      \
        X(EVP_MAC_final)      \
        X(EVP_MAC_free)       \
        X(EVP_MAC_init)       \
        X(EVP_MAC_update)     \
        X(ERR_clear_error)    \
        X(HMAC)

CRYPTO_SYMBOLS(LIBRARY_POINTER)
static const struct library_symbol crypto_symbols[] = { CRYPTO_SYMBOLS(LIBRARY_SYMBOL) };
static struct library crypto = LIBRARY(CRYPTO_SONAME, "libssl3", "hashes", crypto_symbols);

/*
 * Fetched once: OpenSSL 3 looks a digest up again at each use of EVP_sha256(), which takes as long
 * as a small one.
 */
static EVP_MD *sha256_fetched, *sha1_fetched, *md5_fetched;
static pthread_once_t fetched_once = PTHREAD_ONCE_INIT;

/*
 * "-fips" takes back what a default property, fips=yes, demands: a provider that is loaded beside
 * the FIPS one may then serve what is not for security. If none is loaded there is no such hash,
 * and its error must not reach the next user of libcrypto in the same thread, such as libcurl.
 */
static void fetch_digests(void) {
        sha256_fetched = sym_EVP_MD_fetch(NULL, "SHA256", NULL);
        sha1_fetched = sym_EVP_MD_fetch(NULL, "SHA1", "-fips");
        md5_fetched = sym_EVP_MD_fetch(NULL, "MD5", "-fips");
        sym_ERR_clear_error();
        if (sha256_fetched)
                return;
        fputs("error: OpenSSL has no SHA-256, without which Berth cannot work: look at OPENSSL_CONF, or "
              "/etc/ssl/openssl.cnf, for the providers that it loads\n",
              stderr);
        _exit(EXIT_FAILURE);
}

static const EVP_MD *sha256(void) {
        pthread_once(&fetched_once, fetch_digests);
        return sha256_fetched;
}

static void compute(const EVP_MD *type, const void *data, size_t length, uint8_t *result) {
        if (sym_EVP_Digest(data, length, result, NULL, type, NULL) != 1)
                abort();
}

void digest_sha256(const void *data, size_t length, uint8_t digest[SHA256_SIZE]) {
        library_need(&crypto);
        compute(sha256(), data, length, digest);
}

void digest_sha256_hex(const void *data, size_t length, char hex[SHA256_HEX_SIZE]) {
        uint8_t result[SHA256_SIZE];

        digest_sha256(data, length, result);
        digest_hex(result, sizeof(result), hex);
}

bool digest_sha1(const void *data, size_t length, uint8_t digest[SHA1_SIZE]) {
        library_need(&crypto);
        pthread_once(&fetched_once, fetch_digests);
        if (sha1_fetched)
                compute(sha1_fetched, data, length, digest);
        return sha1_fetched != NULL;
}

bool digest_md5(const void *data, size_t length, uint8_t digest[MD5_SIZE]) {
        library_need(&crypto);
        pthread_once(&fetched_once, fetch_digests);
        if (md5_fetched)
                compute(md5_fetched, data, length, digest);
        return md5_fetched != NULL;
}

void digest_hmac_sha256(const void *key, size_t key_length, const void *data, size_t length,
                        uint8_t mac[SHA256_SIZE]) {
        unsigned int size = SHA256_SIZE;

        library_need(&crypto);
        if (!sym_HMAC(sha256(), key, (int)key_length, data, length, mac, &size) || size != SHA256_SIZE)
                abort();
}

/* Only ever seen through casts, like the digest's below: the library's context, named so that its header stays in here. */
struct digest_mac *digest_mac_new(const void *key, size_t key_length) {
        char hash[] = "SHA256";
        const OSSL_PARAM settings[] = { OSSL_PARAM_utf8_string("digest", hash, sizeof(hash) - 1),
                                        OSSL_PARAM_END };
        EVP_MAC_CTX *context = NULL;
        EVP_MAC *hmac;

        library_need(&crypto);
        hmac = sym_EVP_MAC_fetch(NULL, "HMAC", NULL);
        if (hmac)
                context = sym_EVP_MAC_CTX_new(hmac); /* with a reference of its own to `hmac` */
        if (!context || sym_EVP_MAC_init(context, key, key_length, settings) != 1)
                abort();
        sym_EVP_MAC_free(hmac);
        return (struct digest_mac *)context;
}

void digest_mac_add(struct digest_mac *mac, const void *data, size_t length) {
        if (sym_EVP_MAC_update((EVP_MAC_CTX *)mac, data, length) != 1)
                abort();
}

void digest_mac_end(struct digest_mac *mac, char hex[SHA256_HEX_SIZE]) {
        uint8_t result[SHA256_SIZE];
        size_t size;

        /* Without one the library may not have been loaded. */
        if (!mac)
                return;
        if (hex) {
                if (sym_EVP_MAC_final((EVP_MAC_CTX *)mac, result, &size, sizeof(result)) != 1 ||
                    size != sizeof(result))
                        abort();
                digest_hex(result, sizeof(result), hex);
        }
        sym_EVP_MAC_CTX_free((EVP_MAC_CTX *)mac);
}

struct digest_stream *digest_stream_new(void) {
        EVP_MD_CTX *context;

        library_need(&crypto);
        context = sym_EVP_MD_CTX_new();
        if (!context || sym_EVP_DigestInit_ex(context, sha256(), NULL) != 1)
                abort();
        return (struct digest_stream *)context;
}

void digest_stream_add(struct digest_stream *stream, const void *data, size_t length) {
        if (sym_EVP_DigestUpdate((EVP_MD_CTX *)stream, data, length) != 1)
                abort();
}

void digest_stream_end(struct digest_stream *stream, char hex[SHA256_HEX_SIZE]) {
        uint8_t result[SHA256_SIZE];

        if (!stream)
                return;
        if (hex) {
                if (sym_EVP_DigestFinal_ex((EVP_MD_CTX *)stream, result, NULL) != 1)
                        abort();
                digest_hex(result, sizeof(result), hex);
        }
        sym_EVP_MD_CTX_free((EVP_MD_CTX *)stream);
}
