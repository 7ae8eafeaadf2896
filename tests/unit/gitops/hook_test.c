/* SPDX-License-Identifier: Apache-2.0 */
/* Signatures piece by piece against RFC 4231 and GitHub's own example; what a hook accepts. */
#include "gitops/hook.h"

#include "gitops/signature.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void vectors(void **state) {
        static char key_131[132];
        static const struct {
                const char *key, *text, *mac;
        } cases[] = {
                { "Jefe", "what do ya want for nothing?",
                  "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843" },
                { key_131, "Test Using Larger Than Block-Size Key - Hash Key First",
                  "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54" },
                /* "Validating webhook deliveries" of GitHub's documentation. */
                { "It's a Secret to Everybody", "Hello, World!",
                  "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17" },
                { "", "", "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad" },
        };

        (void)state;
        memset(key_131, 0xaa, 131);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                for (size_t piece = 1; piece <= 64; piece += 21) {
                        struct digest_mac *mac;
                        char hex[SHA256_HEX_SIZE];
                        size_t length = strlen(cases[i].text);

                        mac = digest_mac_new(cases[i].key, strlen(cases[i].key));
                        for (size_t at = 0; at < length; at += piece)
                                digest_mac_add(mac, cases[i].text + at,
                                               length - at < piece ? length - at : piece);
                        digest_mac_end(mac, hex);
                        assert_string_equal(hex, cases[i].mac);
                }
        }
}

/* First of all: libcrypto is not loaded yet. */
static void nothing_is_released(void **state) {
        struct hook hook = { 0 };

        (void)state;
        digest_mac_end(NULL, NULL);
        hook_release(&hook);
}

static void texts_compared(void **state) {
        (void)state;
        assert_true(signature_same("", ""));
        assert_true(signature_same("secret", "secret"));
        assert_false(signature_same("secret", "secreT"));
        assert_false(signature_same("secret", "secret1"));
        assert_false(signature_same("", "x"));
}

#define RIGHT "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
#define SECRET "It's a Secret to Everybody"

static void judged(void **state) {
        static const struct {
                struct hook_headers headers;
                const char *body;
                bool right, ping;
        } cases[] = {
                { { "sha256=" RIGHT, NULL, NULL, NULL }, "Hello, World!", true, false },
                { { "sha256=757107EA0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17", NULL, "push",
                    NULL },
                  "Hello, World!",
                  true,
                  false },
                { { "sha256=" RIGHT, NULL, "ping", NULL }, "Hello, World!", true, true },
                { { "sha256=" RIGHT, NULL, NULL, NULL }, "Hello, World", false, false },
                { { "sha256=" RIGHT, NULL, NULL, NULL }, "", false, false },
                { { RIGHT, NULL, NULL, NULL }, "Hello, World!", false, false },
                { { "sha1=" RIGHT, NULL, NULL, NULL }, "Hello, World!", false, false },
                { { "sha256=" RIGHT "0", NULL, NULL, NULL }, "Hello, World!", false, false },
                { { "sha256=" RIGHT ", sha256=" RIGHT, NULL, NULL, NULL }, "Hello, World!", false, false },
                { { "sha256= 57107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17", NULL, NULL,
                    NULL },
                  "Hello, World!",
                  false,
                  false },
                { { "sha256=", NULL, NULL, NULL }, "Hello, World!", false, false },
                { { "", NULL, NULL, NULL }, "Hello, World!", false, false },
                { { NULL, NULL, NULL, NULL }, "Hello, World!", false, false },
                { { NULL, SECRET, NULL, NULL }, "anything", true, false },
                { { NULL, "It's a Secret to everybody", NULL, NULL }, "anything", false, false },
                { { NULL, "", NULL, NULL }, "anything", false, false },
                { { "sha256=" RIGHT, NULL, "diagnostics:ping", NULL }, "Hello, World!", true, true },
                /* Basic authentication: any user name, and what is behind the first colon. */
                { { .authorization = "Basic dTpJdCdzIGEgU2VjcmV0IHRvIEV2ZXJ5Ym9keQ==" },
                  "anything",
                  true,
                  false },
                { { .authorization = "basic Okl0J3MgYSBTZWNyZXQgdG8gRXZlcnlib2R5" },
                  "anything",
                  true,
                  false },
                { { .authorization = "Basic SXQncyBhIFNlY3JldCB0byBFdmVyeWJvZHk=" },
                  "anything",
                  false,
                  false },
                { { .authorization = "Basic dTpJdCdzIGEgU2VjcmV0IHRvIEV2ZXJ5Ym9keTpJdA==" },
                  "anything",
                  false,
                  false },
                { { .authorization = "Basic dTpJdCdzIGEgU2VjcmV0IHRvIEV2ZXJ5Ym9keQB4" },
                  "anything",
                  false,
                  false },
                { { .authorization = "Basic !" }, "anything", false, false },
                { { .authorization = "Basic " }, "anything", false, false },
                { { .authorization = "Bearer dTpJdCdzIGEgU2VjcmV0IHRvIEV2ZXJ5Ym9keQ==" },
                  "anything",
                  false,
                  false },
                { { .authorization = "" }, "anything", false, false },
                /* A wrong signature is not made up for. */
                { { .signature = "sha256=", .authorization = "Basic Okl0J3MgYSBTZWNyZXQgdG8gRXZlcnlib2R5" },
                  "anything",
                  false,
                  false },
                { { .token = "x", .authorization = "Basic Okl0J3MgYSBTZWNyZXQgdG8gRXZlcnlib2R5" },
                  "anything",
                  false,
                  false },
                { { "sha256=", SECRET, NULL, NULL }, "anything", false, false },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct hook hook;
                bool right;

                hook_begin(&hook, SECRET, &cases[i].headers);
                hook_add(&hook, cases[i].body, strlen(cases[i].body));
                right = hook_end(&hook);
                if (right != cases[i].right || hook.ping != cases[i].ping)
                        fail_msg("case %zu: %d %d", i, right, hook.ping);
                hook_release(&hook);
        }
}

static void half_of_one_is_released(void **state) {
        const struct hook_headers headers = { .signature = "sha256=" RIGHT };
        struct hook hook = { 0 };

        (void)state;
        hook_release(&hook);
        hook_begin(&hook, SECRET, &headers);
        hook_add(&hook, "Hello", 5);
        hook_release(&hook);
        assert_null(hook.body);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(nothing_is_released),     cmocka_unit_test(vectors),
                cmocka_unit_test(texts_compared),          cmocka_unit_test(judged),
                cmocka_unit_test(half_of_one_is_released),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
