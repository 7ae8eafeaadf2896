/* SPDX-License-Identifier: Apache-2.0 */
#include "base/public_key.h"

#include "base/library.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/decoder.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <stdlib.h>
#include <string.h>

#define EXPONENT_MAX 8 /* bytes: what is larger makes each check a long one */
#define POINT_SIZE (1 + 2 * PUBLIC_KEY_COORDINATE)
#define DER_SIZE 80 /* of a signature by P-256: 72 bytes at the most */

#define KEY_SYMBOLS(X)                    \
        X(BN_bin2bn)                      \
        X(BN_bn2binpad)                   \
        X(BN_free)                        \
        X(CRYPTO_free)                    \
        X(ECDSA_SIG_free)                 \
        X(ECDSA_SIG_get0)                 \
        X(ECDSA_SIG_new)                  \
        X(ECDSA_SIG_set0)                 \
        X(ERR_clear_error)                \
        X(EVP_DigestSign)                 \
        X(EVP_DigestSignInit_ex)          \
        X(EVP_DigestVerify)               \
        X(EVP_DigestVerifyInit_ex)        \
        X(EVP_MD_CTX_free)                \
        X(EVP_MD_CTX_new)                 \
        X(EVP_PKEY_CTX_free)              \
        X(EVP_PKEY_CTX_new_from_name)     \
        X(EVP_PKEY_CTX_new_from_pkey)     \
        X(EVP_PKEY_check)                 \
        X(EVP_PKEY_free)                  \
        X(EVP_PKEY_fromdata)              \
        X(EVP_PKEY_fromdata_init)         \
        X(EVP_PKEY_get_bn_param)          \
        X(EVP_PKEY_get_utf8_string_param) \
        X(OSSL_DECODER_CTX_free)          \
        X(OSSL_DECODER_CTX_new_for_pkey)  \
        X(OSSL_DECODER_from_data)         \
        X(d2i_ECDSA_SIG)                  \
        X(i2d_ECDSA_SIG)

KEY_SYMBOLS(LIBRARY_POINTER)
static const struct library_symbol key_symbols[] = { KEY_SYMBOLS(LIBRARY_SYMBOL) };
static struct library crypto = LIBRARY(CRYPTO_SONAME, "libssl3", "signatures", key_symbols);

struct public_key {
        enum public_key_kind kind;
        EVP_PKEY *key;
};

/* --- keys --- */

static EVP_PKEY *make_key(const char *name, OSSL_PARAM *numbers) {
        EVP_PKEY_CTX *context = sym_EVP_PKEY_CTX_new_from_name(NULL, name, NULL);
        EVP_PKEY *key = NULL;

        if (context && sym_EVP_PKEY_fromdata_init(context) == 1 &&
            sym_EVP_PKEY_fromdata(context, &key, EVP_PKEY_PUBLIC_KEY, numbers) != 1)
                key = NULL;
        sym_EVP_PKEY_CTX_free(context);
        sym_ERR_clear_error();
        return key;
}

/* OpenSSL takes whole numbers in the order of the machine's bytes. At most `size` bytes. */
static void turn_number(const uint8_t *bytes, size_t length, uint8_t *ret, size_t size) {
        const uint8_t *from = bytes + length;

        if (__BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__) {
                memcpy(ret, bytes, length < size ? length : size);
                return;
        }
        for (uint8_t *end = ret + size; ret < end && from > bytes; ret++)
                *ret = *--from;
}

static void strip_zeros(const uint8_t **bytes, size_t *length) {
        while (*length > 0 && **bytes == 0) {
                (*bytes)++;
                (*length)--;
        }
}

static EVP_PKEY *make_rsa(const uint8_t *modulus, size_t length, const uint8_t *exponent,
                          size_t exponent_length) {
        uint8_t n[PUBLIC_KEY_RSA_MAX], e[EXPONENT_MAX];
        OSSL_PARAM numbers[] = {
                { OSSL_PKEY_PARAM_RSA_N, OSSL_PARAM_UNSIGNED_INTEGER, n, 0, OSSL_PARAM_UNMODIFIED },
                { OSSL_PKEY_PARAM_RSA_E, OSSL_PARAM_UNSIGNED_INTEGER, e, 0, OSSL_PARAM_UNMODIFIED },
                OSSL_PARAM_END,
        };

        strip_zeros(&modulus, &length);
        strip_zeros(&exponent, &exponent_length);
        if (length < PUBLIC_KEY_RSA_MIN || length > sizeof(n) || exponent_length < 1 ||
            exponent_length > sizeof(e))
                return NULL;
        /* Even ones are no key's; by an exponent of 1 everything is its own signature. */
        if (modulus[length - 1] % 2 == 0 || exponent[exponent_length - 1] % 2 == 0 ||
            (exponent_length == 1 && exponent[0] < 3))
                return NULL;
        turn_number(modulus, length, n, sizeof(n));
        turn_number(exponent, exponent_length, e, sizeof(e));
        numbers[0].data_size = length;
        numbers[1].data_size = exponent_length;
        return make_key("RSA", numbers);
}

static EVP_PKEY *make_p256(const uint8_t *x, size_t x_length, const uint8_t *y, size_t y_length) {
        char group[] = "prime256v1";
        uint8_t point[POINT_SIZE] = { 0x04 }; /* uncompressed (SEC 1, 2.3.3) */
        OSSL_PARAM numbers[] = {
                { OSSL_PKEY_PARAM_GROUP_NAME, OSSL_PARAM_UTF8_STRING, group, sizeof(group) - 1,
                  OSSL_PARAM_UNMODIFIED },
                { OSSL_PKEY_PARAM_PUB_KEY, OSSL_PARAM_OCTET_STRING, point, sizeof(point),
                  OSSL_PARAM_UNMODIFIED },
                OSSL_PARAM_END,
        };

        if (x_length != PUBLIC_KEY_COORDINATE || y_length != PUBLIC_KEY_COORDINATE)
                return NULL;
        memcpy(point + 1, x, x_length);
        memcpy(point + 1 + PUBLIC_KEY_COORDINATE, y, y_length);
        return make_key("EC", numbers);
}

static EVP_PKEY *make_ed25519(const uint8_t *bytes, size_t length) {
        uint8_t copy[PUBLIC_KEY_COORDINATE];
        OSSL_PARAM numbers[] = {
                { OSSL_PKEY_PARAM_PUB_KEY, OSSL_PARAM_OCTET_STRING, copy, sizeof(copy),
                  OSSL_PARAM_UNMODIFIED },
                OSSL_PARAM_END,
        };

        if (length != sizeof(copy))
                return NULL;
        memcpy(copy, bytes, length);
        return make_key("ED25519", numbers);
}

struct public_key *public_key_new(enum public_key_kind kind, const uint8_t *first, size_t first_length,
                                  const uint8_t *second, size_t second_length) {
        struct public_key *ret;
        EVP_PKEY *key;

        library_need(&crypto);
        key = kind == PUBLIC_KEY_RSA    ? make_rsa(first, first_length, second, second_length)
              : kind == PUBLIC_KEY_P256 ? make_p256(first, first_length, second, second_length)
                                        : make_ed25519(first, first_length);
        if (!key)
                return NULL;
        ret = calloc(1, sizeof(*ret));
        if (!ret)
                abort();
        *ret = (struct public_key){ kind, key };
        return ret;
}

void public_key_free(struct public_key *key) {
        if (!key)
                return;
        sym_EVP_PKEY_free(key->key);
        free(key);
}

enum public_key_kind public_key_kind(const struct public_key *key) {
        return key->kind;
}

/* --- signatures --- */

/* OpenSSL has the two numbers of ECDSA in DER. How many bytes that are; 0 where they are not two numbers of 32. */
static size_t write_der(const uint8_t *signature, size_t length, unsigned char **ret) {
        ECDSA_SIG *numbers = NULL;
        BIGNUM *r, *s;
        int count;

        if (length != (size_t)2 * PUBLIC_KEY_COORDINATE)
                return 0;
        numbers = sym_ECDSA_SIG_new();
        r = sym_BN_bin2bn(signature, PUBLIC_KEY_COORDINATE, NULL);
        s = sym_BN_bin2bn(signature + PUBLIC_KEY_COORDINATE, PUBLIC_KEY_COORDINATE, NULL);
        if (!numbers || !r || !s || sym_ECDSA_SIG_set0(numbers, r, s) != 1)
                abort();
        count = sym_i2d_ECDSA_SIG(numbers, ret);
        sym_ECDSA_SIG_free(numbers);
        return count > 0 ? (size_t)count : 0;
}

bool public_key_verifies(const struct public_key *key, const void *bytes, size_t length,
                         const uint8_t *signature, size_t signature_length) {
        EVP_MD_CTX *context;
        unsigned char *der = NULL;
        bool verifies;

        if (key->kind == PUBLIC_KEY_P256) {
                signature_length = write_der(signature, signature_length, &der);
                if (signature_length == 0)
                        return false;
                signature = der;
        }
        context = sym_EVP_MD_CTX_new();
        if (!context)
                abort();
        verifies =
                sym_EVP_DigestVerifyInit_ex(context, NULL, key->kind == PUBLIC_KEY_ED25519 ? NULL : "SHA256",
                                            NULL, NULL, key->key, NULL) == 1 &&
                sym_EVP_DigestVerify(context, signature, signature_length, bytes, length) == 1;
        sym_EVP_MD_CTX_free(context);
        sym_CRYPTO_free(der, __FILE__, __LINE__);
        sym_ERR_clear_error();
        return verifies;
}

/* --- keys to sign with --- */

struct public_key_pair {
        EVP_PKEY *key;
        uint8_t x[PUBLIC_KEY_COORDINATE], y[PUBLIC_KEY_COORDINATE];
};

static bool read_coordinate(const EVP_PKEY *key, const char *name, uint8_t ret[PUBLIC_KEY_COORDINATE]) {
        BIGNUM *number = NULL;
        bool fits = sym_EVP_PKEY_get_bn_param(key, name, &number) == 1 &&
                    sym_BN_bn2binpad(number, ret, PUBLIC_KEY_COORDINATE) == PUBLIC_KEY_COORDINATE;

        sym_BN_free(number);
        return fits;
}

static bool is_p256(const EVP_PKEY *key) {
        char group[32];

        return sym_EVP_PKEY_get_utf8_string_param(key, OSSL_PKEY_PARAM_GROUP_NAME, group, sizeof(group),
                                                  NULL) == 1 &&
               strcmp(group, "prime256v1") == 0;
}

/* Of a damaged file the private number may be out of range, or another key's: signing with it would fail, or say nothing. */
static bool is_whole(EVP_PKEY *key) {
        EVP_PKEY_CTX *context = sym_EVP_PKEY_CTX_new_from_pkey(NULL, key, NULL);
        bool whole;

        if (!context)
                abort();
        whole = sym_EVP_PKEY_check(context) == 1;
        sym_EVP_PKEY_CTX_free(context);
        return whole;
}

struct public_key_pair *public_key_pair_new(const char *pem, size_t length) {
        const unsigned char *at = (const unsigned char *)pem;
        struct public_key_pair found = { NULL, { 0 }, { 0 } }, *ret = NULL;
        OSSL_DECODER_CTX *decoder;

        library_need(&crypto);
        /* A file with a public key alone is refused. No passphrase is asked for: there is no callback. */
        decoder = sym_OSSL_DECODER_CTX_new_for_pkey(&found.key, "PEM", NULL, "EC",
                                                    OSSL_KEYMGMT_SELECT_PRIVATE_KEY, NULL, NULL);
        if (!decoder)
                abort();
        if (sym_OSSL_DECODER_from_data(decoder, &at, &length) == 1 && is_p256(found.key) &&
            is_whole(found.key) && read_coordinate(found.key, OSSL_PKEY_PARAM_EC_PUB_X, found.x) &&
            read_coordinate(found.key, OSSL_PKEY_PARAM_EC_PUB_Y, found.y)) {
                if (!(ret = malloc(sizeof(*ret))))
                        abort();
                *ret = found;
        } else {
                sym_EVP_PKEY_free(found.key);
        }
        sym_OSSL_DECODER_CTX_free(decoder);
        sym_ERR_clear_error();
        return ret;
}

void public_key_pair_free(struct public_key_pair *pair) {
        if (!pair)
                return;
        sym_EVP_PKEY_free(pair->key);
        free(pair);
}

void public_key_pair_point(const struct public_key_pair *pair, uint8_t x[PUBLIC_KEY_COORDINATE],
                           uint8_t y[PUBLIC_KEY_COORDINATE]) {
        memcpy(x, pair->x, PUBLIC_KEY_COORDINATE);
        memcpy(y, pair->y, PUBLIC_KEY_COORDINATE);
}

void public_key_pair_sign(const struct public_key_pair *pair, const void *bytes, size_t length,
                          uint8_t signature[2 * PUBLIC_KEY_COORDINATE]) {
        unsigned char der[DER_SIZE];
        const unsigned char *at = der;
        size_t der_length = sizeof(der);
        EVP_MD_CTX *context = sym_EVP_MD_CTX_new();
        const BIGNUM *r, *s;
        ECDSA_SIG *numbers;

        if (!context ||
            sym_EVP_DigestSignInit_ex(context, NULL, "SHA256", NULL, NULL, pair->key, NULL) != 1 ||
            sym_EVP_DigestSign(context, der, &der_length, bytes, length) != 1 ||
            !(numbers = sym_d2i_ECDSA_SIG(NULL, &at, (long)der_length)))
                abort();
        sym_ECDSA_SIG_get0(numbers, &r, &s);
        if (sym_BN_bn2binpad(r, signature, PUBLIC_KEY_COORDINATE) < 0 ||
            sym_BN_bn2binpad(s, signature + PUBLIC_KEY_COORDINATE, PUBLIC_KEY_COORDINATE) < 0)
                abort();
        sym_ECDSA_SIG_free(numbers);
        sym_EVP_MD_CTX_free(context);
}
