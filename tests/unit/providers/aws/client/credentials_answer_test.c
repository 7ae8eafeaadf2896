/* SPDX-License-Identifier: Apache-2.0 */
/* Keys read from answers, and where a container's may be asked for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "providers/aws/client/credentials_answer.h"
#include "providers/aws/client/credentials_container.h"
#include "providers/aws/client/sso_token.h"

#include <stdlib.h>
#include <string.h>

#define NOON INT64_C(1769860800000) /* 2026-01-31T12:00:00Z */

static int64_t noon(const struct clock *clock) {
        (void)clock;
        return NOON;
}

static const struct clock clock_at_noon = { .wall_ms = noon, .monotonic_ms = noon };

static void times_are_read(void **state) {
        static const struct {
                const char *text;
                int64_t ms;
        } times[] = {
                { "2026-01-31T12:00:00Z", NOON },
                { "2026-01-31 12:00:00Z", NOON },
                { "2026-01-31T12:00:00UTC", NOON }, /* as older AWS CLIs wrote it */
                { "2026-01-31T12:00:00.123Z", NOON },
                { "2026-01-31T12:00:00+00:00", NOON },
                { "2026-01-31T13:30:00.5+01:30", NOON },
                { "2026-01-31T07:00:00-0500", NOON },
                { "2026-01-31T13:00:00+01", NOON },
                { "2026-01-31T12:00:00", -1 },
                { "2026-01-31T12:00:00.Z", -1 },
                { "2026-01-31T12:00:00+1", -1 },
                { "2026-01-31T12:00:00+01:0", -1 },
                { "2026-01-31T12:00:00+01:00x", -1 },
                { "2026-01-31T12:00:00+24:00", -1 },
                { "2026-01-31T12:00:00Z ", -1 },
                { "2026-01-31", -1 },
                { "2026-13-31T12:00:00Z", -1 },
                { "tomorrow", -1 },
                { "", -1 },
                { NULL, -1 },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
                if (credentials_answer_time_ms(times[i].text) != times[i].ms)
                        fail_msg("%s is read as %lld", times[i].text,
                                 (long long)credentials_answer_time_ms(times[i].text));
        }
}

static const struct credentials_answer_form process = { .what = "it",
                                                        .origin = "me",
                                                        .token = "SessionToken" };
static const struct credentials_answer_form container = {
        .what = "it", .origin = "me", .token = "Token", .must_be_session = true
};
#define PAIR "\"AccessKeyId\": \"A\", \"SecretAccessKey\": \"SECRET\""

static const struct {
        const struct credentials_answer_form *form;
        const char *text;
        const char *problem; /* NULL: keys */
        const char *token;
        int64_t expires_ms;
} answers[] = {
        { &process, "{" PAIR "}", NULL, NULL, 0 },
        { &process, "{\"AccessKeyId\": \"A\\n\", \"SecretAccessKey\": \"S\"}",
          "AccessKeyId holds a line break", NULL, 0 },
        { &process, "{\"AccessKeyId\": \"A\", \"SecretAccessKey\": \"S\\t\"}",
          "SecretAccessKey holds a line break", NULL, 0 },
        { &process, "{" PAIR ", \"SessionToken\": \"T\\r\\nX: 1\"}",
          "SessionToken holds a line break or another control character (credentials of me)", NULL, 0 },
        { &process, "{" PAIR ", \"SessionToken\": null, \"Expiration\": null}", NULL, NULL, 0 },
        { &process, "{" PAIR ", \"SessionToken\": \"T\", \"Expiration\": \"2026-01-31T12:00:01Z\"}", NULL,
          "T", NOON + 1000 },
        { &container,
          "{" PAIR ", \"Token\": \"T\", \"Expiration\": \"2026-01-31T13:00:00Z\", \"More\": [{}]}", NULL, "T",
          NOON + 3600000 },
        { &process, "{" PAIR ", \"Expiration\": \"2026-01-31T12:00:00Z\"}",
          "have expired (2026-01-31T12:00:00Z)", NULL, 0 },
        { &process, "{" PAIR ", \"Expiration\": \"SECRET\"}", "an Expiration that is no time", NULL, 0 },
        { &process, "{" PAIR ", \"Expiration\": 1769860800}", "an Expiration that is no time", NULL, 0 },
        { &process, "{\"AccessKeyId\": \"A\"}", "it has no SecretAccessKey", NULL, 0 },
        { &process, "{\"AccessKeyId\": \"\", \"SecretAccessKey\": \"SECRET\"}", "it has no AccessKeyId", NULL,
          0 },
        { &process, "{\"AccessKeyId\": 1, \"SecretAccessKey\": \"SECRET\"}", "it has no AccessKeyId", NULL,
          0 },
        { &container, "{" PAIR ", \"Expiration\": \"2026-01-31T13:00:00Z\"}", "it has no Token", NULL, 0 },
        { &container, "{" PAIR ", \"Token\": \"T\"}", "it has no Expiration", NULL, 0 },
        { &process, "[\"SECRET\"]", "it is no JSON object", NULL, 0 },
        { &process, "\"SECRET\"", "it is not JSON", NULL, 0 },
        { &process, "SECRET", "it is not JSON (line 1, column", NULL, 0 },
        { &process, "{" PAIR, "it is not JSON", NULL, 0 },
        { &process, "", "it is not JSON", NULL, 0 },
};

static int read_one(const char *text, const struct credentials_answer_form *form, struct credentials **ret,
                    struct error *err) {
        struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT;
        json_t *object CREDENTIALS_ANSWER_CLEANUP = NULL;

        strbuf_append(&bytes, text);
        if (credentials_answer_parse(&bytes, form->what, &object, err) < 0)
                return -1;
        return credentials_answer_read_keys(object, form, &clock_at_noon, ret, err);
}

static void answers_hold_keys_or_say_why_not(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
                struct credentials *keys CREDENTIALS_CLEANUP = NULL;
                struct error err = { 0 };
                int result = read_one(answers[i].text, answers[i].form, &keys, &err);

                if (answers[i].problem) {
                        assert_int_equal(result, -1);
                        assert_null(keys);
                        assert_non_null(strstr(err.message, answers[i].problem));
                        assert_null(strstr(err.message, "SECRET"));
                        continue;
                }
                assert_int_equal(result, 0);
                assert_string_equal(credentials_keys(keys).access_key, "A");
                assert_string_equal(credentials_keys(keys).secret_key, "SECRET");
                assert_int_equal(credentials_expire_ms(keys), answers[i].expires_ms);
                if (answers[i].token)
                        assert_string_equal(credentials_keys(keys).token, answers[i].token);
                else
                        assert_null(credentials_keys(keys).token);
        }
}

static void containers_are_asked_where_aws_puts_them(void **state) {
        static const struct {
                const char *url;
                bool allowed;
        } urls[] = {
                { "https://anywhere.example/x?y=1", true },
                { "http://127.0.0.1:80/", true },
                { "http://127.9.9.9/x", true },
                { "http://localhost:1338/x?y", true },
                { "http://LOCALHOST/x", true },
                { "http://[::1]/x", true },
                { "http://169.254.170.2/x", true },
                { "http://169.254.170.23/v1/credentials", true },
                { "http://[fd00:ec2::23]/v1/credentials", true },
                { "http://169.254.170.3/x", false },
                { "http://169.254.170.2.example.com/x", false },
                { "http://169.254.170.2@example.com/x", false },
                { "https://user:word@example.com/x", false },
                { "http://example.com/127.0.0.1", false },
                { "http://example.com#@127.0.0.1/", false },
                { "http://localhost.example.com/", false },
                { "http://any.localhost/", false },
                { "http://[fd00:ec2::24]/", false },
                { "http://[::ffff:1.2.3.4]/", false },
                { "ftp://127.0.0.1/", false },
                { "file:///etc/passwd", false },
                { "/relative", false },
                { "", false },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
                struct error err = { 0 };
                bool allowed = credentials_container_check_url(urls[i].url, "THE_SETTING", &err) == 0;

                if (allowed != urls[i].allowed)
                        fail_msg("%s: %s", urls[i].url, allowed ? "taken" : err.message);
                if (!allowed)
                        assert_non_null(strstr(err.message, "THE_SETTING"));
        }
}

/* As `aws sso login` names its files: `printf corp | sha1sum`. */
static void sso_tokens_are_found(void **state) {
        struct error err;
        char *path;

        (void)state;
        setenv("HOME", "/home/me", 1);
        path = sso_token_path("corp", &err);
        assert_string_equal(path, "/home/me/.aws/sso/cache/ee0bfd2552fbd840c02cc48b6e823320543c450f.json");
        free(path);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(times_are_read),
                cmocka_unit_test(answers_hold_keys_or_say_why_not),
                cmocka_unit_test(containers_are_asked_where_aws_puts_them),
                cmocka_unit_test(sso_tokens_are_found),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
