/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network that leads nowhere but to the stack's bucket: a VPC with two private subnets, no route out, a gateway endpoint to S3
 * whose policy allows that bucket alone, and a security group that lets nothing in, and out only HTTPS to S3.
 *
 * Its id stands in the state beside what was seen of the stack (ISOLATED_VPC_ID): tags and range can be copied to another VPC, an id
 * cannot. It stays there when that VPC is gone, until another one is made. Of a VPC that no such note tells of, the marks must be those
 * of one VPC alone.
 *
 * Its readings are a map, `seen`, which lives in the reader's arena: vpc, tags, subnet0, subnet1,
 * zone0, zone1, table (the main one), endpoint, policy, endpointHasTable, group, allowed, prefix:
 * texts, documents and booleans; known: the VPC's id where one was noted; copy: another one with
 * the marks of the known one; routes and rules: lists of those that are not Berth's, {text ...};
 * zones: those of the region
 */
#ifndef BERTH_PROVIDERS_AWS_STACK_ISOLATED_NETWORK_H
#define BERTH_PROVIDERS_AWS_STACK_ISOLATED_NETWORK_H

#include "providers/aws/shared/aws_provider.h"
#include "providers/aws/shared/stage.h"

#define ISOLATED_CIDR "10.0.0.0/20"
extern const char *const isolated_subnet_cidrs[ISOLATED_SUBNETS];

/*
 * Names in the stack's spec: what shall be; and that a VPC which is not wanted any more is kept
 * until no function is in it.
 */
#define ISOLATED_NETWORK "network"
#define ISOLATED_FORMER "formerNetwork"
#define ISOLATED_KEPT "until nothing is in it"
/* In an observation's `extra`. */
#define ISOLATED_UNUSED "formerNetworkUnused"
#define ISOLATED_VPC_ID "vpc"

/* Whether the Stack or any Environment is isolated; and whether manifests say anything of networks. */
bool isolated_network_is_wanted(const struct provider *provider);
bool isolated_network_is_said(const struct provider *provider);
/* The wished network, in the stack's spec. */
struct value *isolated_network_wish(const struct provider *provider, struct arena *arena);
/* The real one, in the same form. */
struct value *isolated_network_spec(const struct provider *provider, const struct value *seen,
                                    const struct value *recorded, struct arena *arena);

/*
 * The parts in the order of reading, one call each; ISOLATED_ZONES is read only before something is
 * made.
 */
enum isolated_part {
        ISOLATED_VPC,
        ISOLATED_PREFIX,
        ISOLATED_SUBNET,
        ISOLATED_TABLE,
        ISOLATED_ENDPOINT,
        ISOLATED_GROUP,
        ISOLATED_RULE,
        ISOLATED_PARTS,
        ISOLATED_ZONES = ISOLATED_PARTS
};
/* Whether what the part lies in is there, so that it can be asked for. */
bool isolated_network_can_read(const struct value *seen, enum isolated_part part);
struct aws_request isolated_network_request(const struct provider *provider, const struct value *seen,
                                            enum isolated_part part, struct arena *arena);
/* Takes an answer into `seen`, in place of what stood there. */
int isolated_network_take(const struct provider *provider, enum isolated_part part,
                          const struct aws_response *response, struct arena *arena, struct value *seen,
                          struct error *err) MUST_USE;
/* Whether the spec keeps a VPC in mind that is on its way out. */
bool isolated_network_is_former(const struct value *spec);
/*
 * All of it, for observe: *ret has no `vpc` if it does not exist, or, `if_allowed`, if the rights
 * to see it are missing. `last`: NULL, or what was seen before.
 */
int isolated_network_read(struct provider *provider, const struct observation *last, bool if_allowed,
                          struct arena *arena, struct value **ret, struct error *err) MUST_USE;
/* VPCs with the stack's marks and range that are not the one in use are orphans. One call; who may not make it learns of none. */
int isolated_network_note_orphans(struct provider *provider, struct arena *arena, struct error *err) MUST_USE;
/* Before one is made: fails if the known one is gone, and another one carries its marks. */
int isolated_network_check(const struct value *seen, struct error *err) MUST_USE;
/* The network interfaces in the VPC, and those of them that are not of this stack's functions, in words. */
struct isolated_interfaces {
        size_t count;
        const char **others;
        size_t other_count;
};
int isolated_network_interfaces(struct provider *provider, const char *vpc, struct arena *arena,
                                struct isolated_interfaces *ret, struct error *err) MUST_USE;
/* The security group's. */
const char *isolated_network_group_name(const struct provider *provider, struct arena *arena);
/* Keeps the ids that functions are put into, and the known one's; NULL: none. */
void isolated_network_note(struct provider *provider, const struct value *seen);

/* isolated_network_step.c: stages, of the stack's two tables. */
bool isolated_network_needs_make(const struct change *change);
bool isolated_network_needs_removal(const struct change *change);
int isolated_network_look(struct stage_turn *turn);           /* reads; then the next stage acts */
int isolated_network_make(struct stage_turn *turn, int look); /* `look`: the stage that reads */
int isolated_network_remove(struct stage_turn *turn, int look);
/* The calls that making it, or taking it down, is likely to take. */
void isolated_network_cost(const struct change *change, struct cost *ret);

#endif
