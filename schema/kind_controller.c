/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/fields.h"
#include "schema/loading.h"

#define DAY_S 86400

static const char *const modes[] = { "apply", "approve", "plan", NULL };
static const char *const providers[] = { "aws", "local", NULL };
static const char *const events[] = {
        "applied", "failed", "refused", "approval", "drift", "recovered", NULL
};

/*
 * All of docs/guards.md but wrong-account and plan-stale: it is never right to let these through.
 */
static const char *const allowable[] = {
        "has-dependents",
        "not-owned",
        "protected",
        "mass-delete",
        "image-unusable",
        "image-in-use",
        "expires-existing",
        "bucket-not-empty",
        "needs-replacement",
        "inactive-specialist",
        "over-quota",
        "expires-logs",
        "secret-unusable",
        "role-unusable",
        "has-sessions",
        "table-not-empty",
        NULL,
};

static const struct field event_field = {
        .name = "event",
        .type = FIELD_TEXT,
        .choices_text = events,
        .doc = "What happened: changes were made; source, manifests, plan or apply failed; a guard refused; a plan waits "
               "for approval; drift was found; a source that failed is ready again.",
};

static const struct field notify_fields[] = {
        {
                .name = "url",
                .type = FIELD_TEXT,
                .required = true,
                .maximum = 2048,
                .pattern = "https?://[^ ]+",
                .url = true,
                .pattern_message = "a URL that begins with https:// or http://",
                .doc = "The URL that a JSON document is posted to.",
        },
        {
                .name = "events",
                .type = FIELD_LIST,
                .minimum = 1,
                .maximum = 6,
                .item = &event_field,
                .doc = "The events that are sent. Absent: all.",
        },
        {
                .name = "secretFile",
                .type = FIELD_TEXT,
                .minimum = 1,
                .maximum = 4096,
                .doc = "The file of a secret with which each POST is signed (X-Berth-Signature).",
        },
        { 0 },
};

static const struct field notify_field = {
        .name = "target",
        .type = FIELD_OBJECT,
        .fields = notify_fields,
        .doc = "One receiver.",
};

static const struct field credential_fields[] = {
        {
                .name = "usernameFile",
                .type = FIELD_TEXT,
                .minimum = 1,
                .maximum = 4096,
                .needs = "passwordFile",
                .doc = "For https: the file with the user's name. Absent: the name git, which servers take beside a token.",
        },
        {
                .name = "passwordFile",
                .type = FIELD_TEXT,
                .minimum = 1,
                .maximum = 4096,
                .doc = "For https: the file with a password or token. It is read again at each use.",
        },
        {
                .name = "sshKeyFile",
                .type = FIELD_TEXT,
                .minimum = 1,
                .maximum = 4096,
                .needs = "knownHostsFile",
                .doc = "For ssh: the file with the private key, without a passphrase.",
        },
        {
                .name = "knownHostsFile",
                .type = FIELD_TEXT,
                .minimum = 1,
                .maximum = 4096,
                .doc = "For ssh: the file with the host keys that are trusted, as ssh-keyscan prints them. A host that is not "
                       "in it is refused.",
        },
        {
                .name = "caFile",
                .type = FIELD_TEXT,
                .minimum = 1,
                .maximum = 4096,
                .doc = "For https: the file with the certificate authorities (PEM) that this source trusts instead of the "
                       "system's.",
        },
        { 0 },
};

static const struct field gpg_key_field = {
        .name = "file",
        .type = FIELD_TEXT,
        .minimum = 1,
        .maximum = 4096,
        .doc = "A file of OpenPGP public keys, armored or not.",
};

static const struct field verify_fields[] = {
        {
                .name = "gpgKeys",
                .type = FIELD_LIST,
                .minimum = 1,
                .maximum = 100,
                .item = &gpg_key_field,
                .doc = "Files of OpenPGP public keys: one of them must have signed the commit, as gpgv judges.",
        },
        {
                .name = "sshAllowedSigners",
                .type = FIELD_TEXT,
                .minimum = 1,
                .maximum = 4096,
                .doc = "A file in the form of ssh-keygen's ALLOWED SIGNERS: one of them must have signed the commit, as "
                       "ssh-keygen judges.",
        },
        { 0 },
};

static const char *const verify_names[] = { "gpgKeys", "sshAllowedSigners", NULL };
static const struct field_group verify_groups[] = { { verify_names, false }, { 0 } };

static const struct field allow_field = {
        .name = "id",
        .type = FIELD_TEXT,
        .choices_text = allowable,
        .doc = "The id of a guard.",
};

/*
 * What a commit may not choose by itself, since it says where this machine's credentials are sent and whose they are. The
 * forms are those of the Stack's own fields.
 */
static const struct field pinned_aws_fields[] = {
        {
                .name = "region",
                .type = FIELD_TEXT,
                .pattern = "[a-z]{2,}(-[a-z]+)+-[0-9]+",
                .pattern_message = "an AWS region, such as eu-central-1",
                .doc = "The region that the stack lives in. Absent: a commit may name any.",
        },
        {
                .name = "account",
                .type = FIELD_TEXT,
                .pattern = "[0-9]{12}",
                .pattern_message = "an AWS account: 12 digits",
                .doc = "The account that the credentials must belong to. Absent: a commit may name any; with credentials of "
                       "another one its plan is refused (wrong-account).",
        },
        {
                .name = "profile",
                .type = FIELD_TEXT,
                .minimum = 1,
                .maximum = 256,
                .doc = "The profile that credentials come from. Absent: the controller's own, and a commit may name none.",
        },
        {
                .name = "assumeRole",
                .type = FIELD_TEXT,
                .pattern = ROLE_PATTERN,
                .pattern_message = ROLE_PATTERN_MESSAGE,
                .doc = "The ARN of the role to assume before anything else is called. Absent: none, and a commit may name none.",
        },
        {
                .name = "endpointUrl",
                .type = FIELD_TEXT,
                .pattern = "https?://[^ ]+",
                .url = true,
                .pattern_message = "a URL that begins with http:// or https://",
                .doc = "Where all AWS services are reached instead of AWS. Absent: as the controller's environment and profile "
                       "say, and a commit may name none.",
        },
        {
                .name = "namePrefix",
                .type = FIELD_TEXT,
                .minimum = 1,
                .maximum = 24,
                .pattern = NAME_PATTERN,
                .pattern_message = NAME_PATTERN_MESSAGE,
                .doc = "What the names of everything in AWS begin with. Absent: a commit may name any.",
        },
        {
                .name = "permissionsBoundary",
                .type = FIELD_TEXT,
                .pattern = BOUNDARY_PATTERN,
                .pattern_message = BOUNDARY_PATTERN_MESSAGE,
                .doc = "The permissions boundary of every role that Berth makes. Absent: a commit may name any, and take its own away.",
        },
        {
                .name = "rolePath",
                .type = FIELD_TEXT,
                .minimum = 1,
                .maximum = 512,
                .pattern = ROLE_PATH_PATTERN,
                .pattern_message = ROLE_PATH_PATTERN_MESSAGE,
                .doc = "The IAM path of every role that Berth makes. Absent: a commit may name any.",
        },
        {
                .name = "kmsKey",
                .type = FIELD_TEXT,
                .pattern = KMS_KEY_PATTERN,
                .pattern_message = KMS_KEY_PATTERN_MESSAGE,
                .doc = "The ARN of the key of KMS that the stack's data is encrypted with. Absent: a commit may name none.",
        },
        {
                .name = "network",
                .type = FIELD_TEXT,
                .choices_text = network_names,
                .doc = "The Stack's network where a commit leaves it out. With isolated, neither Stack nor Environment may say "
                       "open; isolated they may always say. Absent: either word.",
        },
        { 0 },
};

static const struct field pin_fields[] = {
        {
                .name = "provider",
                .type = FIELD_TEXT,
                .choices_text = providers,
                .doc = "The provider that a commit's Stack must name. Absent: either.",
        },
        {
                .name = "aws",
                .type = FIELD_OBJECT,
                .fields = pinned_aws_fields,
                .doc = "Settings of the Stack's aws. A commit's Stack must say the same or leave them out; left out, these hold.",
        },
        { 0 },
};

static const struct field may_role_field = {
        .name = "pattern",
        .type = FIELD_TEXT,
        .minimum = 1,
        .maximum = 2048,
        .pattern = "arn:aws(-[a-z]+)*:iam::[0-9]{12}:role/[A-Za-z0-9+=,.@_/*?-]+",
        .pattern_message = "the ARN of an IAM role, in whose path and name * and ? may stand",
        .doc = "The ARN of a role. * stands for any characters but a slash, ? for one.",
};

static const struct field may_secret_field = {
        .name = "pattern",
        .type = FIELD_TEXT,
        .minimum = 1,
        .maximum = 2048,
        .pattern = "arn:aws(-[a-z]+)*:secretsmanager:[a-z0-9*?-]+:[0-9]{12}:secret:[A-Za-z0-9/_+=.@*?-]+",
        .pattern_message =
                "the ARN of a secret, without JSON key and version, in whose region and name * and ? may stand",
        .doc = "The ARN of a secret. * stands for any characters but a slash or a colon, ? for one.",
};

static const struct field may_parameter_field = {
        .name = "pattern",
        .type = FIELD_TEXT,
        .minimum = 1,
        .maximum = 2048,
        .pattern = "arn:aws(-[a-z]+)*:ssm:[a-z0-9*?-]+:[0-9]{12}:parameter/[A-Za-z0-9_./*?-]+",
        .pattern_message = "the ARN of a parameter, in whose region, path and name * and ? may stand",
        .doc = "The ARN of a parameter. * stands for any characters but a slash or a colon, ? for one.",
};

static const struct field may_registry_field = {
        .name = "pattern",
        .type = FIELD_TEXT,
        .pattern = "[0-9]{12}\\.dkr\\.ecr\\.[a-z0-9*?-]+\\." REGISTRY_DOMAINS,
        .pattern_message = "an ECR registry, in whose region * and ? may stand",
        .doc = "A registry of ECR, such as 123456789012.dkr.ecr.*.amazonaws.com.",
};

static const struct field may_state_field = {
        .name = "pattern",
        .type = FIELD_TEXT,
        .minimum = 1,
        .maximum = 640,
        .pattern = "s3://[a-z0-9.-]{3,63}/" FROM_1_TO_512("[A-Za-z0-9_.=/*?-]"),
        .pattern_message = "s3://BUCKET/PREFIX, in whose prefix * and ? may stand",
        .doc = "Where a state may lie. * stands for any characters but a slash, ? for one.",
};

static const struct field may_folder_field = {
        .name = "folder",
        .type = FIELD_TEXT,
        .minimum = 2,
        .maximum = 4096,
        .pattern = "/.*",
        .pattern_message = "a folder's path from the root",
        .doc = "The path of a folder, from the root; a commit must name exactly this one.",
};

static const struct field may_fields[] = {
        {
                .name = "executionRoles",
                .type = FIELD_LIST,
                .minimum = 1,
                .maximum = 100,
                .item = &may_role_field,
                .doc = "Roles that functions may run with: patterns, one of which the Stack's aws.executionRole, and each "
                       "Environment's executionRole that is an ARN, must match. Absent: none but those that Berth makes.",
        },
        {
                .name = "secrets",
                .type = FIELD_LIST,
                .minimum = 1,
                .maximum = 100,
                .item = &may_secret_field,
                .doc = "Secrets that variables may be taken from: patterns, one of which each {secret: ARN} must match. Absent: "
                       "none.",
        },
        {
                .name = "parameters",
                .type = FIELD_LIST,
                .minimum = 1,
                .maximum = 100,
                .item = &may_parameter_field,
                .doc = "Parameters that variables may be taken from: patterns, one of which each {parameter: ARN} must match. "
                       "Absent: none.",
        },
        {
                .name = "subnets",
                .type = FIELD_LIST,
                .minimum = 1,
                .maximum = 100,
                .item = &subnet_field,
                .doc = "Subnets that the Stack's aws.network, and each Environment's network, may name. Absent: none.",
        },
        {
                .name = "securityGroups",
                .type = FIELD_LIST,
                .minimum = 1,
                .maximum = 100,
                .item = &security_group_field,
                .doc = "Security groups that the Stack's aws.network, and each Environment's network, may name. Absent: none.",
        },
        {
                .name = "registries",
                .type = FIELD_LIST,
                .minimum = 1,
                .maximum = 100,
                .item = &may_registry_field,
                .doc = "Registries that images may be taken from: patterns, one of which each registry that an Environment or an "
                       "Image names must match. Absent: none but the stack's own, which needs no name.",
        },
        {
                .name = "states",
                .type = FIELD_LIST,
                .minimum = 1,
                .maximum = 100,
                .item = &may_state_field,
                .doc = "Places of states: patterns, one of which the Stack's state must match where the source names no state "
                       "itself. Absent: none.",
        },
        {
                .name = "images",
                .type = FIELD_LIST,
                .minimum = 1,
                .maximum = 100,
                .item = &may_folder_field,
                .doc = "Folders that the Stack's local.images may be. Absent: none but the stack's own.",
        },
        {
                .name = "workspaces",
                .type = FIELD_LIST,
                .minimum = 1,
                .maximum = 100,
                .item = &may_folder_field,
                .doc = "Folders that the Stack's local.workspaces may be. Absent: none but the stack's own.",
        },
        { 0 },
};

static const struct field source_fields[] = {
        {
                .name = "name",
                .type = FIELD_TEXT,
                .required = true,
                .minimum = 1,
                .maximum = NAME_LENGTH_MAX,
                .pattern = NAME_PATTERN,
                .pattern_message = NAME_PATTERN_MESSAGE,
                .doc = "The source's name, unique in the Controller: its state is the folder sources/NAME, its hook "
                       "/hooks/NAME.",
        },
        {
                .name = "url",
                .type = FIELD_TEXT,
                .required = true,
                .maximum = 2048,
                .pattern = "(https|ssh|git|file)://[^ ]+|/[^ ]*|[A-Za-z0-9._-]+@[A-Za-z0-9._-]+:[^ ]+",
                .url = true,
                .pattern_message =
                        "https://HOST/PATH, ssh://USER@HOST/PATH, USER@HOST:PATH, git://HOST/PATH, file:///PATH or /PATH",
                .doc = "The Git repository. Names and passwords stand in files: see credentials.",
        },
        {
                .name = "branch",
                .type = FIELD_TEXT,
                .maximum = 244,
                .pattern = "[^ ~:?*[\\\\^-][^ ~:?*[\\\\^]*",
                .pattern_message = "a branch's name, without refs/heads/",
                .doc = "The branch whose last commit says what shall exist.",
        },
        {
                .name = "tag",
                .type = FIELD_TEXT,
                .maximum = 100,
                .pattern = "[0-9A-Za-z.*<>=~^ +,|-]+",
                .pattern_message = "a pattern of semantic versions: *, 1.x, v1.2.*, >=1.2 <2",
                .doc = "A pattern of semantic versions, such as 1.x or >=1.2 <2: the highest tag that matches says what shall exist.",
        },
        {
                .name = "path",
                .type = FIELD_TEXT,
                .minimum = 1,
                .maximum = 1024,
                .doc = "The folder of the manifests in the repository. Absent: its root. With * or ? in its parts (stacks/*/prod) it is a "
                       "pattern: each folder that matches and holds a Stack is a source of its own, named NAME/FOLDER.",
        },
        {
                .name = "intervalSeconds",
                .type = FIELD_INTEGER,
                .unit = "seconds",
                .minimum = 1,
                .maximum = DAY_S,
                .default_text = "60",
                .doc = "How often the server is asked for a new commit. Without a new commit this costs one ls-remote.",
        },
        {
                .name = "driftSeconds",
                .type = FIELD_INTEGER,
                .unit = "seconds",
                .minimum = 1,
                .maximum = 30 * DAY_S,
                .default_text = "3600",
                .doc = "How often everything that exists is read and compared while no new commit comes.",
        },
        {
                .name = "mode",
                .type = FIELD_TEXT,
                .default_text = "apply",
                .choices_text = modes,
                .doc = "A commit's changes are made (apply), wait until exactly that plan is approved (approve), or are only "
                       "reported (plan).",
        },
        {
                .name = "correctDrift",
                .type = FIELD_BOOLEAN,
                .default_text = "true",
                .doc = "Whether changes that were made outside of Berth are put back; with false they are reported.",
        },
        {
                .name = "fastForwardOnly",
                .type = FIELD_BOOLEAN,
                .default_text = "true",
                .doc = "Whether a commit that does not descend from the last one is refused: a rewritten history.",
        },
        {
                .name = "credentials",
                .type = FIELD_OBJECT,
                .fields = credential_fields,
                .doc = "Files with what the server asks for; a relative path begins at the Controller's own file.",
        },
        {
                .name = "verify",
                .type = FIELD_OBJECT,
                .fields = verify_fields,
                .groups = verify_groups,
                .doc = "The keys that may sign a commit; any other commit is refused before its "
                       "manifests are read. With both kinds of keys, a signature of either kind is "
                       "enough.",
        },
        {
                .name = "pins",
                .type = FIELD_OBJECT,
                .fields = pin_fields,
                .doc = "Settings of the Stack that no commit may choose. A commit that names another is refused before anything "
                       "is called. profile, assumeRole and endpointUrl are refused in every commit where they are not pinned.",
        },
        {
                .name = "may",
                .type = FIELD_OBJECT,
                .fields = may_fields,
                .doc = "Accounts, registries and states that a commit may name beyond its own stack. Any other is refused before a call is made.",
        },
        {
                .name = "allow",
                .type = FIELD_LIST,
                .minimum = 1,
                .maximum = sizeof(allowable) / sizeof(allowable[0]) - 1, /* each of them once */
                .item = &allow_field,
                .doc = "Guards that never stop this source. For a single case there is berth controller approve NAME --allow "
                       "ID[:ADDR].",
        },
        {
                .name = "state",
                .type = FIELD_TEXT,
                .minimum = 1,
                .maximum = 640,
                .pattern = S3_STATE_PATTERN,
                .pattern_message = S3_STATE_PATTERN_MESSAGE,
                .doc = "s3://BUCKET/PREFIX: where the stack's state lies, so that the controller may move to another machine. "
                       "Absent: as its Stack says (spec.state), where may.states lets it; else the source's folder.",
        },
        {
                .name = "suspended",
                .type = FIELD_BOOLEAN,
                .default_text = "false",
                .doc = "Whether the source is suspended from the start. berth controller suspend and resume override it, and "
                       "are remembered.",
        },
        { 0 },
};

static const char *const ref_names[] = { "branch", "tag", NULL };
static const struct field_group source_groups[] = { { ref_names, true }, { 0 } };

static const struct field source_field = {
        .name = "source",
        .type = FIELD_OBJECT,
        .fields = source_fields,
        .groups = source_groups,
        .doc = "One repository, and the stack that it describes.",
};

static const struct field controller_fields[] = {
        {
                .name = "listen",
                .type = FIELD_TEXT,
                .maximum = 300,
                .default_text = "127.0.0.1:9470",
                .pattern = LISTEN_PATTERN,
                .pattern_message = LISTEN_PATTERN_MESSAGE,
                .doc = "The address at which /healthz, /readyz, /metrics and /hooks/NAME are answered over HTTP; off for none.",
        },
        {
                .name = "hosts",
                .type = FIELD_LIST,
                .minimum = 1,
                .maximum = 100,
                .item = &host_field,
                .doc = "Names by which clients call it, such as that of a proxy in front: a request for another Host is refused (421). "
                       "localhost and loopback addresses need no mention. Absent: none but those, or, where it listens beyond loopback, "
                       "any.",
        },
        {
                .name = "webhookSecretFile",
                .type = FIELD_TEXT,
                .minimum = 1,
                .maximum = 4096,
                .doc = "The file of the secret that GitHub (X-Hub-Signature-256) or GitLab (X-Gitlab-Token) proves to know when "
                       "it calls /hooks/NAME. Absent: no hooks.",
        },
        {
                .name = "notify",
                .type = FIELD_LIST,
                .minimum = 1,
                .maximum = 100,
                .item = &notify_field,
                .doc = "The receivers of notifications.",
        },
        {
                .name = "sources",
                .type = FIELD_LIST,
                .required = true,
                .minimum = 1,
                .maximum = 500,
                .item = &source_field,
                .doc = "The repositories, each with a state of its own.",
        },
        { 0 },
};

const struct kind controller_kind = {
        .id = KIND_CONTROLLER,
        .name = "Controller",
        .doc = "The program that follows Git repositories and keeps their stacks true: berth controller -f FILE. "
               "It is alone in its file, and no part of a stack.",
        .fields = controller_fields,
        .schema_rules = "{\"properties\": {\"sources\": {\"items\": {\"properties\": {"
                        "\"path\": {\"not\": {\"pattern\": "
                        "\"^/|(^|/)\\\\.\\\\.(/|$)|[*?].*[\\\\[\\\\\\\\]|[\\\\[\\\\\\\\].*[*?]|[*][*]\"}}, "
                        "\"branch\": {\"not\": {\"pattern\": \"^refs/\"}}, "
                        "\"url\": {\"not\": {\"pattern\": \"://[^/@]*:[^/]*@\"}}}}}}}",
        .started_by = "berth controller",
        .check = check_controller,
};
