/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that are quoted: AWS's, by the region's own endpoint, and no other server's. */
#include "support.h"

#include "providers/aws/client/answer.h"
#include "providers/aws/client/explain.h"

#include <stdio.h>
#include <string.h>

static const struct aws_request get_function = { .service = AWS_LAMBDA, .operation = "GetFunction" };

static void explain(char *configured_by, const char *code, const char *message, struct error *err) {
        const struct endpoint endpoint = { .host = (char *)"h",
                                           .signing_region = (char *)"eu-west-1",
                                           .configured_by = configured_by };
        const struct circumstances circumstances = { .request = &get_function,
                                                     .endpoint = &endpoint,
                                                     .credentials_origin = "the profile x" };
        struct aws_response response = { .status = 404 };

        snprintf(response.error_code, sizeof(response.error_code), "%s", code);
        snprintf(response.error_message, sizeof(response.error_message), "%s", message);
        snprintf(response.request_id, sizeof(response.request_id), "r-1");
        if (configured_by)
                answer_withhold(&response);
        assert_int_equal(explain_answer(&circumstances, &response, err), -1);
}

static void whose_words_are_quoted(void **state) {
        char by[] = "AWS_ENDPOINT_URL";
        static const struct {
                bool own;
                const char *code, *message, *says;
        } cases[] = {
                { true, "ResourceNotFoundException", "no f",
                  "lambda GetFunction: 404 ResourceNotFoundException: no f (request r-1)" },
                { false, "ResourceNotFoundException", "no f",
                  "lambda GetFunction: 404 ResourceNotFoundException (its words are not quoted: AWS_ENDPOINT_URL "
                  "names an endpoint that is not AWS's own)" },
                { false, "NotFound", "", "lambda GetFunction: 404 NotFound" },
                { false, "AKIA0123", "", "lambda GetFunction: 404 UnknownError" },
                { false, "a token", "", "lambda GetFunction: 404 UnknownError" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct error err = { 0 };

                explain(cases[i].own ? NULL : by, cases[i].code, cases[i].message, &err);
                assert_string_equal(err.message, cases[i].says);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(whose_words_are_quoted) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
