/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making the isolated network, mending it, and taking it down.
 *
 * Both go the same way: one stage reads all that is there (isolated_network.h, `seen`), the next does the first thing that is still
 * to be done, notes it in `seen`, and comes again until nothing is left. So a run that died anywhere is carried on by the next one, and
 * mending is making with less to do.
 *
 * CreateVpc has no token and no name: a second call makes a second VPC. So a call whose answer was lost is never simply repeated,
 * as client.h would do it; what is there is read again first, a little later and some times, since EC2's lists lag behind its calls.
 */
#include "base/json.h"
#include "providers/aws/client/aws_json.h"
#include "providers/aws/client/texts.h"
#include "providers/aws/services/ec2.h"
#include "providers/aws/shared/aws_tags.h"
#include "providers/aws/shared/policy_document.h"
#include "providers/aws/shared/stage_call.h"
#include "providers/aws/stack/isolated_network.h"

/* How often it is read again, after lost answers and while lists lag. */
#define LOOKS_MAX 20
#define LAG_MS 2000
/*
 * The least number of looks after a CreateVpc without an answer: a VPC too many would have no
 * owner.
 */
#define LOOKS_FOR_VPC 3

#define SEEN "network"
#define PART "networkPart"
#define LOOKS "networkLooks"
#define DOUBTS "networkDoubts" /* how often a VPC that may be there is still to be looked for */

static bool has_network(const struct value *spec) {
        return value_get(spec, ISOLATED_NETWORK) || isolated_network_is_former(spec);
}

bool isolated_network_needs_make(const struct change *change) {
        return value_get(change->desired, ISOLATED_NETWORK) &&
               (!value_get(change->observed->spec, ISOLATED_NETWORK) ||
                change_touches(change, ISOLATED_NETWORK));
}

bool isolated_network_needs_removal(const struct change *change) {
        return !has_network(change->desired) &&
               (has_network(change->observed->spec) || has_network(change->recorded));
}

static struct value *seen_of(struct stage_turn *turn) {
        struct arena *arena = turn->progress->arena;
        struct value *data = stage_data(turn);

        if (!value_get(data, SEEN)) {
                const char *known = turn->provider->isolated.known;
                struct value *seen = value_new_map(arena);

                value_set_text(arena, seen, "known", *known ? known : NULL);
                value_set(arena, data, SEEN, *seen);
        }
        return (struct value *)value_get(data, SEEN);
}

int isolated_network_look(struct stage_turn *turn) {
        struct value *seen = seen_of(turn);
        struct arena *arena = turn->progress->arena;
        int64_t at = value_get_integer(turn->progress->data, PART, 0);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_request request;
        int result;

        while (at <= ISOLATED_ZONES && !isolated_network_can_read(seen, (enum isolated_part)at))
                at++;
        /* Zones only for a subnet that is still to be made. */
        if (at > ISOLATED_ZONES ||
            (at == ISOLATED_ZONES && value_get(seen, "subnet0") && value_get(seen, "subnet1")))
                return STAGE_OVER;
        request = isolated_network_request(turn->provider, seen, (enum isolated_part)at, arena);
        result = stage_call(turn, &request, NULL, &response);
        if (result != 0)
                return result;
        if (isolated_network_take(turn->provider, (enum isolated_part)at, &response, arena, seen, turn->err) <
            0)
                return -1;
        value_unset(stage_data(turn), PART);
        value_set_integer(arena, stage_data(turn), PART, at + 1);
        return at == ISOLATED_ZONES ? STAGE_OVER : stage_enter(turn, turn->progress->stage);
}

/* Reads again from `part` on, after `wait_ms`; fails where that was done too often. */
static int look_again(struct stage_turn *turn, int look, int part, int64_t wait_ms, bool counts) {
        struct value *data = stage_data(turn);
        int64_t looks = value_get_integer(data, LOOKS, 0);

        if (counts && looks >= LOOKS_MAX)
                return error_set(
                        turn->err,
                        "EC2 does not show what it has made for the isolated network: try again later");
        value_unset(data, PART);
        value_set_integer(turn->progress->arena, data, PART, part);
        value_unset(data, LOOKS);
        value_set_integer(turn->progress->arena, data, LOOKS, looks + counts);
        stage_enter(turn, look);
        return wait_ms > 0 ? stage_wait(turn, wait_ms) : STEP_AGAIN;
}

static void doubt(struct stage_turn *turn, int64_t looks) {
        value_unset(stage_data(turn), DOUBTS);
        value_set_integer(turn->progress->arena, stage_data(turn), DOUBTS, looks);
}

enum deed {
        DEED_NONE, /* all is as it shall be */
        DEED_WAIT, /* what EC2 makes by itself with a VPC is not to be seen yet */
        DEED_VPC,
        DEED_SUBNET,
        DEED_ROUTE,
        DEED_ENDPOINT,
        DEED_POLICY,
        DEED_GROUP,
        DEED_REVOKE,
        DEED_ALLOW,
        DEED_TAG,
        DEED_UNTAG
};

/* The zone for a subnet: the first one that the other is not in. */
static const char *choose_zone(const struct value *seen, bool first) {
        const struct value *zones = value_get(seen, "zones");
        const char *other = value_get_text(seen, first ? "zone1" : "zone0");

        for (uint32_t i = 0; zones && i < zones->count; i++) {
                if (!texts_same(value_text_of(&zones->items[i]), other))
                        return value_text_of(&zones->items[i]);
        }
        return zones && zones->count > 0 ? value_text_of(&zones->items[0]) : NULL;
}

static const char *policy_text(const struct stage_turn *turn) {
        return aws_json_text(policy_document_endpoint(turn->provider->partition, turn->provider->bucket),
                             turn->progress->arena);
}

static const struct value *first_of(const struct value *seen, const char *name) {
        const struct value *list = value_get(seen, name);

        return list && list->count > 0 ? &list->items[0] : NULL;
}

static const char *const *ids_of(const struct value *seen, struct arena *arena) {
        static const char *const names[] = { "vpc", "subnet0", "subnet1", "endpoint", "group" };
        const char **ids = arena_array(arena, sizeof(names) / sizeof(*names) + 1, sizeof(*ids));
        size_t count = 0;

        for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
                if (value_get_text(seen, names[i]))
                        ids[count++] = value_get_text(seen, names[i]);
        }
        ids[count] = NULL;
        return ids;
}

/*
 * The first thing to do, and its request. The order lets no moment pass in which a function could
 * get out.
 */
static enum deed choose_deed(struct stage_turn *turn, const struct value *seen, struct aws_request *ret) {
        struct arena *arena = turn->progress->arena;
        const struct value *wish = value_get(turn->change->desired, ISOLATED_NETWORK),
                           *tags = value_get(wish, "tags"), *item, *there;
        const char *vpc = value_get_text(seen, "vpc"), *table = value_get_text(seen, "table"),
                   *group = value_get_text(seen, "group"), *endpoint = value_get_text(seen, "endpoint"),
                   *prefix = value_get_text(seen, "prefix");

        if (!vpc) {
                *ret = ec2_create_vpc(ISOLATED_CIDR, tags, arena);
                return DEED_VPC;
        }
        if (!table || !prefix)
                return DEED_WAIT;
        for (int i = 0; i < ISOLATED_SUBNETS; i++) {
                if (value_get(seen, i == 0 ? "subnet0" : "subnet1"))
                        continue;
                *ret = ec2_create_subnet(vpc, isolated_subnet_cidrs[i], choose_zone(seen, i == 0), tags,
                                         arena);
                return DEED_SUBNET;
        }
        if ((item = first_of(seen, "routes"))) {
                *ret = ec2_delete_route(value_get_text(item, "table"), value_get_text(item, "kind"),
                                        value_get_text(item, "destination"), arena);
                return DEED_ROUTE;
        }
        if (!endpoint) {
                *ret = ec2_create_gateway(vpc,
                                          arena_printf(arena, "com.amazonaws.%s.s3", turn->provider->region),
                                          table, policy_text(turn), tags, arena);
                return DEED_ENDPOINT;
        }
        if (!value_equal(value_get(seen, "policy"), value_get(wish, "endpoint"), NULL) ||
            !value_get_boolean(seen, "endpointHasTable", false)) {
                *ret = ec2_modify_gateway(endpoint, policy_text(turn),
                                          value_get_boolean(seen, "endpointHasTable", false) ? NULL : table,
                                          arena);
                return DEED_POLICY;
        }
        if (!group) {
                *ret = ec2_create_group(vpc, isolated_network_group_name(turn->provider, arena),
                                        "Functions of Berth: HTTPS to S3 alone", tags, arena);
                return DEED_GROUP;
        }
        if ((item = first_of(seen, "rules"))) {
                *ret = ec2_revoke(group, value_get_text(item, "id"), value_get_boolean(item, "egress", true),
                                  arena);
                return DEED_REVOKE;
        }
        if (!value_get_boolean(seen, "allowed", false)) {
                *ret = ec2_allow_egress(group, prefix, 443, arena);
                return DEED_ALLOW;
        }
        there = aws_tags_of_ours(value_get(seen, "tags"), tags,
                                 value_path(turn->change->recorded, ISOLATED_NETWORK ".tags"), arena);
        if (aws_any_tag_beyond(tags, there, false)) {
                *ret = ec2_create_tags(ids_of(seen, arena), tags, arena);
                return DEED_TAG;
        }
        if (aws_any_tag_beyond(there, tags, true)) {
                *ret = ec2_delete_tags(ids_of(seen, arena), aws_tags_beyond(there, tags, true, arena), arena);
                return DEED_UNTAG;
        }
        return DEED_NONE;
}

static void drop_first(struct value *seen, const char *name, struct arena *arena) {
        const struct value *list = value_get(seen, name);
        struct value *rest = value_new_list(arena);

        for (uint32_t i = 1; list && i < list->count; i++)
                value_append(arena, rest, list->items[i]);
        value_unset(seen, name);
        value_set(arena, seen, name, *rest);
}

/*
 * Notes what exists now that the deed is done; where EC2 made more with it, that is read: returns
 * the part, or -1.
 */
static int note_deed(struct stage_turn *turn, enum deed deed, const struct aws_response *response,
                     struct value *seen, struct error *err) {
        static const struct {
                const char *operation, *path, *name;
        } made[] = {
                [DEED_VPC] = { "CreateVpc", "vpc.vpcId", "vpc" },
                [DEED_SUBNET] = { "CreateSubnet", "subnet.subnetId", NULL },
                [DEED_ENDPOINT] = { "CreateVpcEndpoint", "vpcEndpoint.vpcEndpointId", "endpoint" },
                [DEED_GROUP] = { "CreateSecurityGroup", "groupId", "group" },
        };
        struct arena *arena = turn->progress->arena;
        const struct value *wish = value_get(turn->change->desired, ISOLATED_NETWORK);
        struct value answer;
        const char *id, *name;

        switch (deed) {
        case DEED_VPC:
        case DEED_SUBNET:
        case DEED_ENDPOINT:
        case DEED_GROUP:
                if (ec2_read(response, made[deed].operation, NULL, arena, &answer, err) < 0)
                        return -1;
                id = value_text_of(value_path(&answer, made[deed].path));
                if (!id)
                        return error_set(err, "the answer to ec2 %s names nothing that was made",
                                         made[deed].operation);
                name = made[deed].name ? made[deed].name : value_get(seen, "subnet0") ? "subnet1" : "subnet0";
                value_set_text(arena, seen, name, id);
                if (deed == DEED_SUBNET && texts_same(name, "subnet0"))
                        value_set_text(arena, seen, "zone0", choose_zone(seen, true));
                if (deed == DEED_ENDPOINT) {
                        value_set(arena, seen, "policy", *value_get(wish, "endpoint"));
                        value_set_boolean(arena, seen, "endpointHasTable", true);
                }
                if (deed == DEED_VPC) {
                        value_set(arena, seen, "tags", *value_get(wish, "tags"));
                        value_unset(seen, "known");
                        value_set_text(arena, seen, "known", id);
                }
                return deed == DEED_VPC ? ISOLATED_PREFIX : deed == DEED_GROUP ? ISOLATED_RULE : 0;
        case DEED_ROUTE:
                drop_first(seen, "routes", arena);
                return 0;
        case DEED_REVOKE:
                drop_first(seen, "rules", arena);
                return 0;
        case DEED_POLICY:
                value_unset(seen, "policy");
                value_set(arena, seen, "policy", *value_get(wish, "endpoint"));
                value_unset(seen, "endpointHasTable");
                value_set_boolean(arena, seen, "endpointHasTable", true);
                return 0;
        case DEED_ALLOW:
                value_unset(seen, "allowed");
                value_set_boolean(arena, seen, "allowed", true);
                return 0;
        default:
                value_unset(seen, "tags");
                value_set(arena, seen, "tags", *value_get(wish, "tags"));
                return 0;
        }
}

static int explain_limit(struct stage_turn *turn, const struct aws_response *response) {
        if (aws_failed_with(response, "VpcLimitExceeded"))
                return error_context(
                        turn->err,
                        "the isolated network needs one more VPC than the region's quota allows (5, unless it was "
                        "raised): ask for more under Service Quotas (VPCs per Region), delete one, or name subnets and "
                        "security groups of your own in aws.network");
        return error_context(turn->err, "the isolated network (aws.network)");
}

int isolated_network_make(struct stage_turn *turn, int look) {
        /* What an earlier try made is there. */
        static const char *const there[] = { "InvalidSubnet.Conflict",
                                             "InvalidGroup.Duplicate",
                                             "InvalidPermission.Duplicate",
                                             "InvalidPermission.NotFound",
                                             "InvalidSecurityGroupRuleId.NotFound",
                                             "InvalidRoute.NotFound",
                                             "RouteAlreadyExists",
                                             NULL };
        struct value *seen = seen_of(turn);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_request request;
        int64_t doubts = value_get_integer(turn->progress->data, DOUBTS, 0);
        enum deed deed;
        int result, part;

        if (turn->progress->attempts > 0) {
                doubt(turn, value_get(seen, "vpc") ? 0 : LOOKS_FOR_VPC - 1);
                return look_again(turn, look, ISOLATED_VPC, LAG_MS, true);
        }
        if (!value_get(seen, "vpc") && doubts > 0) {
                doubt(turn, doubts - 1);
                return look_again(turn, look, ISOLATED_VPC, LAG_MS, true);
        }
        if (isolated_network_check(seen, turn->err) < 0)
                return -1;
        deed = choose_deed(turn, seen, &request);
        if (deed == DEED_WAIT)
                return look_again(turn, look, ISOLATED_PREFIX, LAG_MS, true);
        if (deed == DEED_NONE) {
                isolated_network_note(turn->provider, seen);
                return STAGE_OVER;
        }
        /* No copy was there a moment ago: the one that turns up where this answer is lost is the one made now. */
        if (deed == DEED_VPC)
                value_unset(seen, "known");
        result = stage_call(turn, &request, there, &response);
        if (result < 0)
                return explain_limit(turn, &response);
        if (result != 0)
                return result;
        if (*response.error_code)
                return look_again(turn, look, ISOLATED_VPC, LAG_MS, true);
        part = note_deed(turn, deed, &response, seen, turn->err);
        if (part < 0)
                return -1;
        return part > 0 ? look_again(turn, look, part, 0, false) : stage_enter(turn, turn->progress->stage);
}

/*
 * The endpoint first, then group and subnets, which Lambda's network interfaces hold fast for a while after the last function, then
 * the VPC. Then it is read again: there is nothing left to be read.
 */
int isolated_network_remove(struct stage_turn *turn, int look) {
        static const char *const gone[] = { "InvalidVpcID.NotFound",         "InvalidSubnetID.NotFound",
                                            "InvalidGroup.NotFound",         "InvalidGroupId.NotFound",
                                            "InvalidVpcEndpointId.NotFound", NULL };
        static const struct {
                const char *seen, *operation, *id;
        } parts[] = {
                { "endpoint", "DeleteVpcEndpoints", "VpcEndpointId.1" },
                { "group", "DeleteSecurityGroup", "GroupId" },
                { "subnet0", "DeleteSubnet", "SubnetId" },
                { "subnet1", "DeleteSubnet", "SubnetId" },
                { "vpc", "DeleteVpc", "VpcId" },
        };
        struct value *seen = seen_of(turn);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_request request;
        size_t i = 0;
        int result;

        while (i < sizeof(parts) / sizeof(*parts) && !value_get(seen, parts[i].seen))
                i++;
        if (i == sizeof(parts) / sizeof(*parts)) {
                isolated_network_note(turn->provider, NULL);
                return STAGE_OVER;
        }
        request = ec2_delete(parts[i].operation, parts[i].id, value_get_text(seen, parts[i].seen),
                             turn->progress->arena);
        result = stage_call(turn, &request, gone, &response);
        if (result < 0 && aws_failed_with(&response, "DependencyViolation"))
                return error_context(
                        turn->err,
                        "something is still in the VPC %s of the isolated network 45 minutes later: a"
                        " network interface that Lambda keeps, or something that was put there "
                        "outside of Berth. Destroy again once it is gone",
                        value_get_text(seen, "vpc"));
        if (result < 0)
                return error_context(turn->err, "the isolated network (aws.network)");
        if (result > 0)
                return result;
        value_unset(seen, parts[i].seen);
        if (texts_same(parts[i].seen, "vpc"))
                return look_again(turn, look, ISOLATED_VPC, 0, false);
        return stage_enter(turn, turn->progress->stage);
}

void isolated_network_cost(const struct change *change, struct cost *ret) {
        bool makes = isolated_network_needs_make(change);

        if (makes)
                cost_add(ret, "ec2", value_get(change->observed->spec, ISOLATED_NETWORK) ? 8 : 15);
        else if (isolated_network_needs_removal(change))
                cost_add(ret, "ec2", 13);
}
