/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/fields.h"

const struct field label_key_field = {
        .name = "LABEL",
        .type = FIELD_TEXT,
        .minimum = 1,
        .maximum = 128,
        .doc = "The label's name.",
};

const struct field label_value_field = {
        .name = "text",
        .type = FIELD_TEXT,
        .minimum = 0,
        .maximum = 256,
        .doc = "The label's text.",
};

static const struct field annotation_value_field = {
        .name = "text",
        .type = FIELD_TEXT,
        .doc = "Anything.",
};

const struct field agent_name_field = {
        .name = "NAME",
        .type = FIELD_TEXT,
        .reference = "Agent",
        .doc = "The name of an Agent.",
};

const struct field environment_name_field = {
        .name = "NAME",
        .type = FIELD_TEXT,
        .reference = "Environment",
        .doc = "The name of an Environment.",
};

const char *const network_names[] = { "open", NETWORK_ISOLATED, NULL };

const struct field network_name_field = {
        .name = "text",
        .type = FIELD_TEXT,
        .choices_text = network_names,
        .doc = "open: Lambda's own network, which leads everywhere. isolated: a VPC that Berth makes, from which nothing is "
               "reached but the stack's bucket.",
};

const struct field subnet_field = {
        .name = "subnet",
        .type = FIELD_TEXT,
        .pattern = "subnet-[0-9a-f]{8,17}",
        .pattern_message = "a subnet's id, such as subnet-0123456789abcdef0",
        .doc = "A subnet's id.",
};

const struct field security_group_field = {
        .name = "security group",
        .type = FIELD_TEXT,
        .pattern = "sg-[0-9a-f]{8,17}",
        .pattern_message = "a security group's id, such as sg-0123456789abcdef0",
        .doc = "A security group's id.",
};

const struct field host_field = {
        .name = "host",
        .type = FIELD_TEXT,
        .minimum = 1,
        .maximum = 255,
        .pattern = "[A-Za-z0-9._-]+|\\[[0-9A-Fa-f:.]+\\]",
        .pattern_message = "a host's name or address, without a port",
        .doc = "One host.",
};

const struct field network_fields[] = {
        {
                .name = "subnets",
                .type = FIELD_LIST,
                .required = true,
                .item = &subnet_field,
                .minimum = 1,
                .maximum = 16,
                .doc = "Subnets of your own, of one VPC, that functions have their network interfaces in. They are yours: Berth "
                       "changes nothing about them.",
        },
        {
                .name = "securityGroups",
                .type = FIELD_LIST,
                .required = true,
                .item = &security_group_field,
                .minimum = 1,
                .maximum = 16,
                .doc = "Security groups of that VPC, which decide where functions may connect to.",
        },
        { 0 },
};

const struct field metadata_fields[] = {
        {
                .name = "name",
                .type = FIELD_TEXT,
                .required = true,
                .minimum = 1,
                .maximum = NAME_LENGTH_MAX,
                .pattern = NAME_PATTERN,
                .pattern_message = NAME_PATTERN_MESSAGE,
                .doc = "The resource's name, unique among the resources of its kind. Everything that refers to it, and "
                       "what Berth makes for it, goes by this name.",
        },
        {
                .name = "labels",
                .type = FIELD_MAP,
                .keys = &label_key_field,
                .item = &label_value_field,
                .doc = "What resources are selected by: ResourceRange and WorkspacePolicy match them.",
        },
        {
                .name = "annotations",
                .type = FIELD_MAP,
                .keys = &label_key_field,
                .item = &annotation_value_field,
                .doc = "Notes for people and other tools. Berth does nothing with them.",
        },
        { 0 },
};
