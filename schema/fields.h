/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of the kinds, one file each, with their fields and rules; and the fields that several of them share. */
#ifndef BERTH_SCHEMA_FIELDS_H
#define BERTH_SCHEMA_FIELDS_H

#include "schema/kind.h"

/* The rows: kind_NAME.c. */
extern const struct kind stack_kind;
extern const struct kind resource_range_kind;
extern const struct kind image_kind;
extern const struct kind environment_kind;
extern const struct kind workspace_policy_kind;
extern const struct kind agent_kind;
extern const struct kind swarm_kind;
extern const struct kind controller_kind;
extern const struct kind server_kind;

/* Shared (fields_shared.c). */
extern const struct field label_key_field; /* of labels and matchLabels */
extern const struct field label_value_field;
extern const struct field agent_name_field; /* an item of a list of names */
extern const struct field environment_name_field;
extern const char *const network_names[];     /* the words of network */
extern const struct field network_name_field; /* network, where it is one of them */
extern const struct field network_fields[];   /* and where it is not */
extern const struct field subnet_field;       /* an item of its subnets, and of securityGroups */
extern const struct field security_group_field;
extern const struct field host_field; /* an item of hosts */

#define MEMORY_MB_MIN MEMORY_MB_PER_VCPU
#define MEMORY_MB_MAX 10240
#define STORAGE_MB_MIN 512
#define STORAGE_MB_MAX 10240

/* Patterns are common ground of POSIX extended and ECMAScript expressions: the JSON Schema repeats them. */
#define NAME_PATTERN "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
#define NAME_PATTERN_MESSAGE "lower-case letters, digits and hyphens, with no hyphen at either end"
#define LISTEN_PATTERN "off|([A-Za-z0-9.-]*|\\[[0-9A-Fa-f:.]+\\]):[0-9]{1,5}"
#define LISTEN_PATTERN_MESSAGE "HOST:PORT, [ADDRESS]:PORT, :PORT for every address, or off"
#define REPOSITORY_PATTERN "([a-z0-9]+([._-][a-z0-9]+)*/)*[a-z0-9]+([._-][a-z0-9]+)*"
#define REPOSITORY_PATTERN_MESSAGE "a repository's name as in ECR (lower-case letters, digits, . _ - and /)"
#define REGISTRY_DOMAINS \
        "(amazonaws\\.com(\\.cn)?|amazonaws\\.eu|c2s\\.ic\\.gov|sc2s\\.sgov\\.gov|cloud\\.adc-e\\.uk|csp\\.hci\\.ic\\.gov)"
#define REGISTRY_PATTERN "[0-9]{12}\\.dkr\\.ecr\\.[a-z]{2,}(-[a-z]+)+-[0-9]+\\." REGISTRY_DOMAINS
#define REGISTRY_PATTERN_MESSAGE "an ECR registry, such as 123456789012.dkr.ecr.eu-west-1.amazonaws.com"
#define TAG_PATTERN "[A-Za-z0-9_][A-Za-z0-9._-]*"
#define TAG_PATTERN_MESSAGE "an image tag (letters, digits, _ . and -)"
#define DIGEST_PATTERN "sha256:[0-9a-f]{64}"
#define DIGEST_PATTERN_MESSAGE "a digest: sha256: and 64 lower-case hex digits"
/* An item of an Environment's network.allow. The last label begins with a letter: no address of any form is one. */
#define ALLOWED_HOST_PATTERN                                                               \
        "(\\*\\.)?([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\\.)+[a-z]([-a-z0-9]{0,61}[a-z0-9])?" \
        "(:([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?"
#define ALLOWED_HOSTS_MAX 256
/* A state's place in S3. */
#define S3_STATE_PATTERN "s3://[a-z0-9.-]{3,63}/" FROM_1_TO_512("[A-Za-z0-9_.=/-]")
/* As many characters of a pattern's set: a bound of more than 255 is not known to every C library (RE_DUP_MAX of regcomp(3)). */
#define FROM_1_TO_512(set) set "{1,255}" set "{0,255}" set "{0,2}"
#define S3_STATE_PATTERN_MESSAGE "s3://BUCKET/PREFIX"
#define ROLE_PATTERN "arn:aws(-[a-z]+)*:iam::[0-9]{12}:role/([A-Za-z0-9+=,.@_-]+/)*[A-Za-z0-9+=,.@_-]+"
#define KMS_KEY_PATTERN \
        "arn:aws(-[a-z]+)*:kms:[a-z]{2,}(-[a-z]+)+-[0-9]+:[0-9]{12}:key/(mrk-)?[0-9a-f-]{32,36}"
#define KMS_KEY_PATTERN_MESSAGE                                                                                          \
        "the ARN of a KMS key, such as arn:aws:kms:eu-central-1:123456789012:key/...; an alias may be moved to another " \
        "key unseen"
#define BOUNDARY_PATTERN \
        "arn:aws(-[a-z]+)*:iam::([0-9]{12}|aws):policy/([A-Za-z0-9+=,.@_-]+/)*[A-Za-z0-9+=,.@_-]+"
#define BOUNDARY_PATTERN_MESSAGE "the ARN of an IAM policy, such as arn:aws:iam::123456789012:policy/NAME"
#define ROLE_PATH_PATTERN "/([A-Za-z0-9+=,.@_-]+/)*"
#define ROLE_PATH_PATTERN_MESSAGE "an IAM path, which begins and ends with a slash, such as /agents/"
#define ROLE_PATTERN_MESSAGE "the ARN of an IAM role, such as arn:aws:iam::123456789012:role/NAME"
#define SECRET_PATTERN                                                                                                    \
        "arn:aws(-[a-z]+)*:secretsmanager:[a-z]{2,}(-[a-z]+)+-[0-9]+:[0-9]{12}:secret:[A-Za-z0-9/_+=.@-]+-[A-Za-z0-9]{6}" \
        "(:[^: ]*:[A-Za-z0-9/_+=.@-]*:([A-Za-z0-9-]{32,64})?)?"
#define SECRET_PATTERN_MESSAGE                                                                                         \
        "a secret's whole ARN, such as arn:aws:secretsmanager:eu-west-1:123456789012:secret:NAME-AbCdEf, or that and " \
        ":JSON-KEY:VERSION-STAGE:VERSION-ID"
#define PARAMETER_PATTERN \
        "arn:aws(-[a-z]+)*:ssm:[a-z]{2,}(-[a-z]+)+-[0-9]+:[0-9]{12}:parameter/[A-Za-z0-9_./-]+"
#define PARAMETER_PATTERN_MESSAGE \
        "a parameter's ARN, such as arn:aws:ssm:eu-west-1:123456789012:parameter/PATH/NAME"

#endif
