/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text_utf8.h"
#include "schema/fields.h"
#include "schema/loading.h"
#include "schema/state_place.h"

#include <string.h>
#include <strings.h>

static const char *const providers[] = { "aws", "local", NULL };

/* What AWS takes as tags: the characters that all of Lambda, ECR, IAM and S3 take. */
#define AWS_TAG_PATTERN "[^!-*,;<>?[-^`{-~]*"
#define AWS_TAG_MESSAGE "letters, digits, spaces and . : / = + - @ _"

static const struct field tag_key = {
        .name = "KEY",
        .type = FIELD_TEXT,
        .minimum = 1,
        .maximum = 128,
        .pattern = AWS_TAG_PATTERN,
        .pattern_message = AWS_TAG_MESSAGE,
        .doc = "The tag's key. Those that begin with aws: or berth: are not yours to set.",
};

static const struct field tag_label = {
        .name = "LABEL",
        .type = FIELD_TEXT,
        .minimum = 1,
        .maximum = 128,
        .pattern = AWS_TAG_PATTERN,
        .pattern_message = AWS_TAG_MESSAGE,
        .doc = "The label's name, which is the tag's key. Those that begin with aws: or berth: are not yours to set.",
};

static const struct field tag_value = {
        .name = "text",
        .type = FIELD_TEXT,
        .minimum = 0,
        .maximum = 256,
        .pattern = AWS_TAG_PATTERN,
        .pattern_message = AWS_TAG_MESSAGE,
        .doc = "The tag's value.",
};

static const char *const accepted_words[] = { "rolePolicies", "roleRights", NULL };

static const struct field accepted_field = {
        .name = "word",
        .type = FIELD_TEXT,
        .choices_text = accepted_words,
        .doc = "rolePolicies: policies that others attached to the execution role or wrote into it. roleRights: rights that "
               "others took from it (an action removed, a Deny, a permissions boundary).",
};

static const struct field aws_fields[] = {
        {
                .name = "region",
                .type = FIELD_TEXT,
                .pattern = "[a-z]{2,}(-[a-z]+)+-[0-9]+",
                .pattern_message = "an AWS region, such as eu-central-1",
                .doc = "The region. Absent: as for any AWS tool, from the environment or the profile. Named, it keeps "
                       "the stack from being applied elsewhere.",
        },
        {
                .name = "account",
                .type = FIELD_TEXT,
                .pattern = "[0-9]{12}",
                .pattern_message = "an AWS account: 12 digits",
                .doc = "The account that the credentials must belong to. With any other, plan and apply are refused "
                       "(wrong-account).",
        },
        {
                .name = "profile",
                .type = FIELD_TEXT,
                .minimum = 1,
                .maximum = 256,
                .doc = "The profile in the shared AWS configuration files that credentials come from.",
        },
        {
                .name = "assumeRole",
                .type = FIELD_TEXT,
                .pattern = ROLE_PATTERN,
                .pattern_message = ROLE_PATTERN_MESSAGE,
                .doc = "The ARN of a role to assume with the credentials found, before anything else is called.",
        },
        {
                .name = "endpointUrl",
                .type = FIELD_TEXT,
                .pattern = "https?://[^ ]+",
                .url = true,
                .pattern_message = "a URL that begins with http:// or https://",
                .doc = "Where all AWS services are reached instead of AWS. AWS_ENDPOINT_URL and "
                       "AWS_ENDPOINT_URL_<SERVICE> do the same from outside.",
        },
        {
                .name = "namePrefix",
                .type = FIELD_TEXT,
                .minimum = 1,
                .maximum = 24,
                .default_text = "alphaagent",
                .pattern = NAME_PATTERN,
                .pattern_message = NAME_PATTERN_MESSAGE,
                .doc = "What the names of everything in AWS begin with: functions are {namePrefix}-env-NAME (64 "
                       "characters at most), the bucket {namePrefix}-workspaces-ACCOUNT-REGION.",
        },
        {
                .name = "executionRole",
                .type = FIELD_TEXT,
                .pattern = ROLE_PATTERN,
                .pattern_message = ROLE_PATTERN_MESSAGE,
                .doc = "The ARN of the role that functions run with. Absent: Berth makes one with the least rights, "
                       "and keeps it so.",
        },
        {
                .name = "accept",
                .type = FIELD_LIST,
                .item = &accepted_field,
                .doc = "What others did to the execution role that Berth made, that Berth leaves as it is, and that is no "
                       "drift to be told any more.",
        },
        {
                .name = "permissionsBoundary",
                .type = FIELD_TEXT,
                .pattern = BOUNDARY_PATTERN,
                .pattern_message = BOUNDARY_PATTERN_MESSAGE,
                .doc = "The ARN of a managed policy that bounds the rights of every role that Berth "
                       "makes. Absent: Berth sets none, and a boundary set by others stays.",
        },
        {
                .name = "rolePath",
                .type = FIELD_TEXT,
                .minimum = 1,
                .maximum = 512,
                .pattern = ROLE_PATH_PATTERN,
                .pattern_message = ROLE_PATH_PATTERN_MESSAGE,
                .doc = "The IAM path of every role that Berth makes, such as /agents/. IAM moves no role: another path for one "
                       "that is there is refused (needs-replacement). Absent: /, or wherever the role is.",
        },
        {
                .name = "createBucket",
                .type = FIELD_BOOLEAN,
                .default_text = "true",
                .doc = "Whether the workspace bucket is this stack's to make and to keep. With false, and an "
                       "executionRole, the stack shares the bucket of another stack with the same namePrefix.",
        },
        {
                .name = "kmsKey",
                .type = FIELD_TEXT,
                .pattern = KMS_KEY_PATTERN,
                .pattern_message = KMS_KEY_PATTERN_MESSAGE,
                .doc = "The ARN of a key of KMS, of this region, that variables, images as Lambda keeps them, the "
                       "bucket's new objects and log groups are encrypted with; log groups are then Berth's to make. "
                       "Absent: what each of them has stays, and new ones get the service's own keys.",
        },
        {
                .name = "network",
                .type = FIELD_ONE_OF,
                .item = &network_name_field,
                .fields = network_fields,
                .doc = "Where functions can connect to: open (everywhere), isolated (the stack's bucket and nothing else, from "
                       "a VPC that Berth makes), or subnets and security groups of your own. "
                       "Absent: the network that each function has stays; a new one is open.",
        },
        { 0 },
};

static const struct field local_fields[] = {
        {
                .name = "images",
                .type = FIELD_TEXT,
                .minimum = 1,
                .maximum = 4096,
                .doc = "The folder of the local image store; a relative path begins at the state folder. Absent: images, in "
                       "the stack's own folder, local/STACK in the state folder.",
        },
        {
                .name = "workspaces",
                .type = FIELD_TEXT,
                .minimum = 1,
                .maximum = 4096,
                .doc = "The folder that holds the workspaces of sessions; a relative path begins at the state folder. Absent: "
                       "workspaces, in the stack's own folder. Several stacks may share one.",
        },
        { 0 },
};

static const struct field state_fields[] = {
        {
                .name = "s3",
                .type = FIELD_TEXT,
                .minimum = 1,
                .maximum = 640,
                .pattern = S3_STATE_PATTERN,
                .pattern_message = S3_STATE_PATTERN_MESSAGE,
                .doc = "s3://BUCKET/PREFIX: a prefix of a bucket that is there, for this stack's state alone. Best a bucket of its "
                       "own, with versioning. For provider aws.",
        },
        { 0 },
};

static const struct field sessions_fields[] = {
        {
                .name = "table",
                .type = FIELD_TEXT,
                .required = true,
                .pattern = "[a-zA-Z0-9_.-]{3,255}",
                .pattern_message = "a table of DynamoDB: 3 to 255 letters, digits and _ . -",
                .doc = "The table of DynamoDB that sessions' records lie in, of the stack's account and region. Another name makes "
                       "another table, and the one of before goes, which is refused while it holds anything (table-not-empty).",
        },
        {
                .name = "createTable",
                .type = FIELD_BOOLEAN,
                .doc = "Whether the table is this stack's to make and to keep. Absent: true. With false it has to be there, and "
                       "Berth changes nothing about it; stacks may share one.",
        },
        { 0 },
};

static const struct field guard_fields[] = {
        {
                .name = "maxDeletes",
                .type = FIELD_INTEGER,
                .minimum = 0,
                .maximum = 1000000,
                .doc = "An apply that would delete more resources than this is refused as a whole (mass-delete). "
                       "Without either limit: more than half of the stack's resources, and at least 5.",
        },
        {
                .name = "maxDeletePercent",
                .type = FIELD_INTEGER,
                .minimum = 0,
                .maximum = 100,
                .unit = "percent",
                .doc = "The same, as a share of the stack's resources.",
        },
        { 0 },
};

static const struct field include_item = {
        .name = "folder",
        .type = FIELD_TEXT,
        .minimum = 1,
        .maximum = 1024,
        .pattern = "[^/].*",
        .pattern_message = "a path relative to this file, such as ../common",
        .doc = "A folder, relative to the file that names it.",
};

static const struct field stack_fields[] = {
        {
                .name = "provider",
                .type = FIELD_TEXT,
                .default_text = "local",
                .choices_text = providers,
                .doc = "Where the stack lives: in an AWS account and region, or in sandboxes on this machine. "
                       "--provider overrides it.",
        },
        {
                .name = "tags",
                .type = FIELD_MAP,
                .keys = &tag_key,
                .item = &tag_value,
                .minimum = 0,
                .maximum = 46,
                .doc = "Tags on everything Berth makes. AWS takes 50 a resource; four are Berth's own (berth:stack, "
                       "berth:kind, berth:name, berth:lineage).",
        },
        {
                .name = "tagLabels",
                .type = FIELD_LIST,
                .item = &tag_label,
                .minimum = 0,
                .maximum = 46,
                .doc = "Labels (metadata.labels) that become tags of what Berth makes for the resource that has them: of an "
                       "Environment its function, log group and own role, of an Image its repository, of the Stack all that is "
                       "shared. Where a label and a tag of tags have one name, the label is taken.",
        },
        {
                .name = "aws",
                .type = FIELD_OBJECT,
                .fields = aws_fields,
                .doc = "Settings of the aws provider.",
        },
        {
                .name = "local",
                .type = FIELD_OBJECT,
                .fields = local_fields,
                .doc = "Settings of the local provider.",
        },
        {
                .name = "state",
                .type = FIELD_OBJECT,
                .fields = state_fields,
                .doc = "Where the state lies that a team and its pipelines share. Absent: in a folder. --state and BERTH_STATE are "
                       "taken first.",
        },
        {
                .name = "sessions",
                .type = FIELD_OBJECT,
                .fields = sessions_fields,
                .doc = "Where sessions' records lie that several servers share. For provider aws.",
        },
        {
                .name = "guards",
                .type = FIELD_OBJECT,
                .fields = guard_fields,
                .doc = "Limits that guard against slips of the hand.",
        },
        {
                .name = "include",
                .type = FIELD_LIST,
                .item = &include_item,
                .minimum = 0,
                .maximum = 64,
                .doc = "Folders whose manifests belong to this stack as well, such as ../common: relative to this file, within "
                       "the same Git repository (without one, within the folder above the stack's own). Symbolic links are "
                       "not followed, and there is no Stack in them.",
        },
        { 0 },
};

/* Beyond ASCII, AWS takes letters, digits and spaces alone; the fields' pattern cannot say that. */
static void check_tag_text(struct loading *loading, struct place place, const char *key, const char *text) {
        int32_t wrong = 0;
        const char *shown;

        /* The ASCII characters that the pattern has refused already are not refused twice. */
        if (text_is_words(text, strlen(text), "!\"#$%&'()*,;<>?[\\]^`{|}~_.:/=+-@", &wrong))
                return;
        shown = arena_printf(loading->arena,
                             wrong < 0x20 || wrong == 0x7F ? "the control character U+%04X" : "U+%04X",
                             (unsigned)wrong);
        problem_error(loading, place, NULL,
                      "tags.%.128s must be letters, digits, spaces and . : / = + - @ _, found %s", key,
                      shown);
}

/* The execution role is tagged like all the rest, and IAM takes "Team" and "team" for one key. */
static void check_tag_cases(struct loading *loading, const struct value *tags) {
        for (uint32_t i = 1; i < tags->count; i++) {
                for (uint32_t k = 0; k < i; k++) {
                        if (strcasecmp(tags->members[i].name, tags->members[k].name) != 0)
                                continue;
                        problem_error(
                                loading, place_of_key(&tags->members[i]), NULL,
                                "tags.%.128s and tags.%.128s differ by case only: IAM takes them for one key",
                                tags->members[k].name, tags->members[i].name);
                        break;
                }
        }
}

/*
 * What S3 keeps for itself (Amazon S3 User Guide, "General purpose bucket naming rules"). The endings that it keeps cannot
 * come up: the bucket's name ends with the region.
 */
static void check_bucket_name(struct loading *loading, const struct value *prefix) {
        static const char *const reserved[] = { "xn--", "sthree-", "amzn-s3-demo-" };
        const char *bucket = arena_printf(loading->arena, "%s-", prefix->text);

        for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++) {
                if (strncmp(bucket, reserved[i], strlen(reserved[i])) == 0)
                        problem_error(
                                loading, place_of(prefix), NULL,
                                "the bucket would be named %sworkspaces-ACCOUNT-REGION: S3 keeps names that begin "
                                "with %s for itself",
                                bucket, reserved[i]);
        }
}

/* "arn:aws:kms:REGION:ACCOUNT:key/ID". The account may be another one: many keep their keys apart. */
static void check_key_region(struct loading *loading, const struct value *key, const struct value *region) {
        const char *in_key = strstr(key->text, ":kms:");
        size_t length = in_key ? strcspn(in_key + strlen(":kms:"), ":") : 0;

        if (in_key &&
            (strlen(region->text) != length || strncmp(in_key + strlen(":kms:"), region->text, length) != 0))
                problem_error(
                        loading, place_of(key), NULL,
                        "the key is in the region %.*s, the stack in %s: a key encrypts in its own region alone",
                        (int)length, in_key + strlen(":kms:"), region->text);
}

/* A policy of the account itself, or one of AWS's own. */
static void check_boundary_account(struct loading *loading, const struct value *boundary,
                                   const struct value *account) {
        const char *in_policy = strstr(boundary->text, ":iam::");

        if (in_policy && strncmp(in_policy, ":iam::aws:", strlen(":iam::aws:")) != 0 &&
            strncmp(in_policy + strlen(":iam::"), account->text, 12) != 0)
                problem_error(
                        loading, place_of(boundary), NULL,
                        "the policy is in account %.12s, the stack in %s: a boundary is a policy of the "
                        "role's own account, or one of AWS's",
                        in_policy + strlen(":iam::"), account->text);
}

static void check_aws(struct loading *loading, const struct value *aws) {
        const struct value *prefix = typed_member(aws, "namePrefix", VALUE_TEXT);
        const struct value *role = typed_member(aws, "executionRole", VALUE_TEXT);
        const struct value *account = typed_member(aws, "account", VALUE_TEXT);
        const struct value *boundary = typed_member(aws, "permissionsBoundary", VALUE_TEXT);
        const struct value *key = typed_member(aws, "kmsKey", VALUE_TEXT);
        const struct value *region = typed_member(aws, "region", VALUE_TEXT);

        if (prefix)
                check_bucket_name(loading, prefix);
        if (role && account)
                check_role_account(loading, role, account);
        if (boundary && account)
                check_boundary_account(loading, boundary, account);
        if (key && region)
                check_key_region(loading, key, region);
}

static void check_reserved(struct loading *loading, struct place place, const char *key) {
        if (strncasecmp(key, "aws:", 4) == 0 || strncasecmp(key, "berth:", 6) == 0)
                problem_error(loading, place, NULL, "tags that begin with %s are not yours to set",
                              strncasecmp(key, "aws:", 4) == 0 ? "aws:" : "berth:");
}

#define TAGS_MAX 46U /* AWS's 50, less four of Berth's own */

/* Labels that become tags: by the rules of tags, and together with them. */
static void check_tag_labels(struct loading *loading, const struct value *names, const struct value *tags) {
        size_t count = tags ? tags->count : 0;

        check_names_once(loading, names);
        for (uint32_t i = 0; i < names->count; i++) {
                const struct value *name = &names->items[i];
                const char *key = value_text_of(name), *other = NULL;
                struct place place = place_of(name);

                if (!key)
                        continue;
                count += !value_get(tags, key);
                check_tag_text(loading, place, key, key);
                check_reserved(loading, place, key);
                for (uint32_t k = 0; tags && k < tags->count && !other; k++) {
                        if (strcasecmp(tags->members[k].name, key) == 0 &&
                            strcmp(tags->members[k].name, key) != 0)
                                other = tags->members[k].name;
                }
                for (uint32_t k = 0; k < i && !other; k++) {
                        const char *before = value_text_of(&names->items[k]);

                        if (before && strcasecmp(before, key) == 0 && strcmp(before, key) != 0)
                                other = before;
                }
                if (other)
                        problem_error(
                                loading, place, NULL,
                                "the tags %.128s and %.128s differ by case only: IAM takes them for one key",
                                other, key);
        }
        if (count > TAGS_MAX)
                problem_error(
                        loading, place_of(names), NULL,
                        "tags and tagLabels make %zu tags together, %u are possible: AWS takes 50 a resource, "
                        "four are Berth's own",
                        count, TAGS_MAX);
}

/* A label may say anything; one that becomes a tag may not. */
static void check_label_values(struct loading *loading, const struct resource *resource,
                               const struct value *names) {
        loading->address = resource->address;
        for (uint32_t i = 0; i < names->count; i++) {
                const char *key = value_text_of(&names->items[i]);
                const struct value *label = key ? value_get(resource->labels, key) : NULL;
                const char *text = label ? value_text_of(label) : NULL;
                int32_t wrong = 0;

                if (!label || !text || text_is_words(text, strlen(text), "_.:/=+-@", &wrong))
                        continue;
                problem_error(
                        loading, place_of(label), NULL,
                        "the label %.128s becomes a tag (tagLabels), which takes letters, digits, spaces and "
                        ". : / = + - @ _, found %s",
                        key,
                        arena_printf(loading->arena,
                                     wrong < 0x20 || wrong == 0x7F ? "the control character U+%04X"
                                                                   : "U+%04X",
                                     (unsigned)wrong));
        }
}

/* Those kinds for which something is made that takes tags. */
static void resolve_tag_labels(struct loading *loading) {
        static const enum kind_id tagged[] = { KIND_STACK, KIND_IMAGE, KIND_ENVIRONMENT };
        const struct value *names = typed_member(loading->manifests->stack->spec, "tagLabels", VALUE_LIST);

        for (size_t i = 0; names && i < sizeof(tagged) / sizeof(tagged[0]); i++) {
                size_t count;
                const struct resource *resources = manifests_of_kind(loading->manifests, tagged[i], &count);

                for (size_t k = 0; k < count; k++)
                        check_label_values(loading, &resources[k], names);
        }
}

/* What the pattern cannot say of a place in S3. */
static void check_state_place(struct loading *loading, const struct value *state) {
        const struct value *s3 = typed_member(state, "s3", VALUE_TEXT);
        struct state_place place;
        struct error failure;

        if (s3 && state_place_parse(s3->text, loading->arena, &place, &failure) < 0)
                problem_error(loading, place_of(s3), NULL, "%s", failure.message);
}

static void check_stack(struct loading *loading, const struct draft *draft) {
        const struct value *tags = typed_member(draft->resource.spec, "tags", VALUE_MAP);

        check_aws(loading, typed_member(draft->resource.spec, "aws", VALUE_MAP));
        check_state_place(loading, typed_member(draft->resource.spec, "state", VALUE_MAP));
        if (tags)
                check_tag_cases(loading, tags);
        if (typed_member(draft->resource.spec, "tagLabels", VALUE_LIST))
                check_tag_labels(loading, value_get(draft->resource.spec, "tagLabels"), tags);

        for (uint32_t i = 0; tags && i < tags->count; i++) {
                const struct member *member = &tags->members[i];
                const char *text = value_text_of(&member->value);

                check_tag_text(loading, place_of_key(member), member->name, member->name);
                if (text)
                        check_tag_text(loading, place_of(&member->value), member->name, text);
                check_reserved(loading, place_of_key(member), member->name);
        }
}

static void summarise_stack(const struct value *spec, const struct value *wish, struct strbuf *out) {
        (void)spec;
        strbuf_append(out, value_get(wish, "bucket") || value_get(wish, "role")
                                   ? (value_get(wish, "network")
                                              ? "workspace bucket, execution role, isolated network"
                                              : "workspace bucket, execution role")
                                   : "where workspaces and images are kept");
}

const struct kind stack_kind = {
        .id = KIND_STACK,
        .name = "Stack",
        .doc = "One set of manifests with one provider and one state: where everything lives, and what holds "
               "for all of it. At most one; without any, a stack named default on this machine.",
        .fields = stack_fields,
        .schema_rules =
                "{\"properties\": {\"tagLabels\": {\"items\": {\"not\": "
                "{\"pattern\": \"^([aA][wW][sS]|[bB][eE][rR][tT][hH]):|[\\u0001-\\u001f\\u007f]\"}}}, "
                "\"tags\": {\"propertyNames\": {\"not\": "
                "{\"pattern\": \"^([aA][wW][sS]|[bB][eE][rR][tT][hH]):|[\\u0001-\\u001f\\u007f]\"}}, "
                "\"additionalProperties\": {\"not\": {\"pattern\": \"[\\u0001-\\u001f\\u007f]\"}}}}}",
        .managed = true,
        .is_base = true,
        .lane = 0,
        .check = check_stack,
        .resolve = resolve_tag_labels,
        .summarise = summarise_stack,
};
