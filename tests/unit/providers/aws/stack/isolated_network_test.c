/* SPDX-License-Identifier: Apache-2.0 */
/* What the isolated network shall be, and how EC2's answers are read into what it is. */
#include "providers/aws/stack/isolated_network.h"

#include "providers/aws/shared/support.h"
#include "providers/aws/stack/stack.h"

static struct value *seen;

static void take(enum isolated_part part, const char *operation, const char *set, const char *items) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct error err;

        strbuf_printf(&response.body, "<%sResponse><%s>%s</%s></%sResponse>", operation, set, items, set,
                      operation);
        assert_int_equal(isolated_network_take(&team, part, &response, arena, seen, &err), 0);
}

#define TAGS(stack, lineage)                                \
        "<tagSet><item><key>berth:stack</key><value>" stack \
        "</value></item><item><key>berth:kind</key><value>" \
        "Stack</value></item><item><key>berth:name</key><value>" stack "</value></item>" lineage "</tagSet>"
#define LINEAGE(id) "<item><key>berth:lineage</key><value>" id "</value></item>"
#define RANGE(cidr) "<cidrBlock>" cidr "</cidrBlock>"
#define OURS RANGE(ISOLATED_CIDR) TAGS("team", LINEAGE("l-1"))

/* A VPC that carries other marks than ours, or ours in another range, where they were copied to, is never touched. */
static void a_vpc_is_ours_by_its_tags_and_range(void **state) {
        static const char *const others[] = {
                "<item><vpcId>vpc-0</vpcId>" RANGE(ISOLATED_CIDR) "</item>",
                "<item><vpcId>vpc-1</vpcId>" RANGE(ISOLATED_CIDR) TAGS("other", LINEAGE("l-1")) "</item>",
                "<item><vpcId>vpc-1</vpcId>" RANGE(ISOLATED_CIDR) TAGS("team", LINEAGE("l-2")) "</item>",
                "<item><vpcId>vpc-1</vpcId>" RANGE(ISOLATED_CIDR) TAGS("team", "") "</item>",
                "<item><vpcId>vpc-1</vpcId>" RANGE("10.0.0.0/16") TAGS("team", LINEAGE("l-1")) "</item>",
                "<item><vpcId>vpc-1</vpcId>" TAGS("team", LINEAGE("l-1")) "</item>",
        };

        (void)state;
        team.lineage.id = "l-1";
        for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
                seen = value_new_map(arena);
                take(ISOLATED_VPC, "DescribeVpcs", "vpcSet", others[i]);
                assert_null(value_get(seen, "vpc"));
                assert_null(value_get(seen, "tags"));
        }
        assert_false(isolated_network_can_read(seen, ISOLATED_SUBNET));
        assert_false(isolated_network_can_read(seen, ISOLATED_RULE));
        take(ISOLATED_VPC, "DescribeVpcs", "vpcSet",
             "<item><vpcId>vpc-2</vpcId>" OURS "</item><item><vpcId>vpc-1</vpcId>" RANGE("10.0.0.0/16")
                     TAGS("team", LINEAGE("l-1")) "</item>");
        assert_string_equal(value_get_text(seen, "vpc"), "vpc-2");
        assert_true(isolated_network_can_read(seen, ISOLATED_SUBNET));
        take(ISOLATED_VPC, "DescribeVpcs", "vpcSet", "");
        assert_null(value_get(seen, "vpc"));
        team.lineage.id = NULL;
}

/* Marks and range are copied as well: of two the known one is ours, and neither where none is known. */
static void of_two_the_known_one_is_ours(void **state) {
        static const char body[] =
                "<DescribeVpcsResponse><vpcSet><item><vpcId>vpc-1</vpcId>" OURS
                "</item><item><vpcId>vpc-2</vpcId>" OURS "</item></vpcSet></DescribeVpcsResponse>";
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct error err = { 0 };

        (void)state;
        team.lineage.id = "l-1";
        strbuf_append(&response.body, body);
        seen = value_new_map(arena);
        assert_int_equal(isolated_network_take(&team, ISOLATED_VPC, &response, arena, seen, &err), -1);
        assert_non_null(strstr(err.message, "vpc-1 and vpc-2"));
        value_set_text(arena, seen, "known", "vpc-2");
        assert_int_equal(isolated_network_take(&team, ISOLATED_VPC, &response, arena, seen, &err), 0);
        assert_string_equal(value_get_text(seen, "vpc"), "vpc-2");
        assert_int_equal(isolated_network_check(seen, &err), 0);
        value_unset(seen, "known");
        value_set_text(arena, seen, "known", "vpc-3");
        assert_int_equal(isolated_network_take(&team, ISOLATED_VPC, &response, arena, seen, &err), 0);
        assert_null(value_get(seen, "vpc"));
        assert_int_equal(isolated_network_check(seen, &err), -1);
        assert_non_null(strstr(err.message, "vpc-3"));
        team.lineage.id = NULL;
}

static const char *text_at(const char *name, struct value *recorded) {
        return value_get_text(isolated_network_spec(&team, seen, recorded, arena), name);
}

static void ways_out_are_seen(void **state) {
        (void)state;
        seen = value_new_map(arena);
        value_set_text(arena, seen, "prefix", "pl-1");
        take(ISOLATED_TABLE, "DescribeRouteTables", "routeTableSet",
             "<item><routeTableId>rtb-1</routeTableId><associationSet><item><main>true</main></item></associationSet><routeSet>"
             "<item><destinationCidrBlock>10.0.0.0/20</destinationCidrBlock><gatewayId>local</gatewayId></item>"
             "<item><destinationPrefixListId>pl-1</destinationPrefixListId><gatewayId>vpce-1</gatewayId></item></routeSet></item>"
             "<item><routeTableId>rtb-2</routeTableId><routeSet><item><destinationIpv6CidrBlock>::/0"
             "</destinationIpv6CidrBlock><egressOnlyInternetGatewayId>eigw-1</egressOnlyInternetGatewayId></item><item>"
             "<destinationPrefixListId>pl-2</destinationPrefixListId><gatewayId>vpce-2</gatewayId></item></routeSet></item>");
        assert_string_equal(value_get_text(seen, "table"), "rtb-1");
        assert_string_equal(text_at("routes", NULL), "to nowhere, and ::/0 by eigw-1, and pl-2 by vpce-2");
        take(ISOLATED_ENDPOINT, "DescribeVpcEndpoints", "vpcEndpointSet",
             "<item><vpcEndpointId>vpce-0</vpcEndpointId><state>deleting</state></item><item><vpcEndpointId>vpce-1"
             "</vpcEndpointId><policyDocument>{\"Statement\": []}</policyDocument><routeTableIdSet><item>rtb-1</item>"
             "</routeTableIdSet></item>");
        assert_string_equal(value_get_text(seen, "endpoint"), "vpce-1");
        assert_string_equal(text_at("routes", NULL), "to S3 alone, and ::/0 by eigw-1, and pl-2 by vpce-2");
        assert_string_equal(text_at("rules", NULL), "nothing");
        take(ISOLATED_RULE, "DescribeSecurityGroupRules", "securityGroupRuleSet",
             "<item><securityGroupRuleId>sgr-1</securityGroupRuleId><isEgress>true</isEgress><ipProtocol>tcp</ipProtocol>"
             "<fromPort>443</fromPort><toPort>443</toPort><prefixListId>pl-1</prefixListId></item>"
             "<item><securityGroupRuleId>sgr-2</securityGroupRuleId><isEgress>false</isEgress><ipProtocol>tcp</ipProtocol>"
             "<fromPort>443</fromPort><toPort>443</toPort><prefixListId>pl-1</prefixListId></item>"
             "<item><securityGroupRuleId>sgr-3</securityGroupRuleId><isEgress>true</isEgress><ipProtocol>tcp</ipProtocol>"
             "<fromPort>0</fromPort><toPort>443</toPort><prefixListId>pl-1</prefixListId></item>"
             "<item><securityGroupRuleId>sgr-4</securityGroupRuleId><isEgress>true</isEgress><ipProtocol>-1</ipProtocol>"
             "<cidrIpv4>0.0.0.0/0</cidrIpv4></item>");
        assert_string_equal(
                text_at("rules", NULL),
                "HTTPS to S3 alone, and tcp from pl-1, and tcp to pl-1, and everything to 0.0.0.0/0");
        assert_int_equal(value_get(seen, "rules")->count, 3);
}

static void subnets_are_known_by_their_ranges(void **state) {
        (void)state;
        seen = value_new_map(arena);
        take(ISOLATED_SUBNET, "DescribeSubnets", "subnetSet",
             "<item><subnetId>subnet-9</subnetId><cidrBlock>10.0.12.0/24</cidrBlock></item><item><subnetId>subnet-2</subnetId>"
             "<cidrBlock>10.0.8.0/21</cidrBlock><availabilityZone>b</availabilityZone></item>");
        assert_null(value_get(seen, "subnet0"));
        assert_string_equal(value_get_text(seen, "subnet1"), "subnet-2");
        assert_int_equal(value_get_integer(isolated_network_spec(&team, seen, NULL, arena), "subnets", 0), 1);
        take(ISOLATED_ZONES, "DescribeAvailabilityZones", "availabilityZoneInfo",
             "<item><zoneName>us-east-1a</zoneName><zoneId>use1-az3</zoneId></item><item><zoneName>us-east-1b</zoneName></item>");
        assert_int_equal(value_get(seen, "zones")->count, 1);
}

static struct value *desire(const char *stack, const struct value *recorded, bool unused) {
        struct provider provider = team;
        const struct resource resource = { .kind = kinds[KIND_STACK],
                                           .name = "team",
                                           .spec = value_of(stack) };
        struct observation observed = { .name = "team" };
        struct value *spec = NULL, *extra = value_new_map(arena);
        struct error err;

        provider.stack = resource.spec;
        value_set_boolean(arena, extra, ISOLATED_UNUSED, unused);
        observed.extra = extra;
        assert_int_equal(aws_stack_ops.desire(&provider, &resource, &observed, recorded, arena, &spec, &err),
                         0);
        return spec;
}

#define STACK(aws) "{\"aws\": {" aws "}}"

static void it_is_kept_until_nothing_is_in_it(void **state) {
        const struct value *made = desire(STACK("\"network\": \"isolated\""), NULL, false), *former;

        (void)state;
        assert_non_null(value_path(made, "network.endpoint.Statement"));
        assert_true(value_equal(
                value_get(made, "network"),
                value_get(desire(STACK("\"network\": \"open\", \"isolates\": true"), NULL, false), "network"),
                NULL));
        assert_null(value_get(desire(STACK(""), NULL, false), "network"));
        assert_true(value_equal(value_get(desire(STACK(""), made, false), "network"),
                                value_get(made, "network"), NULL));
        former = desire(STACK("\"network\": \"open\""), made, false);
        assert_null(value_get(former, "network"));
        assert_non_null(value_get(former, "formerNetwork"));
        assert_true(value_equal(desire(STACK("\"network\": \"open\""), former, false), former, NULL));
        assert_null(value_get(desire(STACK("\"network\": \"open\""), former, true), "formerNetwork"));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_vpc_is_ours_by_its_tags_and_range),
                cmocka_unit_test(of_two_the_known_one_is_ours),
                cmocka_unit_test(ways_out_are_seen),
                cmocka_unit_test(subnets_are_known_by_their_ranges),
                cmocka_unit_test(it_is_kept_until_nothing_is_in_it),
        };

        return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
