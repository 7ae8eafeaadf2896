/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/services/ec2.h"

#include "providers/aws/client/support.h"

static struct aws_response answer(const char *body) {
        struct aws_response response = AWS_RESPONSE_INIT;

        strbuf_append(&response.body, body);
        return response;
}

static void lists_are_read(void **state) {
        struct aws_response response AWS_RESPONSE_CLEANUP = answer(
                "<DescribeVpcsResponse xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\"><requestId>r</requestId><vpcSet>"
                "<item><vpcId>vpc-1</vpcId><tagSet><item><key>a</key><value>b</value></item><item><key>c</key>"
                "<value/></item></tagSet></item><item><vpcId>vpc-2</vpcId></item></vpcSet></DescribeVpcsResponse>");
        struct aws_response empty AWS_RESPONSE_CLEANUP =
                answer("<DescribeVpcsResponse><vpcSet>\n</vpcSet></DescribeVpcsResponse>");
        struct value list, *tags;
        struct error err;

        (void)state;
        assert_int_equal(ec2_read(&response, "DescribeVpcs", "vpcSet", arena, &list, &err), 0);
        assert_int_equal(list.count, 2);
        assert_string_equal(value_get_text(&list.items[1], "vpcId"), "vpc-2");
        tags = ec2_tags(&list.items[0], arena);
        assert_int_equal(tags->count, 2);
        assert_string_equal(value_get_text(tags, "c"), "");
        assert_int_equal(ec2_tags(&list.items[1], arena)->count, 0);
        assert_int_equal(ec2_read(&empty, "DescribeVpcs", "vpcSet", arena, &list, &err), 0);
        assert_int_equal(list.count, 0);
}

/* "None" is said by an empty list, and by nothing else. */
static void what_is_no_list_is_no_answer(void **state) {
        static const char *const bodies[] = {
                "<DescribeVpcsResponse/>",
                "<DescribeVpcsResponse><vpcSet>none</vpcSet></DescribeVpcsResponse>",
                "<DescribeVpcsResponse><vpcSet><vpcId>vpc-1</vpcId></vpcSet></DescribeVpcsResponse>",
                "<Response><vpcSet/></Response>",
                "<html><body>vpcSet</body></html>",
                "",
        };

        (void)state;
        for (size_t i = 0; i < sizeof(bodies) / sizeof(*bodies); i++) {
                struct aws_response response AWS_RESPONSE_CLEANUP = answer(bodies[i]);
                struct value list;
                struct error err;

                assert_int_equal(ec2_read(&response, "DescribeVpcs", "vpcSet", arena, &list, &err), -1);
        }
}

static void depth_is_bounded(void **state) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct value list;
        struct error err;

        (void)state;
        strbuf_append(&text, "<DescribeVpcsResponse><vpcSet>");
        for (int i = 0; i < 200; i++)
                strbuf_append(&text, "<item>");
        for (int i = 0; i < 200; i++)
                strbuf_append(&text, "</item>");
        strbuf_append(&text, "</vpcSet></DescribeVpcsResponse>");
        strbuf_append(&response.body, strbuf_text(&text));
        assert_int_equal(ec2_read(&response, "DescribeVpcs", "vpcSet", arena, &list, &err), 0);
        assert_int_equal(list.count, 1);
}

static void requests_say_what_ec2_asks(void **state) {
        const struct ec2_filter filters[] = { { "vpc-id", "vpc-1" }, { "group-name", "a b" }, { 0 } };
        const char *const ids[] = { "vpc-1", "sg-1", NULL };
        struct value *tags = value_new_map(arena);

        (void)state;
        value_set_text(arena, tags, "k", "v&");
        assert_string_equal(
                ec2_describe("DescribeSubnets", filters, arena).body,
                "&Filter.1.Name=vpc-id&Filter.1.Value.1=vpc-1&Filter.2.Name=group-name&Filter.2.Value.1=a%20b");
        assert_string_equal(
                ec2_create_vpc("10.0.0.0/20", tags, arena).body,
                "&CidrBlock=10.0.0.0%2F20&TagSpecification.1.ResourceType=vpc&TagSpecification.1.Tag.1.Key=k&"
                "TagSpecification.1.Tag.1.Value=v%26");
        assert_string_equal(ec2_delete_tags(ids, tags, arena).body,
                            "&ResourceId.1=vpc-1&ResourceId.2=sg-1&Tag.1.Key=k");
        assert_string_equal(ec2_modify_gateway("vpce-1", "{}", NULL, arena).body,
                            "&VpcEndpointId=vpce-1&PolicyDocument=%7B%7D");
        assert_string_equal(ec2_revoke("sg-1", "sgr-1", false, arena).operation,
                            "RevokeSecurityGroupIngress");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(lists_are_read),
                cmocka_unit_test(what_is_no_list_is_no_answer),
                cmocka_unit_test(depth_is_bounded),
                cmocka_unit_test(requests_say_what_ec2_asks),
        };

        return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
