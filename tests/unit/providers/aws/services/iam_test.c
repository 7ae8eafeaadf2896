/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/services/iam.h"

#include "providers/aws/client/support.h"

static void documents_are_decoded(void **state) {
        static const struct {
                const char *text, *decoded;
        } cases[] = {
                { "%7B%22a%22%3A%22100%25%22%7D", "{\"a\":\"100%\"}" },
                { "%7b%7d", "{}" },
                { "{\"a\":\"%41\"}", "{\"a\":\"%41\"}" },
                { " {\"a\":\"%41\"}", " {\"a\":\"%41\"}" },
                { "%7B+%7D", "{+}" },
                { "%7B%2", "{%2" },
                { "%zz", "%zz" },
                { "", "" },
        };

        (void)state;
        assert_null(iam_decode_document(NULL, arena));
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
                assert_string_equal(iam_decode_document(cases[i].text, arena), cases[i].decoded);
}

static void a_role_is_read(void **state) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct iam_role role;
        struct error err;

        (void)state;
        strbuf_append(
                &response.body,
                "<GetRoleResponse xmlns=\"https://iam.amazonaws.com/doc/2010-05-08/\"><GetRoleResult><Role>"
                "<Arn>arn:aws:iam::1:role/r</Arn><AssumeRolePolicyDocument>%7B%7D</AssumeRolePolicyDocument>"
                "<Tags><member><Key>a</Key><Value>b</Value></member><member><Key>c</Key><Value/></member></Tags>"
                "</Role></GetRoleResult></GetRoleResponse>");
        assert_int_equal(iam_read_role(&response, arena, &role, &err), 0);
        assert_string_equal(role.arn, "arn:aws:iam::1:role/r");
        assert_string_equal(role.trust, "{}");
        assert_string_equal(value_get_text(role.tags, "a"), "b");
        assert_string_equal(value_get_text(role.tags, "c"), "");
}

static void answers_without_what_they_promise_are_errors(void **state) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct iam_role role;
        const char *text;
        struct error err;

        (void)state;
        strbuf_append(&response.body, "<GetRoleResponse/>");
        assert_int_equal(iam_read_role(&response, arena, &role, &err), -1);
        assert_int_equal(iam_read_role_policy(&response, arena, &text, &err), -1);
}

static void lists_are_numbered(void **state) {
        struct value *tags = value_new_map(arena);
        struct aws_request request;

        (void)state;
        value_set_text(arena, tags, "berth:stack", "a b");
        value_set_text(arena, tags, "x", "");
        request = iam_tag_role("r", tags, arena);
        assert_non_null(strstr(request.body, "RoleName=r"));
        assert_non_null(strstr(request.body, "Tags.member.1.Key=berth%3Astack&Tags.member.1.Value=a%20b"));
        assert_non_null(strstr(request.body, "Tags.member.2.Key=x&Tags.member.2.Value="));
        request = iam_untag_role("r", tags, arena);
        assert_non_null(strstr(request.body, "TagKeys.member.1=berth%3Astack&TagKeys.member.2=x"));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(documents_are_decoded),
                cmocka_unit_test(a_role_is_read),
                cmocka_unit_test(answers_without_what_they_promise_are_errors),
                cmocka_unit_test(lists_are_numbered),
        };

        return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
