/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors with every intermediate step. tests/e2e/test_sigv4.py compares thousands more with botocore. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "providers/aws/client/sigv4.h"

#include <string.h>

#define EMPTY_HASH "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define KEY "AKIDEXAMPLE"
#define SECRET "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"

struct vector {
        const char *name;
        struct sigv4_request request;
        const char *token;
        const char *canonical_request;
        const char *string_to_sign; /* NULL: not looked at */
        const char *signature;      /* the same */
};

static const struct sigv4_header host_only[] = { { "Host", "example.amazonaws.com" } };
static const struct sigv4_header messy[] = {
        { "X-B", "  two  words\t" },
        { "Host", "example.amazonaws.com" },
        { "x-a", "1" },
        { "X-A", "2" },
        { "User-Agent", "left out" },
        { "x-a", "" },
};

#define REQUEST(m, p, q, h, s)                                                                    \
        {                                                                                         \
                .method = (m), .path = (p), .query = (q), .headers = (h),                         \
                .header_count = sizeof(h) / sizeof((h)[0]), .service = (s), .region = "us-east-1" \
        }

#define PLAIN_TAIL "host:example.amazonaws.com\nx-amz-date:20150830T123600Z\n\nhost;x-amz-date\n" EMPTY_HASH
#define S3_TAIL                                                        \
        "host:example.amazonaws.com\nx-amz-content-sha256:" EMPTY_HASH \
        "\nx-amz-date:20150830T123600Z\n\nhost;x-amz-content-sha256;x-amz-date\n" EMPTY_HASH

static const struct vector vectors[] = {
        /* From the published test suite of Signature Version 4: get-vanilla, with every step. */
        { "vanilla", REQUEST("GET", "/", "", host_only, "service"), NULL, "GET\n/\n\n" PLAIN_TAIL,
          "AWS4-HMAC-SHA256\n20150830T123600Z\n20150830/us-east-1/service/aws4_request\n"
          "bb579772317eb040ac9ed261061d46c1f17a8133879d6129b6e1c25292927e63",
          "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31" },
        /* get-vanilla-query-order-key-case */
        { "query order", REQUEST("GET", "/", "Param2=value2&Param1=value1", host_only, "service"), NULL,
          "GET\n/\nParam1=value1&Param2=value2\n" PLAIN_TAIL, NULL,
          "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500" },
        /* get-space-normalized, get-slash-dot-slash-normalized */
        { "encoded twice", REQUEST("GET", "/a%20b/arn%3Aaws", "", host_only, "service"), NULL,
          "GET\n/a%2520b/arn%253Aaws\n\n" PLAIN_TAIL, NULL, NULL },
        { "raw colon", REQUEST("GET", "/arn:aws", "", host_only, "service"), NULL,
          "GET\n/arn%3Aaws\n\n" PLAIN_TAIL, NULL, NULL },
        { "dots and slashes", REQUEST("GET", "//a/./b//../c/", "", host_only, "service"), NULL,
          "GET\n/a/c/\n\n" PLAIN_TAIL, NULL, NULL },
        { "above the root", REQUEST("GET", "/../..", "", host_only, "service"), NULL, "GET\n/\n\n" PLAIN_TAIL,
          NULL, NULL },
        { "no path", REQUEST("GET", "", "", host_only, "service"), NULL, "GET\n/\n\n" PLAIN_TAIL, NULL,
          NULL },
        { "S3 leaves the path", REQUEST("GET", "//a%20b/./..//c:d/", "", host_only, "s3"), NULL,
          "GET\n//a%20b/./..//c:d/\n\n" S3_TAIL, NULL, NULL },
        { "valueless key", REQUEST("GET", "/", "lifecycle", host_only, "s3"), NULL,
          "GET\n/\nlifecycle=\n" S3_TAIL, NULL, NULL },
        { "repeated keys by value", REQUEST("GET", "/", "k=b&a&k=a&k&a-b=1&a=", host_only, "service"), NULL,
          "GET\n/\na=&a=&a-b=1&k=&k=a&k=b\n" PLAIN_TAIL, NULL, NULL },
        { "trailing ampersand", REQUEST("GET", "/", "a=1&", host_only, "service"), NULL,
          "GET\n/\n=&a=1\n" PLAIN_TAIL, NULL, NULL },
        { "headers", REQUEST("GET", "/", "", messy, "service"), NULL,
          "GET\n/\n\nhost:example.amazonaws.com\nx-a:1,2,\nx-amz-date:20150830T123600Z\nx-b:two words\n\n"
          "host;x-a;x-amz-date;x-b\n" EMPTY_HASH,
          NULL, NULL },
        { "session token", REQUEST("POST", "/", "", host_only, "service"), "TOKEN==",
          "POST\n/\n\nhost:example.amazonaws.com\nx-amz-date:20150830T123600Z\nx-amz-security-token:TOKEN==\n\n"
          "host;x-amz-date;x-amz-security-token\n" EMPTY_HASH,
          NULL, NULL },
};

static void vectors_match(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
                const struct vector *vector = &vectors[i];
                struct sigv4_keys keys = { KEY, SECRET, vector->token };
                struct sigv4_result result SIGV4_RESULT_CLEANUP = SIGV4_RESULT_INIT;

                print_message("  %s\n", vector->name);
                sigv4_sign(&vector->request, &keys, "20150830T123600Z", &result);
                assert_string_equal(strbuf_text(&result.canonical_request), vector->canonical_request);
                if (vector->string_to_sign)
                        assert_string_equal(strbuf_text(&result.string_to_sign), vector->string_to_sign);
                if (vector->signature)
                        assert_string_equal(strstr(strbuf_text(&result.authorization), "Signature=") + 10,
                                            vector->signature);
        }
}

static void authorization_names_its_parts(void **state) {
        struct sigv4_request request = REQUEST("GET", "/", "", host_only, "service");
        struct sigv4_keys keys = { KEY, SECRET, NULL };
        struct sigv4_result result SIGV4_RESULT_CLEANUP = SIGV4_RESULT_INIT;

        (void)state;
        sigv4_sign(&request, &keys, "20150830T123600Z", &result);
        assert_string_equal(
                strbuf_text(&result.authorization),
                "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
                "SignedHeaders=host;x-amz-date, "
                "Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
        assert_string_equal(result.date, "20150830T123600Z");
}

static void body_changes_the_signature(void **state) {
        struct sigv4_request request = REQUEST("POST", "/", "", host_only, "service");
        struct sigv4_keys keys = { KEY, SECRET, NULL };
        struct sigv4_result empty SIGV4_RESULT_CLEANUP = SIGV4_RESULT_INIT;
        struct sigv4_result full SIGV4_RESULT_CLEANUP = SIGV4_RESULT_INIT;

        (void)state;
        sigv4_sign(&request, &keys, "20150830T123600Z", &empty);
        request.body = "Param1=value1";
        request.body_length = strlen("Param1=value1");
        sigv4_sign(&request, &keys, "20150830T123600Z", &full);
        assert_string_equal(empty.payload_hash, EMPTY_HASH);
        assert_string_equal(full.payload_hash,
                            "9095672bbd1f56dfc5b65f3e153adc8731a4a654192329106275f4c7b24d0b6e");
        assert_string_not_equal(strbuf_text(&empty.authorization), strbuf_text(&full.authorization));
}

static void dates(void **state) {
        char date[SIGV4_DATE_SIZE];

        (void)state;
        sigv4_date(INT64_C(1440938160999), date);
        assert_string_equal(date, "20150830T123600Z");
        sigv4_date(0, date);
        assert_string_equal(date, "19700101T000000Z");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(vectors_match),
                cmocka_unit_test(authorization_names_its_parts),
                cmocka_unit_test(body_changes_the_signature),
                cmocka_unit_test(dates),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
