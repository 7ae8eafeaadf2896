/* SPDX-License-Identifier: Apache-2.0 */
/*
 * EC2's answers have hundreds of forms and all follow one rule: an element holds items, or members,
 * or text. So they are turned into values by that rule, and a reader names what it wants.
 */
#include "providers/aws/services/ec2.h"

#include "base/strbuf.h"
#include "providers/aws/client/aws_xml_answer.h"
#include "providers/aws/client/xml.h"

#include <stdio.h>
#include <string.h>

/* Answers are some four elements deep. */
#define DEPTH_MAX 12

static struct aws_request ec2_request(const char *operation, const struct strbuf *form, struct arena *arena) {
        return (struct aws_request){ .service = AWS_EC2,
                                     .operation = operation,
                                     .method = "POST",
                                     .body = arena_strndup(arena, strbuf_text(form), form->length),
                                     .body_length = form->length };
}

/* A form of the given names and texts; those of a NULL text are left out. */
static void add_fields(struct strbuf *form, const struct ec2_filter *fields, size_t count) {
        for (size_t i = 0; i < count; i++) {
                if (fields[i].value)
                        encode_form_add(form, fields[i].name, fields[i].value);
        }
}

/* "Tag.3.Key=...", below `prefix`; keys alone where `values` is false. */
static void add_tags(struct strbuf *form, const char *prefix, const struct value *tags, bool values) {
        for (uint32_t i = 0; tags && i < tags->count; i++) {
                char name[64];

                snprintf(name, sizeof(name), "%sTag.%u.Key", prefix, i + 1);
                encode_form_add(form, name, tags->members[i].name);
                snprintf(name, sizeof(name), "%sTag.%u.Value", prefix, i + 1);
                if (values)
                        encode_form_add(form, name, value_text_of(&tags->members[i].value));
        }
}

/* What makes something (`type`, tagged at once) is never sent twice by itself. */
static struct aws_request create_request(const char *operation, const struct ec2_filter *fields, size_t count,
                                         const char *type, const struct value *tags, struct arena *arena) {
        struct strbuf form STRBUF_CLEANUP = STRBUF_INIT;
        struct aws_request request;

        add_fields(&form, fields, count);
        if (type && tags && tags->count > 0) {
                encode_form_add(&form, "TagSpecification.1.ResourceType", type);
                add_tags(&form, "TagSpecification.1.", tags, true);
        }
        request = ec2_request(operation, &form, arena);
        request.once = type != NULL;
        return request;
}
#define COUNT(fields) (sizeof(fields) / sizeof((fields)[0]))

struct aws_request ec2_describe(const char *operation, const struct ec2_filter *filters,
                                struct arena *arena) {
        struct strbuf form STRBUF_CLEANUP = STRBUF_INIT;

        for (unsigned i = 0; filters[i].name; i++) {
                char name[32];

                snprintf(name, sizeof(name), "Filter.%u.Name", i + 1);
                encode_form_add(&form, name, filters[i].name);
                snprintf(name, sizeof(name), "Filter.%u.Value.1", i + 1);
                encode_form_add(&form, name, filters[i].value);
        }
        return ec2_request(operation, &form, arena);
}

static struct value value_of_node(const struct xml_node *node, struct arena *arena, int depth) {
        const struct xml_node *first = xml_child(node, NULL), *at;
        struct value *result;

        if (!first || depth > DEPTH_MAX)
                return value_text(arena, first ? "" : xml_text(node, "", arena));
        if (strcmp(xml_name(first), "item") == 0) {
                result = value_new_list(arena);
                for (at = first; at; at = xml_next(at, NULL))
                        value_append(arena, result, value_of_node(at, arena, depth + 1));
                return *result;
        }
        result = value_new_map(arena);
        for (at = first; at; at = xml_next(at, NULL)) {
                if (!value_get(result, xml_name(at)))
                        value_set(arena, result, arena_strdup(arena, xml_name(at)),
                                  value_of_node(at, arena, depth + 1));
        }
        return *result;
}

int ec2_read(const struct aws_response *response, const char *operation, const char *set, struct arena *arena,
             struct value *ret, struct error *err) {
        struct xml_document *document XML_CLEANUP = NULL;
        const char *what = arena_printf(arena, "ec2 %s", operation);
        const struct xml_node *node;
        struct value found;

        if (aws_answer_xml(response, what, arena_printf(arena, "%sResponse", operation), &document, err) < 0)
                return -1;
        node = set ? xml_child(xml_root(document), set) : xml_root(document);
        if (!node)
                return error_set(err, "the answer to %s holds no %s", what, set);
        found = value_of_node(node, arena, 0);
        if (set && found.type != VALUE_LIST) {
                /* An empty list is an empty element. */
                if (found.type != VALUE_TEXT || strspn(found.text, " \t\r\n") != strlen(found.text))
                        return error_set(err, "%s of the answer to %s is no list", set, what);
                found = *value_new_list(arena);
        }
        *ret = found;
        return 0;
}

struct value *ec2_tags(const struct value *item, struct arena *arena) {
        const struct value *set = value_get(item, "tagSet");
        struct value *tags = value_new_map(arena);

        for (uint32_t i = 0; set && set->type == VALUE_LIST && i < set->count; i++) {
                const char *key = value_get_text(&set->items[i], "key"),
                           *text = value_get_text(&set->items[i], "value");

                if (key)
                        value_set_text(arena, tags, key, text ? text : "");
        }
        return tags;
}

struct aws_request ec2_create_vpc(const char *cidr, const struct value *tags, struct arena *arena) {
        const struct ec2_filter fields[] = { { "CidrBlock", cidr } };

        return create_request("CreateVpc", fields, COUNT(fields), "vpc", tags, arena);
}

struct aws_request ec2_create_subnet(const char *vpc, const char *cidr, const char *zone,
                                     const struct value *tags, struct arena *arena) {
        const struct ec2_filter fields[] = { { "VpcId", vpc },
                                             { "CidrBlock", cidr },
                                             { "AvailabilityZone", zone } };

        return create_request("CreateSubnet", fields, COUNT(fields), "subnet", tags, arena);
}

struct aws_request ec2_create_gateway(const char *vpc, const char *service, const char *table,
                                      const char *policy, const struct value *tags, struct arena *arena) {
        const struct ec2_filter fields[] = { { "VpcEndpointType", "Gateway" },
                                             { "VpcId", vpc },
                                             { "ServiceName", service },
                                             { "RouteTableId.1", table },
                                             { "PolicyDocument", policy } };

        return create_request("CreateVpcEndpoint", fields, COUNT(fields), "vpc-endpoint", tags, arena);
}

struct aws_request ec2_modify_gateway(const char *endpoint, const char *policy, const char *table,
                                      struct arena *arena) {
        const struct ec2_filter fields[] = { { "VpcEndpointId", endpoint },
                                             { "PolicyDocument", policy },
                                             { "AddRouteTableId.1", table } };

        return create_request("ModifyVpcEndpoint", fields, COUNT(fields), NULL, NULL, arena);
}

struct aws_request ec2_create_group(const char *vpc, const char *name, const char *description,
                                    const struct value *tags, struct arena *arena) {
        const struct ec2_filter fields[] = { { "VpcId", vpc },
                                             { "GroupName", name },
                                             { "GroupDescription", description } };

        return create_request("CreateSecurityGroup", fields, COUNT(fields), "security-group", tags, arena);
}

struct aws_request ec2_allow_egress(const char *group, const char *prefix_list, int port,
                                    struct arena *arena) {
        const char *number = arena_printf(arena, "%d", port);
        const struct ec2_filter fields[] = { { "GroupId", group },
                                             { "IpPermissions.1.IpProtocol", "tcp" },
                                             { "IpPermissions.1.FromPort", number },
                                             { "IpPermissions.1.ToPort", number },
                                             { "IpPermissions.1.PrefixListIds.1.PrefixListId",
                                               prefix_list } };

        return create_request("AuthorizeSecurityGroupEgress", fields, COUNT(fields), NULL, NULL, arena);
}

struct aws_request ec2_revoke(const char *group, const char *rule, bool egress, struct arena *arena) {
        const struct ec2_filter fields[] = { { "GroupId", group }, { "SecurityGroupRuleId.1", rule } };

        return create_request(egress ? "RevokeSecurityGroupEgress" : "RevokeSecurityGroupIngress", fields,
                              COUNT(fields), NULL, NULL, arena);
}

struct aws_request ec2_delete_route(const char *table, const char *kind, const char *destination,
                                    struct arena *arena) {
        const struct ec2_filter fields[] = { { "RouteTableId", table }, { kind, destination } };

        return create_request("DeleteRoute", fields, COUNT(fields), NULL, NULL, arena);
}

static struct aws_request change_tags(const char *operation, const char *const *ids, const struct value *tags,
                                      bool values, struct arena *arena) {
        struct strbuf form STRBUF_CLEANUP = STRBUF_INIT;

        for (unsigned i = 0; ids[i]; i++) {
                char name[32];

                snprintf(name, sizeof(name), "ResourceId.%u", i + 1);
                encode_form_add(&form, name, ids[i]);
        }
        add_tags(&form, "", tags, values);
        return ec2_request(operation, &form, arena);
}

struct aws_request ec2_create_tags(const char *const *ids, const struct value *tags, struct arena *arena) {
        return change_tags("CreateTags", ids, tags, true, arena);
}

struct aws_request ec2_delete_tags(const char *const *ids, const struct value *keys, struct arena *arena) {
        return change_tags("DeleteTags", ids, keys, false, arena);
}

struct aws_request ec2_delete(const char *operation, const char *name, const char *id, struct arena *arena) {
        const struct ec2_filter fields[] = { { name, id } };

        return create_request(operation, fields, COUNT(fields), NULL, NULL, arena);
}
