/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A provider for OpenSSL as a FIPS module looks from outside: SHA-256 and HMAC, marked fips=yes, and no MD5. fips.py
 * compiles it and writes the configuration that loads nothing else. Debian has no module of its own to test with. What is
 * asked of it OpenSSL's default provider works out, in a context of its own that nobody else sees.
 */
#include <openssl/core_dispatch.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/provider.h>
#include <stdlib.h>

static OSSL_LIB_CTX *inside;

static void *digest_new(void *provider) {
        (void)provider;
        return EVP_MD_CTX_new();
}

static void digest_free(void *context) {
        EVP_MD_CTX_free(context);
}

static void *digest_dup(void *context) {
        EVP_MD_CTX *copy = EVP_MD_CTX_new();

        if (copy && EVP_MD_CTX_copy_ex(copy, context))
                return copy;
        EVP_MD_CTX_free(copy);
        return NULL;
}

static int digest_init(void *context, const OSSL_PARAM *params) {
        EVP_MD *sha256 = EVP_MD_fetch(inside, "SHA256", NULL);
        int result = sha256 && EVP_DigestInit_ex2(context, sha256, NULL);

        (void)params;
        EVP_MD_free(sha256);
        return result;
}

static int digest_update(void *context, const unsigned char *bytes, size_t length) {
        return EVP_DigestUpdate(context, bytes, length);
}

static int digest_final(void *context, unsigned char *out, size_t *out_length, size_t size) {
        unsigned int length = 0;
        int result = size >= 32 && EVP_DigestFinal_ex(context, out, &length);

        *out_length = length;
        return result;
}

static int digest_params(OSSL_PARAM params[]) {
        OSSL_PARAM *block = OSSL_PARAM_locate(params, OSSL_DIGEST_PARAM_BLOCK_SIZE),
                   *size = OSSL_PARAM_locate(params, OSSL_DIGEST_PARAM_SIZE);

        return (!block || OSSL_PARAM_set_size_t(block, 64)) && (!size || OSSL_PARAM_set_size_t(size, 32));
}

static void *mac_new(void *provider) {
        EVP_MAC *hmac = EVP_MAC_fetch(inside, "HMAC", NULL);
        EVP_MAC_CTX *context = hmac ? EVP_MAC_CTX_new(hmac) : NULL;

        (void)provider;
        EVP_MAC_free(hmac);
        return context;
}

static void mac_free(void *context) {
        EVP_MAC_CTX_free(context);
}

static void *mac_dup(void *context) {
        return EVP_MAC_CTX_dup(context);
}

static int mac_init(void *context, const unsigned char *key, size_t length, const OSSL_PARAM params[]) {
        return EVP_MAC_init(context, key, length, params);
}

static int mac_update(void *context, const unsigned char *bytes, size_t length) {
        return EVP_MAC_update(context, bytes, length);
}

static int mac_final(void *context, unsigned char *out, size_t *out_length, size_t size) {
        return EVP_MAC_final(context, out, out_length, size);
}

static int mac_set(void *context, const OSSL_PARAM params[]) {
        return EVP_MAC_CTX_set_params(context, params);
}

static const OSSL_PARAM *mac_settable(void *context, void *provider) {
        static const OSSL_PARAM settable[] = { OSSL_PARAM_utf8_string(OSSL_MAC_PARAM_DIGEST, NULL, 0),
                                               OSSL_PARAM_octet_string(OSSL_MAC_PARAM_KEY, NULL, 0),
                                               OSSL_PARAM_END };

        (void)context, (void)provider;
        return settable;
}

static int mac_get(void *context, OSSL_PARAM params[]) {
        return EVP_MAC_CTX_get_params(context, params);
}

#define ENTRY(id, function) \
        { id, (void (*)(void))(function) }

static const OSSL_DISPATCH sha256_functions[] = {
        ENTRY(OSSL_FUNC_DIGEST_NEWCTX, digest_new),        ENTRY(OSSL_FUNC_DIGEST_FREECTX, digest_free),
        ENTRY(OSSL_FUNC_DIGEST_DUPCTX, digest_dup),        ENTRY(OSSL_FUNC_DIGEST_INIT, digest_init),
        ENTRY(OSSL_FUNC_DIGEST_UPDATE, digest_update),     ENTRY(OSSL_FUNC_DIGEST_FINAL, digest_final),
        ENTRY(OSSL_FUNC_DIGEST_GET_PARAMS, digest_params), { 0, NULL }
};
static const OSSL_DISPATCH hmac_functions[] = {
        ENTRY(OSSL_FUNC_MAC_NEWCTX, mac_new),         ENTRY(OSSL_FUNC_MAC_FREECTX, mac_free),
        ENTRY(OSSL_FUNC_MAC_DUPCTX, mac_dup),         ENTRY(OSSL_FUNC_MAC_INIT, mac_init),
        ENTRY(OSSL_FUNC_MAC_UPDATE, mac_update),      ENTRY(OSSL_FUNC_MAC_FINAL, mac_final),
        ENTRY(OSSL_FUNC_MAC_SET_CTX_PARAMS, mac_set), ENTRY(OSSL_FUNC_MAC_SETTABLE_CTX_PARAMS, mac_settable),
        ENTRY(OSSL_FUNC_MAC_GET_CTX_PARAMS, mac_get), { 0, NULL }
};

static const OSSL_ALGORITHM digests[] = { { "SHA2-256:SHA-256:SHA256", "provider=like-fips,fips=yes",
                                            sha256_functions, NULL },
                                          { NULL, NULL, NULL, NULL } };
static const OSSL_ALGORITHM macs[] = { { "HMAC", "provider=like-fips,fips=yes", hmac_functions, NULL },
                                       { NULL, NULL, NULL, NULL } };

static const OSSL_ALGORITHM *query(void *provider, int operation, int *no_cache) {
        (void)provider;
        *no_cache = 0;
        return operation == OSSL_OP_DIGEST ? digests : operation == OSSL_OP_MAC ? macs : NULL;
}

static void teardown(void *provider) {
        (void)provider;
        OSSL_LIB_CTX_free(inside);
}

static const OSSL_DISPATCH functions[] = { ENTRY(OSSL_FUNC_PROVIDER_QUERY_OPERATION, query),
                                           ENTRY(OSSL_FUNC_PROVIDER_TEARDOWN, teardown),
                                           { 0, NULL } };

int OSSL_provider_init(const OSSL_CORE_HANDLE *handle, const OSSL_DISPATCH *in, const OSSL_DISPATCH **out,
                       void **context) {
        (void)in;
        inside = OSSL_LIB_CTX_new();
        *out = functions;
        *context = (void *)handle;
        return inside != NULL;
}
