/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens' times to the second, and where keys have no names; forgeries: tests/e2e/test_serve_jwt.py. */
#include "broker/auth/jwt.h"

#include "base/digest.h"
#include "base/strbuf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* RFC 8037, A.2 and A.4. */
#define KEY "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"%s}"

static char *encode(const char *text, struct arena *arena) {
        size_t length = strlen(text);
        char *ret = arena_alloc(arena, 4 * ((length + 2) / 3) + 1);

        digest_base64((const uint8_t *)text, length, ret);
        for (char *at = ret; *at; at++)
                *at = *at == '+' ? '-' : *at == '/' ? '_' : *at == '=' ? '\0' : *at;
        return ret;
}

static bool read_token(const char *header, const char *claims, struct arena *arena, struct jwt *ret) {
        return jwt_read(arena_printf(arena, "%s.%s.AAAA", encode(header, arena), encode(claims, arena)),
                        arena, ret);
}

static void times(void **state) {
        static const struct {
                const char *claims;
                bool valid;
        } cases[] = {
                { "{\"exp\":1000}", true },
                { "{\"exp\":941}", true }, /* clocks differ by less than JWT_SKEW_S */
                { "{\"exp\":940}", false },
                { "{\"exp\":940.5}", true },
                { "{\"exp\":2000,\"nbf\":1060}", true },
                { "{\"exp\":2000,\"nbf\":1061}", false },
                { "{\"exp\":2000,\"nbf\":-5}", true },
                { "{\"exp\":1e300}", true },
                { "{\"exp\":-1e300}", false },
                { "{\"exp\":9223372036854775807}", true },
                { "{}", false },
                { "{\"exp\":\"2000\"}", false },
                { "{\"exp\":null}", false },
                { "{\"exp\":2000,\"nbf\":null}", false },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                struct jwt jwt JWT_CLEANUP = { 0 };

                assert_true(read_token("{\"alg\":\"RS256\"}", cases[i].claims, arena, &jwt));
                if ((jwt_check_times(&jwt, 1000) == NULL) != cases[i].valid)
                        fail_msg("%s", cases[i].claims);
        }
}

static void audiences(void **state) {
        static const struct {
                const char *claims;
                bool is_of;
        } cases[] = {
                { "{\"iss\":\"i\",\"aud\":\"a\"}", true },
                { "{\"iss\":\"i\",\"aud\":[\"b\",\"a\"]}", true },
                { "{\"iss\":\"i\",\"aud\":[\"a\",7]}", false },
                { "{\"iss\":\"i\",\"aud\":[\"b\"]}", false },
                { "{\"iss\":\"i\",\"aud\":{\"a\":1}}", false },
                { "{\"iss\":\"i\"}", false },
                { "{\"iss\":\"j\",\"aud\":\"a\"}", false },
                { "{\"iss\":[\"i\"],\"aud\":\"a\"}", false },
                { "{\"aud\":\"a\"}", false },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                struct jwt jwt JWT_CLEANUP = { 0 };

                assert_true(read_token("{\"alg\":\"ES256\"}", cases[i].claims, arena, &jwt));
                assert_int_equal(jwt_is_of(&jwt, "i", "a"), cases[i].is_of);
        }
}

/* Of this text only the signature is checked: RFC 8037's payload is no JSON. */
static void keys_and_names(void **state) {
        static const char text
                [] = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc",
            signature[] =
                    "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";
        static const struct {
                const char *more, *header;
                enum public_key_kind kind;
                bool cut;
                enum jwt_verdict verdict;
        } cases[] = {
                { "", "{}", PUBLIC_KEY_ED25519, false, JWT_GOOD },
                { "", "{\"kid\":\"any\"}", PUBLIC_KEY_ED25519, false, JWT_GOOD },
                { ",\"kid\":\"one\"", "{}", PUBLIC_KEY_ED25519, false, JWT_GOOD },
                { ",\"kid\":\"one\"", "{\"kid\":\"one\"}", PUBLIC_KEY_ED25519, false, JWT_GOOD },
                { ",\"kid\":\"one\"", "{\"kid\":\"two\"}", PUBLIC_KEY_ED25519, false, JWT_UNKNOWN_KEY },
                { ",\"kid\":\"one\"", "{\"kid\":\"one\"}", PUBLIC_KEY_ED25519, true, JWT_FORGED },
                { ",\"kid\":\"one\"", "{\"kid\":\"one\"}", PUBLIC_KEY_RSA, false, JWT_FORGED },
                { ",\"kid\":\"one\"", "{}", PUBLIC_KEY_RSA, false, JWT_UNKNOWN_KEY },
                { ",\"alg\":\"Ed25519\",\"use\":\"sig\",\"key_ops\":[\"verify\"]", "{}", PUBLIC_KEY_ED25519,
                  false, JWT_GOOD },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct strbuf set STRBUF_CLEANUP = STRBUF_INIT;
                uint8_t bytes[64];
                struct jwt jwt JWT_CLEANUP = { .signed_text = text,
                                               .signed_length = sizeof(text) - 1,
                                               .signature = bytes,
                                               .signature_length = cases[i].cut ? 63 : 64,
                                               .kind = cases[i].kind };
                struct jwks *jwks;
                struct error err;

                strbuf_printf(&set, "{\"keys\":[" KEY "]}", cases[i].more);
                assert_int_equal(jwks_read(strbuf_text(&set), set.length, &jwks, &err), 0);
                assert_int_equal(digest_from_base64url(signature, sizeof(signature) - 1, bytes), 64);
                jwt.header = json_loads(cases[i].header, 0, NULL);
                assert_int_equal(jwt_verify(&jwt, jwks), cases[i].verdict);
                jwks_free(jwks);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(times),
                cmocka_unit_test(audiences),
                cmocka_unit_test(keys_and_names),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
