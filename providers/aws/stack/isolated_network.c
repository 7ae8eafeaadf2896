/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the isolated network shall be, and what it is.
 *
 * A VPC has no name that only one could have. It is ours by its id, where the state has it, and by its tags, which it gets in the
 * call that makes it, and its range;
 * everything else is ours by lying in it: subnets by their ranges, the security group by its name, the endpoint by its service. The main
 * route table and the two lists of rules are compared whole: whatever stands there beside what Berth put there is drift, since
 * one more route or rule is all it takes for a network to lead somewhere.
 */
#include "providers/aws/stack/isolated_network.h"

#include "base/json.h"
#include "providers/aws/client/aws_json.h"
#include "providers/aws/client/texts.h"
#include "providers/aws/services/ec2.h"
#include "providers/aws/shared/aws_tags.h"
#include "providers/aws/shared/execution_role.h"
#include "providers/aws/shared/lineage.h"
#include "providers/aws/shared/policy_document.h"
#include "providers/aws/stack/stack.h"

#include <stdio.h>
#include <string.h>

const char *const isolated_subnet_cidrs[ISOLATED_SUBNETS] = { "10.0.0.0/21", "10.0.8.0/21" };

#define S3_ALONE "to S3 alone"
#define HTTPS_ALONE "HTTPS to S3 alone"

bool isolated_network_is_wanted(const struct provider *provider) {
        return texts_same(value_text_of(value_path(provider->stack, "aws.network")), "isolated") ||
               value_get_boolean(value_get(provider->stack, "aws"), "isolates", false);
}

bool isolated_network_is_said(const struct provider *provider) {
        return value_path(provider->stack, "aws.network") != NULL;
}

struct value *isolated_network_wish(const struct provider *provider, struct arena *arena) {
        struct value *network = value_new_map(arena);

        value_set_integer(arena, network, "subnets", ISOLATED_SUBNETS);
        value_set_text(arena, network, "routes", S3_ALONE);
        value_set_text(arena, network, "rules", HTTPS_ALONE);
        if (provider->bucket)
                execution_role_set_document(network, "endpoint",
                                            policy_document_endpoint(provider->partition, provider->bucket),
                                            arena);
        value_set(arena, network, "tags", *stack_tags(provider, arena));
        return network;
}

/*
 * "to S3 alone", and what else there is: "to S3 alone, and 0.0.0.0/0 by igw-1, in vpc-1". A person
 * who approves a change sees by the id which VPC changes.
 */
static const char *with_others(const char *wished, const char *ours, const struct value *others,
                               const struct value *seen, struct arena *arena) {
        const char *vpc = value_get_text(seen, "vpc"), *text = ours;

        for (uint32_t i = 0; others && i < others->count; i++)
                text = arena_printf(arena, "%s, and %s", text, value_get_text(&others->items[i], "text"));
        return vpc && strcmp(text, wished) != 0 ? arena_printf(arena, "%s, in %s", text, vpc) : text;
}

struct value *isolated_network_spec(const struct provider *provider, const struct value *seen,
                                    const struct value *recorded, struct arena *arena) {
        const struct value *policy = value_get(seen, "policy");
        struct value *network = value_new_map(arena);
        const struct value *wished = stack_tags(provider, arena);
        bool routed = value_get_boolean(seen, "endpointHasTable", false);
        bool allowed = value_get_boolean(seen, "allowed", false);

        value_set_integer(arena, network, "subnets",
                          (value_get(seen, "subnet0") != NULL) + (value_get(seen, "subnet1") != NULL));
        value_set_text(arena, network, "routes",
                       with_others(S3_ALONE, routed ? S3_ALONE : "to nowhere", value_get(seen, "routes"),
                                   seen, arena));
        value_set_text(arena, network, "rules",
                       with_others(HTTPS_ALONE, allowed ? HTTPS_ALONE : "nothing", value_get(seen, "rules"),
                                   seen, arena));
        if (policy)
                value_set(arena, network, "endpoint", *policy);
        value_set(arena, network, "tags",
                  *aws_tags_of_ours(value_get(seen, "tags"), wished, value_get(recorded, "tags"), arena));
        return network;
}

bool isolated_network_can_read(const struct value *seen, enum isolated_part part) {
        if (part == ISOLATED_RULE)
                return value_get(seen, "group") != NULL;
        if (part == ISOLATED_VPC || part == ISOLATED_ZONES)
                return true;
        return value_get(seen, "vpc") != NULL;
}

static const char *s3_service(const struct provider *provider, struct arena *arena) {
        return arena_printf(arena, "com.amazonaws.%s.s3", provider->region);
}

struct aws_request isolated_network_request(const struct provider *provider, const struct value *seen,
                                            enum isolated_part part, struct arena *arena) {
        const struct ec2_filter in_vpc = { "vpc-id", value_get_text(seen, "vpc") };
        struct ec2_filter filters[3] = { in_vpc };

        switch (part) {
        case ISOLATED_VPC:
                filters[0] = (struct ec2_filter){ "tag:berth:stack", provider->stack_name };
                filters[1] = (struct ec2_filter){ "tag:berth:kind", "Stack" };
                return ec2_describe("DescribeVpcs", filters, arena);
        case ISOLATED_PREFIX:
                filters[0] = (struct ec2_filter){ "prefix-list-name", s3_service(provider, arena) };
                return ec2_describe("DescribePrefixLists", filters, arena);
        case ISOLATED_SUBNET:
                return ec2_describe("DescribeSubnets", filters, arena);
        case ISOLATED_TABLE:
                return ec2_describe("DescribeRouteTables", filters, arena);
        case ISOLATED_ENDPOINT:
                filters[1] = (struct ec2_filter){ "service-name", s3_service(provider, arena) };
                return ec2_describe("DescribeVpcEndpoints", filters, arena);
        case ISOLATED_GROUP:
                filters[1] =
                        (struct ec2_filter){ "group-name", isolated_network_group_name(provider, arena) };
                return ec2_describe("DescribeSecurityGroups", filters, arena);
        case ISOLATED_RULE:
                filters[0] = (struct ec2_filter){ "group-id", value_get_text(seen, "group") };
                return ec2_describe("DescribeSecurityGroupRules", filters, arena);
        default:
                filters[0] = (struct ec2_filter){ "state", "available" };
                filters[1] = (struct ec2_filter){ "zone-type", "availability-zone" };
                return ec2_describe("DescribeAvailabilityZones", filters, arena);
        }
}

static void set_again(struct value *seen, const char *name, const char *text, struct arena *arena) {
        value_unset(seen, name);
        value_set_text(arena, seen, name, text);
}

/*
 * Tags are copied from VPC to VPC, and in ours every route and rule that is not Berth's goes: it
 * must have the very range that Berth gives it as well, and the lineage of this state or of one
 * that it took over. A VPC without a lineage belongs to no stack.
 */
static bool has_marks(const struct provider *provider, const struct value *vpc, const struct value *tags) {
        return aws_tags_name(tags, "Stack", provider->stack_name) && aws_lineage_of(tags) &&
               aws_is_of_stack(provider, tags) && texts_same(value_get_text(vpc, "cidrBlock"), ISOLATED_CIDR);
}

static bool is_own_network(const struct provider *provider, const struct value *vpc,
                           const struct value *tags) {
        return has_marks(provider, vpc, tags) && lineage_is_ours(provider, aws_lineage_of(tags));
}

#define UNMARK "take the tag berth:lineage away from %s (aws ec2 delete-tags)"

/*
 * The one that is known, or else the only one with the marks. Otherwise a user who can copy the
 * marks could hand over a VPC to be rebuilt, or have another one used. Two of them are also what a
 * lost answer and a list that lags may leave.
 */
static int take_vpc(const struct provider *provider, const struct value *list, struct arena *arena,
                    struct value *seen, struct error *err) {
        const char *known = value_get_text(seen, "known"), *chosen = NULL, *copy = NULL;
        const struct value *chosen_tags = NULL;

        for (uint32_t i = 0; i < list->count; i++) {
                const char *id = value_get_text(&list->items[i], "vpcId");
                struct value *tags = ec2_tags(&list->items[i], arena);

                if (!id || !is_own_network(provider, &list->items[i], tags))
                        continue;
                if (known ? strcmp(id, known) != 0 : chosen != NULL) {
                        copy = id;
                        continue;
                }
                chosen = id;
                chosen_tags = tags;
        }
        if (!known && copy)
                return error_set(
                        err,
                        "the VPCs %s and %s both carry this stack's marks and range, and no state tells "
                        "which of them Berth made: " UNMARK,
                        chosen, copy, "the other one");
        value_unset(seen, "tags");
        if (chosen_tags)
                value_set(arena, seen, "tags", *chosen_tags);
        set_again(seen, "vpc", chosen, arena);
        set_again(seen, "copy", copy, arena);
        return 0;
}

int isolated_network_check(const struct value *seen, struct error *err) {
        const char *copy = value_get_text(seen, "copy");

        if (value_get(seen, "vpc") || !copy)
                return 0;
        return error_set(err,
                         "the VPC %s that Berth made is gone, and %s carries its marks: " UNMARK
                         ", and an apply makes a new one",
                         value_get_text(seen, "known"), copy, copy);
}

static void take_subnets(const struct value *list, struct arena *arena, struct value *seen) {
        static const char *const ids[] = { "subnet0", "subnet1" }, *const zones[] = { "zone0", "zone1" };

        for (size_t i = 0; i < ISOLATED_SUBNETS; i++) {
                set_again(seen, ids[i], NULL, arena);
                set_again(seen, zones[i], NULL, arena);
                for (uint32_t k = 0; k < list->count; k++) {
                        if (!texts_same(value_get_text(&list->items[k], "cidrBlock"),
                                        isolated_subnet_cidrs[i]))
                                continue;
                        set_again(seen, ids[i], value_get_text(&list->items[k], "subnetId"), arena);
                        set_again(seen, zones[i], value_get_text(&list->items[k], "availabilityZone"), arena);
                }
        }
}

static bool is_main(const struct value *table) {
        const struct value *set = value_get(table, "associationSet");

        for (uint32_t i = 0; set && set->type == VALUE_LIST && i < set->count; i++) {
                if (texts_same(value_get_text(&set->items[i], "main"), "true"))
                        return true;
        }
        return false;
}

static void take_route(const struct value *route, const char *table, const char *prefix, struct arena *arena,
                       struct value *routes) {
        static const struct {
                const char *member, *parameter;
        } ways[] = { { "destinationCidrBlock", "DestinationCidrBlock" },
                     { "destinationIpv6CidrBlock", "DestinationIpv6CidrBlock" },
                     { "destinationPrefixListId", "DestinationPrefixListId" } };
        const char *gateway = value_get_text(route, "gatewayId"), *destination = NULL, *kind = NULL,
                   *target = gateway;
        struct value *item;

        for (size_t i = 0; i < sizeof(ways) / sizeof(*ways) && !destination; i++) {
                destination = value_get_text(route, ways[i].member);
                kind = ways[i].parameter;
        }
        if (!destination || texts_same(gateway, "local") ||
            (gateway && strncmp(gateway, "vpce-", 5) == 0 && texts_same(destination, prefix)))
                return;
        for (uint32_t i = 0; !target && route->type == VALUE_MAP && i < route->count; i++) {
                const char *name = route->members[i].name, *text = value_text_of(&route->members[i].value);

                if (strlen(name) > 2 && strcmp(name + strlen(name) - 2, "Id") == 0 &&
                    strncmp(name, "dest", 4) != 0)
                        target = text;
        }
        item = value_new_map(arena);
        value_set_text(arena, item, "table", table);
        value_set_text(arena, item, "kind", kind);
        value_set_text(arena, item, "destination", destination);
        value_set_text(arena, item, "text",
                       arena_printf(arena, "%s by %s", destination, target ? target : "?"));
        value_append(arena, routes, *item);
}

static void take_tables(const struct value *list, struct arena *arena, struct value *seen) {
        struct value *routes = value_new_list(arena);

        set_again(seen, "table", NULL, arena);
        for (uint32_t i = 0; i < list->count; i++) {
                const char *id = value_get_text(&list->items[i], "routeTableId");
                const struct value *set = value_get(&list->items[i], "routeSet");

                if (is_main(&list->items[i]))
                        set_again(seen, "table", id, arena);
                for (uint32_t k = 0; id && set && set->type == VALUE_LIST && k < set->count; k++)
                        take_route(&set->items[k], id, value_get_text(seen, "prefix"), arena, routes);
        }
        value_unset(seen, "routes");
        value_set(arena, seen, "routes", *routes);
}

static void take_endpoint(const struct value *list, struct arena *arena, struct value *seen) {
        set_again(seen, "endpoint", NULL, arena);
        value_unset(seen, "policy");
        value_unset(seen, "endpointHasTable");
        for (uint32_t i = 0; i < list->count; i++) {
                const struct value *item = &list->items[i], *tables = value_get(item, "routeTableIdSet");
                const char *state = value_get_text(item, "state"),
                           *type = value_get_text(item, "vpcEndpointType");

                if ((state && strncasecmp(state, "delet", 5) == 0) ||
                    (type && strcasecmp(type, "Gateway") != 0))
                        continue;
                set_again(seen, "endpoint", value_get_text(item, "vpcEndpointId"), arena);
                execution_role_set_document(
                        seen, "policy", policy_document_parse(value_get_text(item, "policyDocument")), arena);
                value_unset(seen, "endpointHasTable");
                value_set_boolean(arena, seen, "endpointHasTable",
                                  texts_have(tables, value_get_text(seen, "table")));
        }
}

static void take_rules(const struct value *list, struct arena *arena, struct value *seen) {
        struct value *rules = value_new_list(arena);
        bool allowed = false;

        for (uint32_t i = 0; i < list->count; i++) {
                const struct value *rule = &list->items[i];
                const char *protocol = value_get_text(rule, "ipProtocol"),
                           *from = value_get_text(rule, "fromPort"), *to = value_get_text(rule, "toPort"),
                           *list_id = value_get_text(rule, "prefixListId"),
                           *range = value_get_text(rule, "cidrIpv4");
                bool egress = texts_same(value_get_text(rule, "isEgress"), "true");
                struct value *item;

                if (egress && texts_same(protocol, "tcp") && texts_same(from, "443") &&
                    texts_same(to, "443") && texts_same(list_id, value_get_text(seen, "prefix"))) {
                        allowed = true;
                        continue;
                }
                range = range ? range : value_get_text(rule, "cidrIpv6");
                range = range ? range : list_id;
                item = value_new_map(arena);
                value_set_text(arena, item, "id", value_get_text(rule, "securityGroupRuleId"));
                value_set_boolean(arena, item, "egress", egress);
                value_set_text(arena, item, "text",
                               arena_printf(arena, "%s %s %s",
                                            texts_same(protocol, "-1") ? "everything" : protocol,
                                            egress ? "to" : "from", range ? range : "a security group"));
                value_append(arena, rules, *item);
        }
        value_unset(seen, "rules");
        value_set(arena, seen, "rules", *rules);
        value_unset(seen, "allowed");
        value_set_boolean(arena, seen, "allowed", allowed);
}

/* Lambda is in no zone of this id (Lambda's own refusals; seen in reports), which lists show like any other. */
#define ZONE_WITHOUT_LAMBDA "use1-az3"

static void take_zones(const struct value *list, struct arena *arena, struct value *seen) {
        struct value *zones = value_new_list(arena);

        for (uint32_t i = 0; i < list->count; i++) {
                const char *name = value_get_text(&list->items[i], "zoneName");

                if (name && !texts_same(value_get_text(&list->items[i], "zoneId"), ZONE_WITHOUT_LAMBDA))
                        value_append(arena, zones, value_text(arena, name));
        }
        value_unset(seen, "zones");
        value_set(arena, seen, "zones", *zones);
}

int isolated_network_take(const struct provider *provider, enum isolated_part part,
                          const struct aws_response *response, struct arena *arena, struct value *seen,
                          struct error *err) {
        static const struct {
                const char *operation, *set;
        } answers[] = {
                [ISOLATED_VPC] = { "DescribeVpcs", "vpcSet" },
                [ISOLATED_PREFIX] = { "DescribePrefixLists", "prefixListSet" },
                [ISOLATED_SUBNET] = { "DescribeSubnets", "subnetSet" },
                [ISOLATED_TABLE] = { "DescribeRouteTables", "routeTableSet" },
                [ISOLATED_ENDPOINT] = { "DescribeVpcEndpoints", "vpcEndpointSet" },
                [ISOLATED_GROUP] = { "DescribeSecurityGroups", "securityGroupInfo" },
                [ISOLATED_RULE] = { "DescribeSecurityGroupRules", "securityGroupRuleSet" },
                [ISOLATED_ZONES] = { "DescribeAvailabilityZones", "availabilityZoneInfo" },
        };
        struct value list;

        if (ec2_read(response, answers[part].operation, answers[part].set, arena, &list, err) < 0)
                return -1;
        switch (part) {
        case ISOLATED_VPC:
                return take_vpc(provider, &list, arena, seen, err);
        case ISOLATED_PREFIX:
                set_again(seen, "prefix",
                          list.count > 0 ? value_get_text(&list.items[0], "prefixListId") : NULL, arena);
                break;
        case ISOLATED_SUBNET:
                take_subnets(&list, arena, seen);
                break;
        case ISOLATED_TABLE:
                take_tables(&list, arena, seen);
                break;
        case ISOLATED_ENDPOINT:
                take_endpoint(&list, arena, seen);
                break;
        case ISOLATED_GROUP:
                set_again(seen, "group", list.count > 0 ? value_get_text(&list.items[0], "groupId") : NULL,
                          arena);
                break;
        case ISOLATED_RULE:
                take_rules(&list, arena, seen);
                break;
        default:
                take_zones(&list, arena, seen);
                break;
        }
        return 0;
}

/*
 * An empty text counts as absent: it is how a wish says that one goes of which there is no record.
 */
bool isolated_network_is_former(const struct value *spec) {
        const char *text = value_get_text(spec, ISOLATED_FORMER);

        return text && *text;
}

int isolated_network_read(struct provider *provider, const struct observation *last, bool if_allowed,
                          struct arena *arena, struct value **ret, struct error *err) {
        static const char *const none[] = { NULL }, *const denied[] = { "UnauthorizedOperation", NULL };
        struct value *seen = value_new_map(arena);

        value_set_text(arena, seen, "known", last ? value_get_text(last->extra, ISOLATED_VPC_ID) : NULL);
        for (int part = 0; part < ISOLATED_PARTS; part++) {
                struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
                struct aws_request request;

                if (!isolated_network_can_read(seen, (enum isolated_part)part))
                        continue;
                /* Once the VPC is known, all but its group's rules can be asked for at once. */
                for (int next = part; part == ISOLATED_PREFIX && next < ISOLATED_RULE; next++) {
                        request = isolated_network_request(provider, seen, (enum isolated_part)next, arena);
                        aws_ahead(provider->client, &request);
                }
                request = isolated_network_request(provider, seen, (enum isolated_part)part, arena);
                if (aws_call_accepting(provider->client, &request,
                                       if_allowed && part == ISOLATED_VPC ? denied : none, &response,
                                       err) < 0 ||
                    (!*response.error_code && isolated_network_take(provider, (enum isolated_part)part,
                                                                    &response, arena, seen, err) < 0))
                        return error_context(err, "the isolated network (aws.network)");
        }
        *ret = seen;
        return 0;
}

int isolated_network_note_orphans(struct provider *provider, struct arena *arena, struct error *err) {
        static const char *const denied[] = { "UnauthorizedOperation", NULL };
        struct aws_request request = isolated_network_request(provider, NULL, ISOLATED_VPC, arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct value list;

        if (aws_call_accepting(provider->client, &request, denied, &response, err) < 0)
                return -1;
        if (*response.error_code)
                return 0;
        if (ec2_read(&response, "DescribeVpcs", "vpcSet", arena, &list, err) < 0)
                return -1;
        for (uint32_t i = 0; i < list.count; i++) {
                const struct value *tags = ec2_tags(&list.items[i], arena);
                const char *id = value_get_text(&list.items[i], "vpcId");

                if (id && has_marks(provider, &list.items[i], tags) &&
                    strcmp(id, provider->isolated.vpc) != 0)
                        lineage_orphan(provider, &(struct orphan){ .kind = KIND_STACK,
                                                                   .name = provider->stack_name,
                                                                   .part = arena_printf(arena, "VPC %s", id),
                                                                   .id = id,
                                                                   .lineage = aws_lineage_of(tags) });
        }
        return 0;
}

/* "AWS Lambda VPC ENI-FUNCTION-UUID", as Lambda describes those of a function. */
static bool is_of_our_function(const struct provider *provider, const struct value *interface,
                               struct arena *arena) {
        const char *description = value_get_text(interface, "description"),
                   *ours = arena_printf(arena, "AWS Lambda VPC ENI-%s-env-", provider->prefix);

        return description && strncmp(description, ours, strlen(ours)) == 0;
}

int isolated_network_interfaces(struct provider *provider, const char *vpc, struct arena *arena,
                                struct isolated_interfaces *ret, struct error *err) {
        const struct ec2_filter filters[] = { { "vpc-id", vpc }, { 0 } };
        struct aws_request request = ec2_describe("DescribeNetworkInterfaces", filters, arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct isolated_interfaces found = { 0 };
        struct value list;

        if (aws_call(provider->client, &request, &response, err) < 0 ||
            ec2_read(&response, "DescribeNetworkInterfaces", "networkInterfaceSet", arena, &list, err) < 0)
                return -1;
        found.count = list.count;
        found.others = arena_array(arena, list.count + 1, sizeof(*found.others));
        for (uint32_t i = 0; i < list.count; i++) {
                const char *id = value_get_text(&list.items[i], "networkInterfaceId"),
                           *description = value_get_text(&list.items[i], "description");

                if (!is_of_our_function(provider, &list.items[i], arena))
                        found.others[found.other_count++] =
                                arena_printf(arena, "network interface %s (%s)", id ? id : "?",
                                             description && *description ? description : "not described");
        }
        *ret = found;
        return 0;
}

const char *isolated_network_group_name(const struct provider *provider, struct arena *arena) {
        return arena_printf(arena, "%s-isolated", provider->prefix);
}

static void copy_id(char *to, size_t size, const struct value *seen, const char *name) {
        const char *text = value_get_text(seen, name);

        snprintf(to, size, "%s", text ? text : "");
}

void isolated_network_note(struct provider *provider, const struct value *seen) {
        struct isolated_ids *ids = &provider->isolated;

        copy_id(ids->vpc, sizeof(ids->vpc), seen, "vpc");
        copy_id(ids->known, sizeof(ids->known), seen, value_get(seen, "vpc") ? "vpc" : "known");
        copy_id(ids->subnets[0], sizeof(ids->subnets[0]), seen, "subnet0");
        copy_id(ids->subnets[1], sizeof(ids->subnets[1]), seen, "subnet1");
        copy_id(ids->group, sizeof(ids->group), seen, "group");
}
