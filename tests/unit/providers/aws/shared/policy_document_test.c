/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/shared/policy_document.h"

#include "base/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static json_t *normal(const char *text) {
        json_t *document JSON_CLEANUP = policy_document_parse(text);

        assert_non_null(document);
        return policy_document_normalise(document);
}

/* Pairs of documents: those that mean the same, and those that do not. */
static void compares_by_meaning(void **state) {
        static const struct {
                const char *a, *b;
                bool same;
        } cases[] = {
                { "{\"Statement\":[{\"Action\":[\"a:x\"]}]}", "{\"Statement\":{\"Action\":\"a:x\"}}", true },
                { "{\"Statement\":[{\"Action\":[\"a:y\",\"a:x\"]}]}",
                  "{\"Statement\":[{\"Action\":[\"a:x\",\"a:y\"]}]}", true },
                { "{\"Statement\":[{\"Sid\":\"A\"},{\"Sid\":\"B\"}]}",
                  "{\"Statement\":[{\"Sid\":\"B\"},{\"Sid\":\"A\"}]}", true },
                { "{ \"Version\" : \"v\",\n \"Statement\" : [ ] }", "{\"Statement\":[],\"Version\":\"v\"}",
                  true },
                { "{\"Statement\":[{\"Condition\":{\"Bool\":{\"k\":false}}}]}",
                  "{\"Statement\":[{\"Condition\":{\"Bool\":{\"k\":[\"false\"]}}}]}", true },
                { "{\"Statement\":[{\"Principal\":{\"AWS\":[\"b\",\"a\"]}}]}",
                  "{\"Statement\":[{\"Principal\":{\"AWS\":[\"a\",\"b\",\"a\"]}}]}", true },
                { "{\"Statement\":[{\"Action\":\"a:x\"}]}", "{\"Statement\":[{\"Action\":\"a:y\"}]}", false },
                { "{\"Statement\":[{\"Effect\":\"Allow\"}]}", "{\"Statement\":[{\"Effect\":\"Deny\"}]}",
                  false },
                { "{\"Statement\":[{\"Sid\":\"A\"}]}", "{\"Statement\":[{\"Sid\":\"A\"},{\"Sid\":\"B\"}]}",
                  false },
                { "{\"Statement\":[{\"Action\":\"a:x\"}]}", "{\"Statement\":[{\"NotAction\":\"a:x\"}]}",
                  false },
                { "{\"Statement\":[{\"Action\":\"a:x\"}]}",
                  "{\"Statement\":[{\"Action\":\"a:x\",\"Condition\":{\"Bool\":{\"k\":\"true\"}}}]}", false },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                json_t *a JSON_CLEANUP = normal(cases[i].a);
                json_t *b JSON_CLEANUP = normal(cases[i].b);

                if ((json_equal(a, b) == 1) != cases[i].same)
                        fail_msg("case %zu: %s and %s", i, cases[i].a, cases[i].b);
        }
}

static void what_is_no_document_is_none(void **state) {
        static const char *const texts[] = { "", "[]", "\"x\"", "{", "{\"a\":1,\"a\":2}" };

        (void)state;
        assert_null(policy_document_parse(NULL));
        for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
                assert_null(policy_document_parse(texts[i]));
}

static void execution_has_the_least_rights(void **state) {
        const struct policy_place place = { "aws-cn", "cn-north-1", "123456789012", "lab", NULL, false };
        json_t *document JSON_CLEANUP = policy_document_execution(&place);
        char *text = json_compact(document);

        (void)state;
        assert_string_equal(
                text,
                "{\"Statement\":[{\"Action\":[\"logs:CreateLogGroup\",\"logs:CreateLogStream\",\"logs:PutLogEvents\"],"
                "\"Effect\":\"Allow\","
                "\"Resource\":\"arn:aws-cn:logs:cn-north-1:123456789012:log-group:/aws/lambda/lab-env-*\","
                "\"Sid\":\"WriteLogs\"}],\"Version\":\"2012-10-17\"}");
        free(text);
}

/* For one environment no resource ends where another one's name may go on. */
static void execution_of_one_environment_is_narrower(void **state) {
        const struct policy_place place = { "aws", "eu-west-1", "123456789012", "lab", "x", false };
        json_t *document JSON_CLEANUP = policy_document_execution(&place);
        char *text = json_compact(document);

        (void)state;
        assert_string_equal(
                text,
                "{\"Statement\":[{\"Action\":[\"logs:CreateLogGroup\",\"logs:CreateLogStream\",\"logs:PutLogEvents\"],"
                "\"Effect\":\"Allow\","
                "\"Resource\":[\"arn:aws:logs:eu-west-1:123456789012:log-group:/aws/lambda/lab-env-x\","
                "\"arn:aws:logs:eu-west-1:123456789012:log-group:/aws/lambda/lab-env-x:*\"],\"Sid\":\"WriteLogs\"}],"
                "\"Version\":\"2012-10-17\"}");
        free(text);
}

/* Whatever an environment's functions may come to, of data they reach none by their role. */
static void no_role_reaches_data(void **state) {
        (void)state;
        for (int i = 0; i < 4; i++) {
                const struct policy_place place = { "aws", "eu-west-1",        "123456789012",
                                                    "lab", i % 2 ? "x" : NULL, i / 2 };
                json_t *document JSON_CLEANUP = policy_document_execution(&place);
                char *text = json_compact(document);

                assert_null(strstr(text, "s3"));
                assert_null(strstr(text, "kms"));
                assert_null(strstr(text, "dynamodb"));
                free(text);
        }
}

static void functions_may_not_use_what_lambda_needs_for_them(void **state) {
        const struct policy_place place = { "aws", "eu-west-1", "123456789012", "lab", NULL, true };
        json_t *document JSON_CLEANUP = policy_document_execution(&place);
        const json_t *statements = json_object_get(document, "Statement"), *deny;

        (void)state;
        assert_int_equal(json_array_size(statements), 3);
        deny = json_array_get(statements, 2);
        assert_true(json_equal(json_object_get(deny, "Action"),
                               json_object_get(json_array_get(statements, 1), "Action")));
        assert_string_equal(json_string_value(json_object_get(deny, "Effect")), "Deny");
        assert_string_equal(json_string_value(json_object_get(
                                    json_object_get(json_object_get(deny, "Condition"), "ArnLike"),
                                    "lambda:SourceFunctionArn")),
                            "arn:aws:lambda:eu-west-1:123456789012:function:lab-env-*");
}

static void only_lambda_is_trusted(void **state) {
        json_t *document JSON_CLEANUP = policy_document_trust();
        char *text = json_compact(document);

        (void)state;
        assert_string_equal(
                text, "{\"Statement\":[{\"Action\":\"sts:AssumeRole\",\"Effect\":\"Allow\",\"Principal\":{"
                      "\"Service\":\"lambda.amazonaws.com\"}}],\"Version\":\"2012-10-17\"}");
        free(text);
}

#define OURS                                                                                                   \
        "{\"Sid\":\"BerthTlsOnly\",\"Effect\":\"Deny\",\"Principal\":\"*\",\"Action\":\"s3:*\",\"Resource\":[" \
        "\"arn:aws:s3:::b\",\"arn:aws:s3:::b/*\"],\"Condition\":{\"Bool\":{\"aws:SecureTransport\":\"false\"}}}"

static void tls_statement_is_found_in_any_form(void **state) {
        static const struct {
                const char *text;
                bool has;
        } cases[] = {
                { "{\"Statement\":[" OURS "]}", true },
                { "{\"Statement\":" OURS "}", true },
                { "{\"Statement\":[{\"Sid\":\"Other\",\"Effect\":\"Allow\"}," OURS "]}", true },
                { "{\"Statement\":[{\"Sid\":\"BerthTlsOnly\",\"Effect\":\"Deny\",\"Principal\":\"*\",\"Action\":[\"s3:*\"],"
                  "\"Resource\":[\"arn:aws:s3:::b/*\",\"arn:aws:s3:::b\"],"
                  "\"Condition\":{\"Bool\":{\"aws:SecureTransport\":false}}}]}",
                  true },
                { NULL, false },
                { "", false },
                { "{\"Statement\":[]}", false },
                { "{\"Statement\":[{\"Sid\":\"BerthTlsOnly\",\"Effect\":\"Allow\"}]}", false },
                { "{\"Statement\":[{\"Sid\":\"BerthTlsOnly\",\"Effect\":\"Deny\",\"Principal\":\"*\",\"Action\":\"s3:*\","
                  "\"Resource\":\"arn:aws:s3:::b\",\"Condition\":{\"Bool\":{\"aws:SecureTransport\":\"false\"}}}]}",
                  false },
        };
        json_t *statement JSON_CLEANUP = policy_document_tls_statement("aws", "b");

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                if (policy_document_has(cases[i].text, statement) != cases[i].has)
                        fail_msg("case %zu: %s", i, cases[i].text);
        }
}

static void other_statements_stay(void **state) {
        static const char *const cases[] = {
                "{\"Version\":\"2012-10-17\",\"Statement\":[{\"Sid\":\"Other\",\"Effect\":\"Allow\"}]}",
                "{\"Version\":\"2012-10-17\",\"Statement\":{\"Sid\":\"Other\",\"Effect\":\"Allow\"}}",
                "{\"Id\":1,\"Statement\":[{\"Sid\":\"BerthTlsOnly\"},{\"Sid\":\"Other\",\"Effect\":\"Allow\"}]}",
        };
        json_t *statement JSON_CLEANUP = policy_document_tls_statement("aws", "b");

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                char *text = policy_document_with(cases[i], statement);

                assert_non_null(text);
                assert_true(policy_document_has(text, statement));
                assert_non_null(strstr(text, "{\"Effect\":\"Allow\",\"Sid\":\"Other\"}"));
                assert_null(strstr(text, "\"Effect\":\"Allow\",\"Sid\":\"BerthTlsOnly\""));
                free(text);
        }
}

static void what_somebody_denies_under_our_sid_stays_denied(void **state) {
        json_t *statement JSON_CLEANUP = policy_document_tls_statement("aws", "b");
        char *text = policy_document_with("{\"Statement\":[{\"Sid\":\"BerthTlsOnly\",\"Effect\":\"Deny\","
                                          "\"Principal\":\"*\",\"Action\":\"s3:Put*\"}]}",
                                          statement);
        char *again = policy_document_with(text, statement);

        (void)state;
        assert_true(policy_document_has(text, statement));
        assert_non_null(strstr(text, "{\"Action\":\"s3:Put*\",\"Effect\":\"Deny\",\"Principal\":\"*\"}"));
        assert_string_equal(text, again);
        free(text);
        free(again);
}

static void a_first_statement_makes_a_policy(void **state) {
        json_t *statement JSON_CLEANUP = policy_document_tls_statement("aws", "b");
        char *text = policy_document_with(NULL, statement);

        (void)state;
        assert_true(policy_document_has(text, statement));
        assert_non_null(strstr(text, "\"Version\":\"2012-10-17\""));
        free(text);
        assert_null(policy_document_with("no policy", statement));
        assert_null(policy_document_with("{\"Statement\":\"x\"}", statement));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(compares_by_meaning),
                cmocka_unit_test(what_is_no_document_is_none),
                cmocka_unit_test(execution_has_the_least_rights),
                cmocka_unit_test(no_role_reaches_data),
                cmocka_unit_test(execution_of_one_environment_is_narrower),
                cmocka_unit_test(functions_may_not_use_what_lambda_needs_for_them),
                cmocka_unit_test(only_lambda_is_trusted),
                cmocka_unit_test(tls_statement_is_found_in_any_form),
                cmocka_unit_test(other_statements_stay),
                cmocka_unit_test(what_somebody_denies_under_our_sid_stays_denied),
                cmocka_unit_test(a_first_statement_makes_a_policy),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
