/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"
#include "schema/fields.h"
#include "schema/loading.h"

#include <inttypes.h>
#include <string.h>

#define VARIABLES_SIZE_MAX 4096U
#define FUNCTION_NAME_MAX 64U /* Lambda's */

static const char *const follows[] = { "pin", "tag", NULL };

/* What berth image build can make; a test holds the recipes against it. */
static const char *const prebuilt_names[] = { "python", NULL };

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
                .known = prebuilt_names,
                .doc = "A prebuilt image: in AWS the repository {namePrefix}/prebuilt/NAME, tag latest; locally, for "
                       "python, the machine's own /usr until a built image is imported.",
        },
        {
                .name = "registry",
                .type = FIELD_TEXT,
                .needs = "repository",
                .pattern = REGISTRY_PATTERN,
                .pattern_message = REGISTRY_PATTERN_MESSAGE,
                .doc = "In AWS, another account's registry of ECR, in the stack's own region; its repository needs a policy, which berth "
                       "image instructions prints. Absent: the stack's own account and region.",
        },
        {
                .name = "repository",
                .type = FIELD_TEXT,
                .minimum = 2,
                .maximum = 256,
                .pattern = REPOSITORY_PATTERN,
                .pattern_message = REPOSITORY_PATTERN_MESSAGE,
                .doc = "The repository's name, without registry and tag.",
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
                .doc = "The variable's text.",
        },
        {
                .name = "sensitive",
                .type = FIELD_BOOLEAN,
                .needs = "value",
                .default_text = "false",
                .doc = "Whether the text is a secret: never shown, and stored as a keyed hash only.",
        },
        {
                .name = "secret",
                .type = FIELD_TEXT,
                .maximum = 2048,
                .pattern = SECRET_PATTERN,
                .pattern_message = SECRET_PATTERN_MESSAGE,
                .may_be_secret = true,
                .doc = "The ARN of a secret of AWS Secrets Manager, from which each apply takes the text; as in ECS task "
                       "definitions, :JSON-KEY:VERSION-STAGE:VERSION-ID may follow, each of them empty or given. In AWS only: "
                       "elsewhere the variable is not set.",
        },
        {
                .name = "parameter",
                .type = FIELD_TEXT,
                .maximum = 2048,
                .pattern = PARAMETER_PATTERN,
                .pattern_message = PARAMETER_PATTERN_MESSAGE,
                .may_be_secret = true,
                .doc = "The ARN of a parameter of AWS Systems Manager, from which each apply takes the text. In AWS only.",
        },
        { 0 },
};

static const char *const variable_sources[] = { "value", "secret", "parameter", NULL };
static const struct field_group variable_groups[] = { { variable_sources, true }, { 0 } };

static const struct field variable_field = {
        .name = "text or object",
        .type = FIELD_ONE_OF,
        .sensitive_item = true,
        .item = &variable_text_field,
        .fields = variable_object_fields,
        .groups = variable_groups,
        .doc = "A text; {value: text, sensitive: true} for a secret; {secret: ARN} or {parameter: ARN} for one that is kept in "
               "AWS, and never in manifests, plans or state.",
};

static const char *const accepted_words[] = { "url",          "permissions", "network", "concurrency",
                                              "rolePolicies", "roleRights",  NULL };

static const struct field accepted_field = {
        .name = "word",
        .type = FIELD_TEXT,
        .choices_text = accepted_words,
        .doc = "url: a function URL. permissions: statements of the function's resource policy. network: the VPC that it runs "
               "in. concurrency: executions that were reserved for it. Of its own role (executionRole: own), rolePolicies: policies that others attached to it or wrote into it; "
               "roleRights: rights that others took from it (an action removed, a Deny, a permissions boundary).",
};

static const char *const environment_network_names[] = { NETWORK_NONE, "open", NETWORK_ISOLATED, NULL };

static const struct field environment_network_name_field = {
        .name = "text",
        .type = FIELD_TEXT,
        .choices_text = environment_network_names,
        .doc = "none: nothing is reached; on this machine that is so unless hosts are allowed. In AWS, open: Lambda's own network, "
               "which leads everywhere. isolated: a VPC that Berth makes, from which nothing is reached but the stack's bucket.",
};

static const struct field allowed_host_field = {
        .name = "host",
        .type = FIELD_TEXT,
        .minimum = 4,
        .maximum = 261,
        .pattern = ALLOWED_HOST_PATTERN,
        .pattern_message =
                "a host's whole name in lower case, such as pypi.org, *.example.org or git.example.org:8443; no "
                "address, a star as the first label alone with two labels behind it, and letters "
                "beyond ASCII as xn--",
        .doc = "HOST: its ports 443 by TLS and 80 by HTTP. HOST:PORT: that port alone. *.HOST: every name below HOST, not HOST "
               "itself.",
};

static const struct field environment_network_fields[] = {
        {
                .name = "allow",
                .type = FIELD_LIST,
                .item = &allowed_host_field,
                .minimum = 1,
                .maximum = ALLOWED_HOSTS_MAX,
                .doc = "On this machine: the hosts that code may reach, by HTTP and TLS through a proxy of Berth's, and no other. It "
                       "holds for sandboxes that start after the apply.",
        },
        {
                .name = "transferMB",
                .type = FIELD_INTEGER,
                .needs = "allow",
                .unit = "MB",
                .minimum = 1,
                .maximum = 1048576,
                .default_text = "10240",
                .doc = "How much one sandbox may send and receive in 24 hours, both together, counted from its start.",
        },
        {
                .name = "subnets",
                .type = FIELD_LIST,
                .item = &subnet_field,
                .minimum = 1,
                .maximum = 16,
                .doc = "In AWS: subnets of your own, of one VPC, that functions have their network interfaces in. They are yours: Berth "
                       "changes nothing about them.",
        },
        {
                .name = "securityGroups",
                .type = FIELD_LIST,
                .item = &security_group_field,
                .minimum = 1,
                .maximum = 16,
                .doc = "In AWS: security groups of that VPC, which decide where functions may connect to.",
        },
        { 0 },
};

/* By both of them subnets come with groups, and neither with hosts. */
static const char *const network_of_subnets[] = { "allow", "subnets", NULL };
static const char *const network_of_groups[] = { "allow", "securityGroups", NULL };
static const struct field_group environment_network_groups[] = { { network_of_subnets, true },
                                                                 { network_of_groups, true },
                                                                 { 0 } };

static const struct field environment_fields[] = {
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
                       "digest}, and registry beside these. Whatever the form, the environment runs a digest, never a tag that could move under "
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
                .doc = "Environment variables of the agent's code: 4 KB at most, all names and texts together, those of secrets too.",
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
                .doc = "How long logs are kept. Absent: the log group is not Berth's, and AWS keeps "
                       "logs forever. A change that would delete existing logs is refused "
                       "(expires-logs).",
        },
        {
                .name = "executionRole",
                .type = FIELD_TEXT,
                .pattern = EXECUTION_ROLE_OWN "|" ROLE_PATTERN,
                .pattern_message =
                        "own, or the ARN of an IAM role, such as arn:aws:iam::123456789012:role/NAME",
                .doc = "The role that the environment runs with, in place of the Stack's: own is one that Berth makes for it "
                       "alone, with the shared one's rights to its own logs and workspaces only; an ARN is a role of yours, "
                       "which is used and never changed. AWS only.",
        },
        {
                .name = "tenantIsolation",
                .type = FIELD_BOOLEAN,
                .doc = "Whether sessions of different tenants never share an execution environment. Absent: true for a "
                       "new environment; one that exists keeps what it has. It cannot be changed in place "
                       "(needs-replacement).",
        },
        {
                .name = "network",
                .type = FIELD_ONE_OF,
                .item = &environment_network_name_field,
                .fields = environment_network_fields,
                .groups = environment_network_groups,
                .doc = "What code can reach. On this machine nothing, or hosts by name ({allow: [HOST]}). In AWS, this environment's "
                       "network in place of the Stack's aws.network, which must be there too.",
        },
        {
                .name = "protect",
                .type = FIELD_BOOLEAN,
                .default_text = "false",
                .doc = "Whether Berth refuses to delete or replace the environment, even after its manifest is gone "
                       "(protected).",
        },
        {
                .name = "accept",
                .type = FIELD_LIST,
                .item = &accepted_field,
                .doc = "What others added to the function in AWS or did to its own role, that Berth leaves as it is, and that is "
                       "no drift to be told any more.",
        },
        { 0 },
};

/* GetSecretValue takes both where they mean the same version; then one of them says nothing. */
static void check_secret(struct loading *loading, const struct value *secret) {
        const char *text = value_text_of(secret);
        size_t stage = 0, id = 0;

        if (!text)
                return;
        text_field(text, ':', 8, &stage);
        text_field(text, ':', 9, &id);
        if (stage && id)
                problem_error(loading, place_of(secret), "leave the stage empty: ...:JSON-KEY::VERSION-ID",
                              "a secret's version is named by its stage or by its id, not by both");
}

/* Lambda measures the variables as the JSON object that they are sent as. */
static size_t json_size(const char *text) {
        size_t size = 2;

        for (const unsigned char *byte = (const unsigned char *)text; *byte; byte++) {
                if (*byte == '"' || *byte == '\\' || *byte == '\n' || *byte == '\r' || *byte == '\t')
                        size += 2;
                else
                        size += *byte < 0x20 ? 6 : 1;
        }
        return size;
}

static void check_environment(struct loading *loading, const struct draft *draft) {
        const struct value *variables = typed_member(draft->resource.spec, "variables", VALUE_MAP);
        size_t size = 2;

        check_repository(loading, value_get(draft->resource.spec, "image"));
        for (uint32_t i = 0; variables && i < variables->count; i++) {
                const struct member *member = &variables->members[i];
                const char *text = value_text_of(&member->value);

                size += json_size(member->name) + 1 + json_size(text ? text : "") + (i > 0);
                if (member->value.type == VALUE_MAP)
                        check_secret(loading, typed_member(&member->value, "secret", VALUE_TEXT));
        }
        if (variables && size > VARIABLES_SIZE_MAX)
                problem_error(loading, place_of(variables),
                              "keep large texts in a file of the image or in S3",
                              "the variables take %zu bytes together, AWS Lambda allows %u", size,
                              VARIABLES_SIZE_MAX);
}

/* What the reference to an Image stands for: the shape that an environment's own image would have. */
static struct value image_of(struct loading *loading, const struct resource *image) {
        const char *tag = value_get_text(image->spec, "tag");
        const struct value *registry = value_get(image->spec, "registry");
        struct value resolved = { .type = VALUE_MAP };

        if (registry)
                value_set(loading->arena, &resolved, "registry", *registry);
        value_set_text(loading->arena, &resolved, "repository", value_get_text(image->spec, "repository"));
        value_set_text(loading->arena, &resolved, "tag", tag);
        value_set_text(loading->arena, &resolved, "digest", value_get_text(image->spec, "digest"));
        if (tag)
                value_set_text(loading->arena, &resolved, "follow", "pin");
        value_set_text(loading->arena, &resolved, "image", image->name);
        return resolved;
}

/* Lambda takes roles of the function's own account alone. */
static void check_own_account(struct loading *loading, const struct draft *environment) {
        const struct value *role = typed_member(environment->resource.spec, "executionRole", VALUE_TEXT);
        const struct value *account = typed_member(
                typed_member(loading->manifests->stack->spec, "aws", VALUE_MAP), "account", VALUE_TEXT);

        if (role && account)
                check_role_account(loading, role, account);
}

/* A name stands for what the Image says. A name without an Image was reported. */
static void resolve_image(struct loading *loading, const struct draft *environment) {
        struct value *reference = (struct value *)value_get(environment->resource.spec, "image");
        const char *name = value_text_of(reference);
        const struct resource *image = name ? manifests_find(loading->manifests, KIND_IMAGE, name) : NULL;
        struct value resolved;

        if (!image)
                return;
        resolved = image_of(loading, image);
        resolved.file = reference->file;
        resolved.line = reference->line;
        resolved.column = reference->column;
        *reference = resolved;
}

/* The VPC of isolated functions is the Stack's to make: the provider, which sees no Environment then, is told by `isolates`. */
static void note_isolated(struct loading *loading, const struct draft *environment) {
        const char *network = value_get_text(environment->resource.spec, "network");
        struct value *aws = (struct value *)value_get(loading->manifests->stack->spec, "aws");

        if (network && strcmp(network, NETWORK_ISOLATED) == 0 && aws && !value_get(aws, "isolates"))
                value_set_boolean(loading->arena, aws, "isolates", true);
}

/* What only Berth's own sandboxes can hold: there is no proxy in front of a function. */
static bool is_of_this_machine(const struct value *network) {
        const char *word = value_text_of(network);

        return value_get(network, "allow") || (word && strcmp(word, NETWORK_NONE) == 0);
}

/* The execution role gets the rights that functions in a VPC need by the Stack's word alone. */
static void check_network(struct loading *loading, const struct draft *environment) {
        const struct value *network = value_get(environment->resource.spec, "network");
        const struct value *stack = loading->manifests->stack->spec;
        const char *provider = value_get_text(stack, "provider");

        if (!network || !provider || strcmp(provider, "aws") != 0)
                return;
        if (is_of_this_machine(network))
                problem_error(
                        loading, place_of(network),
                        "in AWS say isolated, or subnets and securityGroups of your own that let out only what may go "
                        "out; hosts are allowed with provider: local",
                        "a function's own network is not managed by Berth: it supports no list of hosts, and cannot be closed");
        else if (!value_path(stack, "aws.network"))
                problem_error(loading, place_of(network),
                              "say aws.network: open in the Stack, if all others are open",
                              "an Environment's network needs the Stack's aws.network");
}

/* Names are checked here and not with the field, since the Stack's prefix counts too. */
static void resolve_environments(struct loading *loading) {
        struct drafts environments = drafts_of(loading, KIND_ENVIRONMENT);
        const char *prefix = value_get_text(value_get(loading->manifests->stack->spec, "aws"), "namePrefix");
        size_t prefix_length;

        if (!prefix)
                prefix = kind_field(&stack_kind, "aws.namePrefix")->default_text;
        prefix_length = strlen(prefix) + strlen("-env-");
        for (size_t i = 0; i < environments.count; i++) {
                const struct draft *environment = &environments.items[i];
                size_t length = prefix_length + strlen(environment->resource.name);

                loading->address = environment->resource.address;
                /* A name that is too long in itself was reported with its field. */
                if (length > FUNCTION_NAME_MAX && strlen(environment->resource.name) <= NAME_LENGTH_MAX)
                        problem_error(
                                loading, environment->name, "shorten the name, or the Stack's aws.namePrefix",
                                "the function would be named %s-env-%s: %zu characters, AWS Lambda allows %u",
                                prefix, environment->resource.name, length, FUNCTION_NAME_MAX);
                check_own_account(loading, environment);
                /* Before it has its Image's, which is reported there. */
                check_registry(loading, value_get(environment->resource.spec, "image"));
                resolve_image(loading, environment);
                check_network(loading, environment);
                note_isolated(loading, environment);
        }
}

static void summarise_environment(const struct value *spec, const struct value *wish, struct strbuf *out) {
        const struct value *image = value_get(spec, "image");
        const char *prebuilt = value_get_text(image, "prebuilt");
        const char *repository = value_get_text(image, "repository");
        const char *tag = value_get_text(image, "tag");
        int64_t memory = value_get_integer(spec, "memoryMB", 0);

        (void)wish;
        strbuf_printf(out, "%5" PRId64 " MB  %.2f vCPU  ", memory, (double)memory / MEMORY_MB_PER_VCPU);
        if (prebuilt)
                strbuf_printf(out, "prebuilt %s", prebuilt);
        else if (repository)
                strbuf_printf(out, "%s%s%s", repository, tag ? ":" : "", tag ? tag : "");
}

static const char *const short_names[] = { "env", NULL };
static const struct kind_reference references[] = {
        { .path = "image",
          .kind = KIND_IMAGE,
          .loaded_path = "image.image",
          .orders = true,
          .otherwise = "the name of an Image, or {prebuilt: NAME}, or {repository: NAME, tag: TAG}" },
        { 0 },
};

const struct kind environment_kind = {
        .id = KIND_ENVIRONMENT,
        .name = "Environment",
        .short_names = short_names,
        .doc = "A sandboxed Linux computer in which agents run Python and shell. In AWS, one Lambda function "
               "from a container image.",
        .fields = environment_fields,
        .schema_rules =
                "{\"properties\": {\"image\": {\"if\": {\"type\": \"object\"}, \"then\": {\"properties\": "
                "{\"repository\": {\"not\": {\"pattern\": \"\\\\.(amazonaws|dkr\\\\.ecr)\\\\.\"}}}}}}}",
        .managed = true,
        .lane = 2,
        .references = references,
        .instead_of_replacing = "make a new environment and re-point its agents",
        .check = check_environment,
        .resolve = resolve_environments,
        .summarise = summarise_environment,
};
