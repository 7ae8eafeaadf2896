/* SPDX-License-Identifier: Apache-2.0 */
/* The file's name, and the proof by its key; the rest is in test_credentials.py, beside botocore. */
#include "providers/aws/client/login_token.h"

#include "base/digest.h"
#include "base/files.h"
#include "base/json.h"
#include "base/public_key.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* RFC 7515, A.3. */
static const char pem[] = "-----BEGIN EC PRIVATE KEY-----\n"
                          "MHcCAQEEII6bEJ5xkJi/mASH3x9dd+nLKWBuvtImO19XwhPfhPSyoAoGCCqGSM49\n"
                          "AwEHoUQDQgAEf83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEXH8UTNG72b\n"
                          "focs3+257rn0s2ldbqkLJK2KRiMohYjlrQ==\n"
                          "-----END EC PRIVATE KEY-----\n";

/* The name is the one of botocore's generate_login_cache_key(). */
static void files_are_named_by_the_session(void **state) {
        static const char session[] = "arn:aws:iam::123456789012:user/me";
        static const char name[] = "286187707741fc2ccb93cf9e56dbd0ee0a16208feed5fbc8ae1baa86d44c283f.json";
        static const struct {
                const char *folder, *path;
        } cases[] = {
                { NULL, "/home/me/.aws/login/cache/" },
                { "", "/home/me/.aws/login/cache/" },
                { "~/kept", "/home/me/kept/" },
                { "/kept", "/kept/" },
        };

        (void)state;
        assert_int_equal(setenv("HOME", "/home/me", 1), 0);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct strbuf expected STRBUF_CLEANUP = STRBUF_INIT;
                char *path TEXT_CLEANUP = NULL;

                if (cases[i].folder)
                        assert_int_equal(setenv("AWS_LOGIN_CACHE_DIRECTORY", cases[i].folder, 1), 0);
                else
                        assert_int_equal(unsetenv("AWS_LOGIN_CACHE_DIRECTORY"), 0);
                path = login_token_path(session);
                strbuf_printf(&expected, "%s%s", cases[i].path, name);
                assert_string_equal(path, strbuf_text(&expected));
        }
}

/* The part's object; `at` goes behind its dot. */
static json_t *take_part(const char **at) {
        const char *end = strchr(*at, '.');
        uint8_t bytes[1000];
        ssize_t length;
        json_t *ret;

        assert_non_null(end);
        assert_true((size_t)(end - *at) < sizeof(bytes));
        length = digest_from_base64url(*at, (size_t)(end - *at), bytes);
        assert_true(length > 0);
        ret = json_loadb((const char *)bytes, (size_t)length, 0, NULL);
        assert_non_null(ret);
        *at = end + 1;
        return ret;
}

static size_t take_bytes(const char *text, uint8_t bytes[100]) {
        ssize_t length;

        assert_non_null(text);
        assert_true(strlen(text) < 100);
        length = digest_from_base64url(text, strlen(text), bytes);
        assert_true(length > 0);
        return (size_t)length;
}

static void a_proof_is_signed_by_the_key(void **state) {
        struct strbuf proof STRBUF_CLEANUP = STRBUF_INIT;
        json_t *header JSON_CLEANUP = NULL, *claims JSON_CLEANUP = NULL;
        uint8_t x[100], y[100], signature[100];
        size_t x_length, y_length, signed_length;
        struct public_key *key;
        struct error err = { 0 };
        const char *at;

        (void)state;
        assert_int_equal(login_token_prove(pem, "https://eu-west-1.signin.aws.amazon.com/v1/token",
                                           1769860800999, "id", &proof, &err),
                         0);
        at = strbuf_text(&proof);
        header = take_part(&at);
        claims = take_part(&at);
        signed_length = (size_t)(at - 1 - strbuf_text(&proof));
        assert_string_equal(json_text(header, "typ"), "dpop+jwt");
        assert_string_equal(json_text(header, "alg"), "ES256");
        assert_string_equal(json_text(claims, "htm"), "POST");
        assert_string_equal(json_text(claims, "htu"), "https://eu-west-1.signin.aws.amazon.com/v1/token");
        assert_string_equal(json_text(claims, "jti"), "id");
        assert_int_equal(json_integer_or(claims, "iat", 0), 1769860800);
        assert_string_equal(json_text(json_object_get(header, "jwk"), "kty"), "EC");
        assert_string_equal(json_text(json_object_get(header, "jwk"), "crv"), "P-256");
        assert_int_equal(json_object_size(json_object_get(header, "jwk")), 4);
        x_length = take_bytes(json_text(json_object_get(header, "jwk"), "x"), x);
        y_length = take_bytes(json_text(json_object_get(header, "jwk"), "y"), y);
        key = public_key_new(PUBLIC_KEY_P256, x, x_length, y, y_length);
        assert_non_null(key);
        assert_true(public_key_verifies(key, strbuf_text(&proof), signed_length, signature,
                                        take_bytes(at, signature)));
        public_key_free(key);
}

static void without_a_key_there_is_no_proof(void **state) {
        struct strbuf proof STRBUF_CLEANUP = STRBUF_INIT;
        struct error err = { 0 };

        (void)state;
        assert_int_equal(login_token_prove("no key", "https://x", 0, "id", &proof, &err), -1);
        assert_string_equal(err.message, "its dpopKey is no private key of P-256");
        assert_int_equal(proof.length, 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(files_are_named_by_the_session),
                cmocka_unit_test(a_proof_is_signed_by_the_key),
                cmocka_unit_test(without_a_key_there_is_no_proof),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
