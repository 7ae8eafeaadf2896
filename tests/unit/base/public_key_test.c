/* SPDX-License-Identifier: Apache-2.0 */
/* The examples of RFC 8037 and RFC 7515, and what is near them. */
#include "base/digest.h"
#include "base/public_key.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define BYTES_MAX 600

struct bytes {
        uint8_t at[BYTES_MAX];
        size_t length;
};

static struct bytes decode(const char *text) {
        struct bytes ret;
        ssize_t count = digest_from_base64url(text, strlen(text), ret.at);

        assert_true(count > 0);
        ret.length = (size_t)count;
        return ret;
}

/* RFC 8037, A.2 and A.4; RFC 7515, A.3. */
static const struct {
        enum public_key_kind kind;
        const char *first, *second, *text, *signature;
} vectors[] = {
        { PUBLIC_KEY_ED25519, "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo", NULL,
          "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc",
          "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg" },
        { PUBLIC_KEY_P256, "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
          "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
          "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ",
          "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q" },
};

static void examples(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
                struct bytes first = decode(vectors[i].first), signature = decode(vectors[i].signature),
                             second = { .length = 0 };
                size_t length = strlen(vectors[i].text);
                struct public_key *key;

                if (vectors[i].second)
                        second = decode(vectors[i].second);
                key = public_key_new(vectors[i].kind, first.at, first.length, second.at, second.length);
                assert_non_null(key);
                assert_int_equal(public_key_kind(key), vectors[i].kind);
                assert_true(
                        public_key_verifies(key, vectors[i].text, length, signature.at, signature.length));
                assert_false(public_key_verifies(key, vectors[i].text, length - 1, signature.at,
                                                 signature.length));
                for (size_t cut = 0; cut < signature.length; cut++)
                        assert_false(public_key_verifies(key, vectors[i].text, length, signature.at, cut));
                for (size_t at = 0; at < signature.length; at++) {
                        signature.at[at] ^= 1;
                        assert_false(public_key_verifies(key, vectors[i].text, length, signature.at,
                                                         signature.length));
                        signature.at[at] ^= 1;
                }
                public_key_free(key);
        }
}

/* Too small, too large, even, off the curve. */
static void no_keys(void **state) {
        static uint8_t modulus[PUBLIC_KEY_RSA_MAX + 1];
        static const uint8_t usual[] = { 1, 0, 1 }, one[] = { 1 }, even[] = { 4 }, zeros[32] = { 0 },
                             large[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
        struct bytes x = decode(vectors[1].first), y = decode(vectors[1].second);
        struct public_key *key;

        (void)state;
        memset(modulus, 0xff, sizeof(modulus));
        key = public_key_new(PUBLIC_KEY_RSA, modulus, 256, usual, sizeof(usual));
        assert_non_null(key);
        public_key_free(key);
        assert_null(public_key_new(PUBLIC_KEY_RSA, modulus, 255, usual, sizeof(usual)));
        assert_null(public_key_new(PUBLIC_KEY_RSA, modulus, sizeof(modulus), usual, sizeof(usual)));
        assert_null(public_key_new(PUBLIC_KEY_RSA, modulus, 256, one, sizeof(one)));
        assert_null(public_key_new(PUBLIC_KEY_RSA, modulus, 256, even, sizeof(even)));
        assert_null(public_key_new(PUBLIC_KEY_RSA, modulus, 256, large, sizeof(large)));
        assert_null(public_key_new(PUBLIC_KEY_RSA, modulus, 256, zeros, sizeof(zeros)));
        assert_null(public_key_new(PUBLIC_KEY_RSA, zeros, sizeof(zeros), usual, sizeof(usual)));
        modulus[255] = 0xfe;
        assert_null(public_key_new(PUBLIC_KEY_RSA, modulus, 256, usual, sizeof(usual)));
        y.at[31] ^= 1;
        assert_null(public_key_new(PUBLIC_KEY_P256, x.at, 32, y.at, 32));
        assert_null(public_key_new(PUBLIC_KEY_P256, x.at, 32, y.at, 31));
        assert_null(public_key_new(PUBLIC_KEY_P256, zeros, 32, zeros, 32));
        assert_null(public_key_new(PUBLIC_KEY_ED25519, zeros, 31, NULL, 0));
        public_key_free(NULL);
}

static void letters(void **state) {
        static const struct {
                const char *text;
                ssize_t count;
        } cases[] = {
                { "", 0 },      { "AA", 1 },     { "AAA", 2 },   { "AAAA", 3 },
                { "-_-_", 3 },  { "_w", 1 },     { "A", -1 },    { "AAAAA", -1 },
                { "AB", -1 },   { "AAB", -1 },   { "AA==", -1 }, { "+/+/", -1 },
                { "AA A", -1 }, { "AA\nA", -1 }, { "AAA.", -1 }, { "AA\xc3\xa4", -1 },
        };
        uint8_t bytes[8];

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                assert_int_equal(digest_from_base64url(cases[i].text, strlen(cases[i].text), bytes),
                                 cases[i].count);
        assert_int_equal(digest_from_base64url("AA\0A", 4, bytes), -1);
        assert_int_equal(digest_from_base64url("-_8", 3, bytes), 2);
        assert_int_equal(bytes[0], 0xfb);
        assert_int_equal(bytes[1], 0xff);
}

/* RFC 7515, A.3, in both forms. */
static const char sec1[] = "-----BEGIN EC PRIVATE KEY-----\n"
                           "MHcCAQEEII6bEJ5xkJi/mASH3x9dd+nLKWBuvtImO19XwhPfhPSyoAoGCCqGSM49\n"
                           "AwEHoUQDQgAEf83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEXH8UTNG72b\n"
                           "focs3+257rn0s2ldbqkLJK2KRiMohYjlrQ==\n"
                           "-----END EC PRIVATE KEY-----\n";
static const char pkcs8[] = "-----BEGIN PRIVATE KEY-----\n"
                            "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgjpsQnnGQmL+YBIff\n"
                            "H1136cspYG6+0iY7X1fCE9+E9LKhRANCAAR/zc4ncPbEXUGDy+5v20t7WAczNXvp\n"
                            "7xO6z248e9FURcfxRM0bvZt+hyzf7bnuufSzaV1uqQskrYpGIyiFiOWt\n"
                            "-----END PRIVATE KEY-----\n";

static void own_signatures(void **state) {
        static const char *const forms[] = { sec1, pkcs8 };
        struct bytes x = decode(vectors[1].first), y = decode(vectors[1].second);
        struct public_key *key = public_key_new(PUBLIC_KEY_P256, x.at, x.length, y.at, y.length);

        (void)state;
        for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
                struct public_key_pair *pair = public_key_pair_new(forms[i], strlen(forms[i]));
                uint8_t own_x[PUBLIC_KEY_COORDINATE], own_y[PUBLIC_KEY_COORDINATE];
                uint8_t signature[2 * PUBLIC_KEY_COORDINATE];

                assert_non_null(pair);
                public_key_pair_point(pair, own_x, own_y);
                assert_memory_equal(own_x, x.at, sizeof(own_x));
                assert_memory_equal(own_y, y.at, sizeof(own_y));
                /* Numbers of less than 32 bytes come in one of 128. */
                for (uint16_t message = 0; message < 600; message++) {
                        public_key_pair_sign(pair, &message, sizeof(message), signature);
                        assert_true(public_key_verifies(key, &message, sizeof(message), signature,
                                                        sizeof(signature)));
                }
                public_key_pair_free(pair);
        }
        public_key_free(key);
        public_key_pair_free(NULL);
}

/*
 * Locked, of another curve, a public one, no key; private numbers that are not of the curve (0, its
 * order, 512 bits), or another key's.
 */
static void no_own_keys(void **state) {
        static const char *const cases[] = {
                "-----BEGIN ENCRYPTED PRIVATE KEY-----\n"
                "MIH0MF8GCSqGSIb3DQEFDTBSMDEGCSqGSIb3DQEFDDAkBBCzDChr9ZsBtvm7rPjI\n"
                "GUavAgIIADAMBggqhkiG9w0CCQUAMB0GCWCGSAFlAwQBKgQQkenxKPtyL2nX/gQC\n"
                "DaXpiASBkKS6vE291WxJMSLtfOnYrgsEgBxKnabMydcpH6y1e8vyQwnI6pm40D6c\n"
                "I6VRCm13wQ8s/RZU9Bf0kigaeYYl/eSzTO4Kp/l8O1/B/xlqtVJtcl8fFZB/BGBq\n"
                "d7RmRxb7Rrn0G/wMZCCJpHpzNVmZQfZFr7NahpQ4Y/vU3DsdTYXHNVXEROVkgSGD\n"
                "c3/8MFR/Lw==\n"
                "-----END ENCRYPTED PRIVATE KEY-----\n",
                "-----BEGIN PRIVATE KEY-----\n"
                "MIG2AgEAMBAGByqGSM49AgEGBSuBBAAiBIGeMIGbAgEBBDAhx04M3Ds+yaxU247A\n"
                "8X5dw2+IxNi8/euYKJ7hmHB7QzgwhEj6WuyxadQbvR+EosihZANiAARYtE7xVdD+\n"
                "IBaR7vLX04huePJhLzTegy89ZydKBHCoae8QdxMQaOm5Awj7+Mh6zvZ+xKy329tv\n"
                "BmuXs/3r/ediDueH8TFFkH/dVEQT0+Gg734q9QV7eNEAO7TmKLM2LgI=\n"
                "-----END PRIVATE KEY-----\n",
                "-----BEGIN PUBLIC KEY-----\n"
                "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEf83OJ3D2xF1Bg8vub9tLe1gHMzV7\n"
                "6e8Tus9uPHvRVEXH8UTNG72bfocs3+257rn0s2ldbqkLJK2KRiMohYjlrQ==\n"
                "-----END PUBLIC KEY-----\n",
                "",
                "no key",
                "-----BEGIN EC PRIVATE KEY-----\n"
                "MHcCAQEEIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAoAoGCCqGSM49\n"
                "AwEHoUQDQgAEf83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEXH8UTNG72b\n"
                "focs3+257rn0s2ldbqkLJK2KRiMohYjlrQ==\n"
                "-----END EC PRIVATE KEY-----\n",
                "-----BEGIN EC PRIVATE KEY-----\n"
                "MHcCAQEEIP////8AAAAA//////////+85vqtpxeehPO5ysL8YyVRoAoGCCqGSM49\n"
                "AwEHoUQDQgAEf83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEXH8UTNG72b\n"
                "focs3+257rn0s2ldbqkLJK2KRiMohYjlrQ==\n"
                "-----END EC PRIVATE KEY-----\n",
                "-----BEGIN EC PRIVATE KEY-----\n"
                "MIGXAgEBBED/////////////////////////////////////////////////////////////////\n"
                "////////////////////oAoGCCqGSM49AwEHoUQDQgAEZj4AhNpea1Bmu8ZCzQUiMpdNt3vFbde1\n"
                "AcZ6Rc47d5q/+UMzFuCd+ixVXTlEeHIcMvG92/XsDTsJww8/2js4XA==\n"
                "-----END EC PRIVATE KEY-----\n",
                "-----BEGIN EC PRIVATE KEY-----\n"
                "MHcCAQEEIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAFoAoGCCqGSM49\n"
                "AwEHoUQDQgAEf83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEXH8UTNG72b\n"
                "focs3+257rn0s2ldbqkLJK2KRiMohYjlrQ==\n"
                "-----END EC PRIVATE KEY-----\n",
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                assert_null(public_key_pair_new(cases[i], strlen(cases[i])));
        for (size_t cut = 0; cut < sizeof(sec1) - sizeof("-----END EC PRIVATE KEY-----\n"); cut++)
                assert_null(public_key_pair_new(sec1, cut));
}

static void letters_back(void **state) {
        static const uint8_t bytes[] = { 0xfb, 0xff, 0xbf };
        static const char *const texts[] = { "", "-w", "-_8", "-_-_" };
        char text[5];

        (void)state;
        for (size_t length = 0; length <= sizeof(bytes); length++) {
                digest_base64url(bytes, length, text);
                assert_string_equal(text, texts[length]);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(examples),    cmocka_unit_test(no_keys),
                cmocka_unit_test(letters),     cmocka_unit_test(own_signatures),
                cmocka_unit_test(no_own_keys), cmocka_unit_test(letters_back),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
