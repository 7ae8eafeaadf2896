/* SPDX-License-Identifier: Apache-2.0 */
/* The field tables of the kinds, one file each (fields_KIND.c), and the fields that several of them share. */
#ifndef BERTH_SCHEMA_FIELDS_H
#define BERTH_SCHEMA_FIELDS_H

#include "schema/kind.h"

extern const struct field stack_fields[];
extern const struct field resource_range_fields[];
extern const struct field image_fields[];
extern const struct field environment_fields[];
extern const struct field workspace_policy_fields[];
extern const struct field agent_fields[];
extern const struct field swarm_fields[];
extern const struct field controller_fields[];

extern const struct field_group resource_range_groups[];
extern const struct field_group image_groups[];
extern const struct field_group workspace_policy_groups[];

/* Shared (fields_shared.c). */
extern const struct field label_key_field; /* of labels and matchLabels */
extern const struct field label_value_field;
extern const struct field agent_name_field; /* an item of a list of names */
extern const struct field environment_name_field;

#define MEMORY_MB_MIN 1769
#define MEMORY_MB_MAX 10240
#define STORAGE_MB_MIN 512
#define STORAGE_MB_MAX 10240

/* Patterns are common ground of POSIX extended and ECMAScript expressions: the JSON Schema repeats them. */
#define NAME_PATTERN "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
#define NAME_PATTERN_MESSAGE "lower-case letters, digits and hyphens, with no hyphen at either end"
#define REPOSITORY_PATTERN "([a-z0-9]+([._-][a-z0-9]+)*/)*[a-z0-9]+([._-][a-z0-9]+)*"
#define REPOSITORY_PATTERN_MESSAGE "a repository's name as in ECR (lower-case letters, digits, . _ - and /)"
#define TAG_PATTERN "[A-Za-z0-9_][A-Za-z0-9._-]*"
#define TAG_PATTERN_MESSAGE "an image tag (letters, digits, _ . and -)"
#define DIGEST_PATTERN "sha256:[0-9a-f]{64}"
#define DIGEST_PATTERN_MESSAGE "a digest: sha256: and 64 lower-case hex digits"
#define ROLE_PATTERN "arn:aws(-[a-z]+)*:iam::[0-9]{12}:role/[A-Za-z0-9+=,.@_/-]+"
#define ROLE_PATTERN_MESSAGE "the ARN of an IAM role, such as arn:aws:iam::123456789012:role/NAME"

#endif
