/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/fields.h"

static const struct field retain_fields[] = {
        {
                .name = "untaggedDays",
                .type = FIELD_INTEGER,
                .unit = "days",
                .minimum = 1,
                .maximum = 36500,
                .doc = "Images that no tag points to are deleted this many days after they were pushed.",
        },
        {
                .name = "lastTagged",
                .type = FIELD_INTEGER,
                .unit = "images",
                .minimum = 1,
                .maximum = 100000,
                .doc = "Only so many tagged images are kept, the newest.",
        },
        { 0 },
};

static const char *const retain_names[] = { "untaggedDays", "lastTagged", NULL };
static const struct field_group retain_groups[] = { { retain_names, false }, { 0 } };

static const char *const version_names[] = { "tag", "digest", NULL };
const struct field_group image_groups[] = { { version_names, true }, { 0 } };

const struct field image_fields[] = {
        {
                .name = "repository",
                .type = FIELD_TEXT,
                .required = true,
                .minimum = 2,
                .maximum = 256,
                .pattern = REPOSITORY_PATTERN,
                .pattern_message = REPOSITORY_PATTERN_MESSAGE,
                .doc = "The repository's name, without registry and tag: the registry is the stack's own.",
        },
        {
                .name = "tag",
                .type = FIELD_TEXT,
                .minimum = 1,
                .maximum = 128,
                .pattern = TAG_PATTERN,
                .pattern_message = TAG_PATTERN_MESSAGE,
                .doc = "The tag of the image that environments get. It is resolved to a digest; an environment stays "
                       "with the digest of its first apply.",
        },
        {
                .name = "digest",
                .type = FIELD_TEXT,
                .pattern = DIGEST_PATTERN,
                .pattern_message = DIGEST_PATTERN_MESSAGE,
                .doc = "The image that environments get, by digest: exactly these bytes.",
        },
        {
                .name = "createRepository",
                .type = FIELD_BOOLEAN,
                .default_text = "false",
                .doc = "Whether Berth makes the repository where it does not exist, and deletes it with this resource "
                       "if it is empty. With false only the settings given here are Berth's.",
        },
        {
                .name = "scanOnPush",
                .type = FIELD_BOOLEAN,
                .doc = "Whether the registry scans each pushed image. Absent: left as it is.",
        },
        {
                .name = "immutableTags",
                .type = FIELD_BOOLEAN,
                .doc = "Whether a tag, once pushed, cannot be moved. Absent: left as it is.",
        },
        {
                .name = "retain",
                .type = FIELD_OBJECT,
                .fields = retain_fields,
                .groups = retain_groups,
                .doc = "The repository's lifecycle policy. A policy that would delete an image which an environment "
                       "runs is refused (image-in-use).",
        },
        { 0 },
};
