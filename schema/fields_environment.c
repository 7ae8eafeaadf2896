/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/fields.h"

static const char *const follows[] = { "pin", "tag", NULL };

/* The list of CloudWatch Logs' PutRetentionPolicy. */
static const int64_t retention_days[] = { 1,   3,   5,   7,    14,   30,   60,   90,   120,  150,  180, 365,
                                          400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653, -1 };

static const struct field image_name_field = {
        .name = "NAME",
        .type = FIELD_TEXT,
        .reference = "Image",
        .doc = "The name of an Image.",
};

static const struct field image_object_fields[] = {
        {
                .name = "prebuilt",
                .type = FIELD_TEXT,
                .minimum = 1,
                .maximum = 128,
                .pattern = "[a-z0-9]+([._-][a-z0-9]+)*",
                .pattern_message = "a prebuilt image's name, such as python or node",
                .doc = "A prebuilt image: in AWS the repository {namePrefix}/prebuilt/NAME, tag latest; locally, for "
                       "python, the machine's own /usr until a built image is imported.",
        },
        {
                .name = "repository",
                .type = FIELD_TEXT,
                .minimum = 2,
                .maximum = 256,
                .pattern = REPOSITORY_PATTERN,
                .pattern_message = REPOSITORY_PATTERN_MESSAGE,
                .doc = "The repository's name, without registry and tag: the registry is the stack's own.",
        },
        {
                .name = "tag",
                .type = FIELD_TEXT,
                .needs = "repository",
                .minimum = 1,
                .maximum = 128,
                .pattern = TAG_PATTERN,
                .pattern_message = TAG_PATTERN_MESSAGE,
                .doc = "A tag in the repository. It is resolved to a digest, always.",
        },
        {
                .name = "digest",
                .type = FIELD_TEXT,
                .needs = "repository",
                .pattern = DIGEST_PATTERN,
                .pattern_message = DIGEST_PATTERN_MESSAGE,
                .doc = "An image in the repository by digest: exactly these bytes.",
        },
        {
                .name = "follow",
                .type = FIELD_TEXT,
                .needs = "tag",
                .default_text = "pin",
                .choices_text = follows,
                .doc = "Whether the digest of the first apply stays (pin), or the next apply updates the environment "
                       "when the tag has moved (tag).",
        },
        { 0 },
};

static const char *const source_names[] = { "prebuilt", "repository", NULL };
static const char *const version_names[] = { "prebuilt", "tag", "digest", NULL };
static const struct field_group image_object_groups[] = { { source_names, true },
                                                          { version_names, true },
                                                          { 0 } };

/* What CreateFunction refuses: Lambda's developer guide, "Defined runtime environment variables". */
static const char *const reserved_variables[] = {
        "AWS_ACCESS_KEY",
        "AWS_ACCESS_KEY_ID",
        "AWS_DEFAULT_REGION",
        "AWS_EXECUTION_ENV",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE",
        "AWS_LAMBDA_FUNCTION_NAME",
        "AWS_LAMBDA_FUNCTION_VERSION",
        "AWS_LAMBDA_INITIALIZATION_TYPE",
        "AWS_LAMBDA_LOG_GROUP_NAME",
        "AWS_LAMBDA_LOG_STREAM_NAME",
        "AWS_LAMBDA_MAX_CONCURRENCY",
        "AWS_LAMBDA_METADATA_API",
        "AWS_LAMBDA_METADATA_TOKEN",
        "AWS_LAMBDA_RUNTIME_API",
        "AWS_REGION",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "LAMBDA_RUNTIME_DIR",
        "LAMBDA_TASK_ROOT",
        "_HANDLER",
        "_X_AMZN_TRACE_ID",
        NULL,
};

static const struct field variable_name_field = {
        .name = "NAME",
        .type = FIELD_TEXT,
        .minimum = 2,
        .maximum = 1024,
        .pattern = "[a-zA-Z][a-zA-Z0-9_]+",
        .pattern_message = "a letter, then letters, digits and _, two characters at least",
        .refused = reserved_variables,
        .refused_message = "is reserved: AWS Lambda sets it itself",
        .doc = "The variable's name. Those that AWS Lambda sets itself (AWS_REGION, AWS_LAMBDA_FUNCTION_NAME, "
               "LAMBDA_TASK_ROOT ...) are refused.",
};

static const struct field variable_text_field = {
        .name = "text",
        .type = FIELD_TEXT,
        .doc = "The variable's text.",
};

static const struct field variable_object_fields[] = {
        {
                .name = "value",
                .type = FIELD_TEXT,
                .required = true,
                .doc = "The variable's text.",
        },
        {
                .name = "sensitive",
                .type = FIELD_BOOLEAN,
                .default_text = "false",
                .doc = "Whether the text is a secret: never shown, and stored as a keyed hash only.",
        },
        { 0 },
};

static const struct field variable_field = {
        .name = "text or object",
        .type = FIELD_ONE_OF,
        .sensitive_item = true,
        .item = &variable_text_field,
        .fields = variable_object_fields,
        .doc = "A text, or {value: text, sensitive: true} for a secret.",
};

const struct field environment_fields[] = {
        {
                .name = "description",
                .type = FIELD_TEXT,
                .minimum = 0,
                .maximum = 256,
                .doc = "For people: what runs here.",
        },
        {
                .name = "image",
                .type = FIELD_ONE_OF,
                .required = true,
                .item = &image_name_field,
                .fields = image_object_fields,
                .groups = image_object_groups,
                .doc = "The container image: the name of an Image, {prebuilt: NAME}, {repository, tag} or {repository, "
                       "digest}. Whatever the form, the environment runs a digest, never a tag that could move under "
                       "it.",
        },
        {
                .name = "memoryMB",
                .type = FIELD_INTEGER,
                .unit = "MB",
                .minimum = MEMORY_MB_MIN,
                .maximum = MEMORY_MB_MAX,
                .default_text = "2048",
                .doc = "Memory. CPU comes with it, in proportion, and is never set: vCPU = memoryMB / 1769. A "
                       "ResourceRange can narrow the range and set another default.",
        },
        {
                .name = "workspaceStorageMB",
                .type = FIELD_INTEGER,
                .unit = "MB",
                .minimum = STORAGE_MB_MIN,
                .maximum = STORAGE_MB_MAX,
                .default_text = "512",
                .doc = "Room for a session's workspace. A ResourceRange can narrow the range and set another default.",
        },
        {
                .name = "timeoutSeconds",
                .type = FIELD_INTEGER,
                .unit = "seconds",
                .minimum = 900,
                .maximum = 900,
                .default_text = "900",
                .doc = "How long one execution may take. It is 900 everywhere; the field is there so that manifests "
                       "can say so.",
        },
        {
                .name = "variables",
                .type = FIELD_MAP,
                .keys = &variable_name_field,
                .item = &variable_field,
                .sensitive_item = true,
                .doc = "Environment variables of the agent's code: 4 KB at most, all names and texts together.",
        },
        {
                .name = "reservedConcurrency",
                .type = FIELD_INTEGER,
                .unit = "executions",
                .minimum = 0,
                .maximum = 1000000,
                .doc = "Executions at the same time that are set aside for this environment, and the most it gets; 0 "
                       "stops it. Absent: it shares what the account has.",
        },
        {
                .name = "logRetentionDays",
                .type = FIELD_INTEGER,
                .unit = "days",
                .choices_integer = retention_days,
                .doc = "How long logs are kept. Absent: the log group is not Berth's, and AWS keeps logs for ever.",
        },
        {
                .name = "tenantIsolation",
                .type = FIELD_BOOLEAN,
                .default_text = "false",
                .doc = "Whether sessions of different tenants never share an execution environment. It cannot be "
                       "changed in place (needs-replacement).",
        },
        {
                .name = "protect",
                .type = FIELD_BOOLEAN,
                .default_text = "false",
                .doc = "Whether Berth refuses to delete or replace the environment, even after its manifest is gone "
                       "(protected).",
        },
        { 0 },
};
