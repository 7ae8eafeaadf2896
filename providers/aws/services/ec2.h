/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Amazon EC2 (its own kind of query protocol, 2016-11-15; answers in XML): VPCs and what is in them. One function a call, and
 * one for all lists that are read. Requests' texts and what answers say live in the arena.
 */
#ifndef BERTH_PROVIDERS_AWS_SERVICES_EC2_H
#define BERTH_PROVIDERS_AWS_SERVICES_EC2_H

#include "base/arena.h"
#include "providers/aws/client/aws_client.h"
#include "schema/value.h"

/* Filter.N.Name, Filter.N.Value.1; a list is ended by a NULL name. */
struct ec2_filter {
        const char *name, *value;
};

/* DescribeVpcs, DescribeSubnets ...: all that the filters let through. */
struct aws_request ec2_describe(const char *operation, const struct ec2_filter *filters, struct arena *arena);
/*
 * An answer of EC2 as it is, as a list or map of values: <item> elements are items of a list, other elements are members, text is
 * text. `set` is the member of the answer that is wanted ("vpcSet"), a list; with `set` NULL the whole answer as a map.
 */
int ec2_read(const struct aws_response *response, const char *operation, const char *set, struct arena *arena,
             struct value *ret, struct error *err) MUST_USE;
/* The tags of an item: <tagSet>, a map of texts. */
struct value *ec2_tags(const struct value *item, struct arena *arena);

/* CreateVpc CidrBlock, TagSpecification -> vpc {vpcId}. VpcLimitExceeded. There is no token: a second call makes a second one. */
struct aws_request ec2_create_vpc(const char *cidr, const struct value *tags, struct arena *arena);
/* CreateSubnet VpcId, CidrBlock, AvailabilityZone -> subnet {subnetId}. InvalidSubnet.Conflict where the range is taken. */
struct aws_request ec2_create_subnet(const char *vpc, const char *cidr, const char *zone,
                                     const struct value *tags, struct arena *arena);
/* CreateVpcEndpoint of type Gateway: VpcId, ServiceName, RouteTableId.1, PolicyDocument -> vpcEndpoint {vpcEndpointId}. */
struct aws_request ec2_create_gateway(const char *vpc, const char *service, const char *table,
                                      const char *policy, const struct value *tags, struct arena *arena);
/* ModifyVpcEndpoint: PolicyDocument, AddRouteTableId.1. */
struct aws_request ec2_modify_gateway(const char *endpoint, const char *policy, const char *table,
                                      struct arena *arena);
/* CreateSecurityGroup -> groupId; it begins with a rule that lets everything out. InvalidGroup.Duplicate. */
struct aws_request ec2_create_group(const char *vpc, const char *name, const char *description,
                                    const struct value *tags, struct arena *arena);
/* AuthorizeSecurityGroupEgress: TCP to `port` of a prefix list. InvalidPermission.Duplicate. */
struct aws_request ec2_allow_egress(const char *group, const char *prefix_list, int port,
                                    struct arena *arena);
/* RevokeSecurityGroupEgress, RevokeSecurityGroupIngress: GroupId, SecurityGroupRuleId.1. */
struct aws_request ec2_revoke(const char *group, const char *rule, bool egress, struct arena *arena);
/* DeleteRoute: RouteTableId, and the destination under `kind`: DestinationCidrBlock, DestinationPrefixListId ... */
struct aws_request ec2_delete_route(const char *table, const char *kind, const char *destination,
                                    struct arena *arena);
/* CreateTags, DeleteTags (of the keys): ResourceId.N, ended by NULL; Tag.N. */
struct aws_request ec2_create_tags(const char *const *ids, const struct value *tags, struct arena *arena);
struct aws_request ec2_delete_tags(const char *const *ids, const struct value *keys, struct arena *arena);
/* DeleteVpc, DeleteSubnet, DeleteSecurityGroup, DeleteVpcEndpoints; `name` is what the id is called: "VpcId". */
struct aws_request ec2_delete(const char *operation, const char *name, const char *id, struct arena *arena);

#endif
