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
