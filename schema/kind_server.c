/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/fields.h"
#include "schema/loading.h"

#define DAY_S 86400
#define LONGEST_S (14 * DAY_S)
#define PATH_MAX_CHARACTERS 4096
#define REQUESTS_PER_SECOND_MAX 1000000
#define UNDER_WAY_MAX 384 /* that the server works on at a time */

static const char *const acts_for[] = { "itself", "users", NULL };
static const char *const rights[] = { "execute", "containers", "shell", "approve",
                                      "observe", "administer", NULL };

static const struct field right_field = {
        .name = "right",
        .type = FIELD_TEXT,
        .choices_text = rights,
        .doc = "execute: sessions, code and workspaces. containers: containers of agents. shell: to ask for commands on the host. "
               "approve: to decide on those. observe: every owner's lists and states, no contents. administer: to end and remove "
               "anyone's.",
};

static const struct field served_agent_field = {
        .name = "NAME",
        .type = FIELD_TEXT,
        .minimum = 1,
        .maximum = NAME_LENGTH_MAX,
        .pattern = NAME_PATTERN,
        .pattern_message = NAME_PATTERN_MESSAGE,
        .doc = "The name of an Agent of the stack.",
};

static const struct field served_environment_field = {
        .name = "NAME",
        .type = FIELD_TEXT,
        .minimum = 1,
        .maximum = NAME_LENGTH_MAX,
        .pattern = NAME_PATTERN,
        .pattern_message = NAME_PATTERN_MESSAGE,
        .doc = "The name of an Environment of the stack.",
};

static const struct field tls_fields[] = {
        {
                .name = "certFile",
                .type = FIELD_TEXT,
                .required = true,
                .minimum = 1,
                .maximum = PATH_MAX_CHARACTERS,
                .doc = "The file of the certificate and those above it (PEM).",
        },
        {
                .name = "keyFile",
                .type = FIELD_TEXT,
                .required = true,
                .minimum = 1,
                .maximum = PATH_MAX_CHARACTERS,
                .doc = "The file of the certificate's private key (PEM).",
        },
        { 0 },
};

static const struct field jwt_fields[] = {
        {
                .name = "issuer",
                .type = FIELD_TEXT,
                .required = true,
                .minimum = 1,
                .maximum = 2048,
                .doc = "The token's issuer (iss).",
        },
        {
                .name = "audience",
                .type = FIELD_TEXT,
                .required = true,
                .minimum = 1,
                .maximum = 2048,
                .doc = "Whom the token must be meant for: one of its aud.",
        },
        {
                .name = "jwksFile",
                .type = FIELD_TEXT,
                .minimum = 1,
                .maximum = PATH_MAX_CHARACTERS,
                .doc = "The file of the issuer's public keys (a JSON Web Key Set).",
        },
        {
                .name = "jwksUrl",
                .type = FIELD_TEXT,
                .maximum = 2048,
                .pattern = "https://[^ ]+",
                .url = true,
                .pattern_message = "a URL that begins with https://",
                .doc = "The URL of the issuer's public keys.",
        },
        {
                .name = "caFile",
                .type = FIELD_TEXT,
                .minimum = 1,
                .maximum = PATH_MAX_CHARACTERS,
                .needs = "jwksUrl",
                .doc = "The file of the certificates (PEM) that vouch for jwksUrl's server, in place of the machine's.",
        },
        {
                .name = "ownerClaim",
                .type = FIELD_TEXT,
                .minimum = 1,
                .maximum = 256,
                .doc = "The claim that names the owner, such as sub. The header Berth-Owner is refused then.",
        },
        { 0 },
};

static const char *const jwks_names[] = { "jwksFile", "jwksUrl", NULL };
static const struct field_group jwt_groups[] = { { jwks_names, true }, { 0 } };

static const struct field limit_fields[] = {
        {
                .name = "requestsPerSecond",
                .type = FIELD_INTEGER,
                .minimum = 1,
                .maximum = REQUESTS_PER_SECOND_MAX,
                .default_text = "1000",
                .doc = "Requests of the client in a second; twice as many at once. Requests beyond that get 429 and Retry-After.",
        },
        {
                .name = "ownerRequestsPerSecond",
                .type = FIELD_INTEGER,
                .minimum = 1,
                .maximum = REQUESTS_PER_SECOND_MAX,
                .doc = "Of them those for one owner: a user who asks too often leaves the others their turns. Absent: no limit of its "
                       "own.",
        },
        {
                .name = "underWay",
                .type = FIELD_INTEGER,
                .minimum = 1,
                .maximum = UNDER_WAY_MAX,
                .default_text = "160",
                .doc = "Requests and streams of the client that are under way at a time.",
        },
        {
                .name = "ownerUnderWay",
                .type = FIELD_INTEGER,
                .minimum = 1,
                .maximum = UNDER_WAY_MAX,
                .default_text = "64",
                .doc = "Those of one owner, by all clients of the realm together. A client that acts for itself is one owner.",
        },
        { 0 },
};

static const struct field client_fields[] = {
        {
                .name = "name",
                .type = FIELD_TEXT,
                .required = true,
                .minimum = 1,
                .maximum = NAME_LENGTH_MAX,
                .pattern = NAME_PATTERN,
                .pattern_message = NAME_PATTERN_MESSAGE,
                .doc = "The client's name, unique in the Server.",
        },
        {
                .name = "realm",
                .type = FIELD_TEXT,
                .minimum = 1,
                .maximum = NAME_LENGTH_MAX,
                .pattern = NAME_PATTERN,
                .pattern_message = NAME_PATTERN_MESSAGE,
                .doc = "Whose users the client's owners are: an owner is REALM/NAME, and clients of one realm share owners. Absent: the "
                       "client's name.",
        },
        {
                .name = "tokenFile",
                .type = FIELD_TEXT,
                .minimum = 1,
                .maximum = PATH_MAX_CHARACTERS,
                .doc = "The file of the client's token: its first line, at least 16 characters.",
        },
        {
                .name = "tokenSha256",
                .type = FIELD_TEXT,
                .pattern = "[0-9a-f]{64}",
                .may_be_secret = true,
                .pattern_message = "the SHA-256 of the token: 64 lower-case hex digits",
                .doc = "The SHA-256 of the client's token, so that the token itself need not be here.",
        },
        {
                .name = "jwt",
                .type = FIELD_OBJECT,
                .fields = jwt_fields,
                .groups = jwt_groups,
                .doc = "The client's tokens are JSON Web Tokens of this issuer.",
        },
        {
                .name = "actsFor",
                .type = FIELD_TEXT,
                .default_text = "itself",
                .choices_text = acts_for,
                .doc = "itself: it owns what it makes, as client:NAME. users: each request says for whom, by the header Berth-Owner or "
                       "the token's ownerClaim.",
        },
        {
                .name = "may",
                .type = FIELD_LIST,
                .required = true,
                .minimum = 1,
                .maximum = 6,
                .item = &right_field,
                .doc = "What the client may do.",
        },
        {
                .name = "agents",
                .type = FIELD_LIST,
                .minimum = 1,
                .maximum = 1000,
                .item = &served_agent_field,
                .doc = "The agents that it may name, and finds listed. Absent: all.",
        },
        {
                .name = "environments",
                .type = FIELD_LIST,
                .minimum = 1,
                .maximum = 1000,
                .item = &served_environment_field,
                .doc = "The environments that it may name, and finds listed. Absent: all.",
        },
        {
                .name = "limits",
                .type = FIELD_OBJECT,
                .fields = limit_fields,
                .doc = "How often it may ask, and how much it may have under way.",
        },
        { 0 },
};

static const char *const token_names[] = { "tokenFile", "tokenSha256", "jwt", NULL };
static const struct field_group client_groups[] = { { token_names, true }, { 0 } };

static const struct field client_field = {
        .name = "client",
        .type = FIELD_OBJECT,
        .fields = client_fields,
        .groups = client_groups,
        .doc = "One program that calls the server.",
};

static const struct field warm_count_field = {
        .name = "count",
        .type = FIELD_INTEGER,
        .minimum = 1,
        .maximum = 100,
        .doc = "How many are kept ready.",
};

static const struct field module_field = {
        .name = "module",
        .type = FIELD_TEXT,
        .minimum = 1,
        .maximum = 256,
        .pattern = "[A-Za-z_][A-Za-z0-9_]*(\\.[A-Za-z_][A-Za-z0-9_]*)*",
        .pattern_message = "a Python module's name, such as numpy or os.path",
        .doc = "A Python module's name.",
};

static const struct field session_fields[] = {
        {
                .name = "idleSeconds",
                .type = FIELD_INTEGER,
                .unit = "seconds",
                .minimum = 1,
                .maximum = LONGEST_S,
                .default_text = "3600",
                .doc = "A session ends after this time without an execution, unless it was created with another time.",
        },
        {
                .name = "ttlSeconds",
                .type = FIELD_INTEGER,
                .unit = "seconds",
                .minimum = 1,
                .maximum = LONGEST_S,
                .default_text = "86400",
                .doc = "A session ends at this age, unless it was created with another.",
        },
        {
                .name = "parkSeconds",
                .type = FIELD_INTEGER,
                .unit = "seconds",
                .minimum = 1,
                .maximum = LONGEST_S,
                .default_text = "300",
                .doc = "A session that was idle for this time may be parked: its variables are kept, its processes end.",
        },
        {
                .name = "perOwner",
                .type = FIELD_INTEGER,
                .minimum = 1,
                .maximum = 100000,
                .doc = "The most sessions of one owner. Absent: no limit of its own.",
        },
        {
                .name = "total",
                .type = FIELD_INTEGER,
                .minimum = 1,
                .maximum = 100000,
                .doc = "The most sessions of all owners together. Absent: no limit of its own.",
        },
        {
                .name = "warm",
                .type = FIELD_MAP,
                .minimum = 1,
                .maximum = 100,
                .item = &warm_count_field,
                .keys = &served_environment_field,
                .doc = "Environments, each with the number of sandboxes that are started ahead of requests.",
        },
        {
                .name = "preload",
                .type = FIELD_LIST,
                .minimum = 1,
                .maximum = 64,
                .item = &module_field,
                .doc = "Python modules that warm sandboxes have imported already.",
        },
        {
                .name = "checkpointMB",
                .type = FIELD_INTEGER,
                .unit = "MB",
                .minimum = 1,
                .maximum = 4000,
                .doc = "The most that is kept of a session's variables: when it is parked, on AWS after each execution. Absent: 256, on AWS 8.",
        },
        {
                .name = "checkpointSeconds",
                .type = FIELD_INTEGER,
                .unit = "seconds",
                .minimum = 1,
                .maximum = 600,
                .doc = "The longest that keeping them may take. Absent: 5, on AWS half a second.",
        },
        {
                .name = "sharedUser",
                .type = FIELD_BOOLEAN,
                .default_text = "false",
                .doc = "Whether sessions of different owners may run as one user of the host, where it has no user for each: all owners "
                       "trust each other then.",
        },
        {
                .name = "allowShared",
                .type = FIELD_BOOLEAN,
                .default_text = "false",
                .doc = "Whether functions without tenant isolation may serve sessions: all owners trust each other then.",
        },
        { 0 },
};

static const struct field workspace_fields[] = {
        {
                .name = "perOwnerMB",
                .type = FIELD_INTEGER,
                .unit = "MB",
                .minimum = 1,
                .maximum = 1000000000,
                .doc = "The most that one owner's workspaces hold together, with checkpoints and the history of executions. Absent: no limit of its own.",
        },
        {
                .name = "minFreeMB",
                .type = FIELD_INTEGER,
                .unit = "MB",
                .minimum = 1,
                .maximum = 1000000000,
                .doc = "What stays free on the disk of the workspaces, and on that of the sessions' records: files, sessions, executions and commands on the host that would need it are refused.",
                .default_text = "500",
        },
        { 0 },
};

static const struct field container_fields[] = {
        {
                .name = "total",
                .type = FIELD_INTEGER,
                .minimum = 1,
                .maximum = 100000,
                .doc = "The most containers of all owners together. Absent: no limit of its own.",
        },
        { 0 },
};

static const struct field word_field = {
        .name = "word",
        .type = FIELD_TEXT,
        .minimum = 1,
        .maximum = PATH_MAX_CHARACTERS,
        .pattern = "[*]*[^*].*",
        .pattern_message = "a word as it is: no * stands for other words",
        .doc = "One word of the command.",
};

static const struct field trusted_fields[] = {
        {
                .name = "agent",
                .type = FIELD_TEXT,
                .required = true,
                .minimum = 1,
                .maximum = NAME_LENGTH_MAX,
                .pattern = NAME_PATTERN,
                .pattern_message = NAME_PATTERN_MESSAGE,
                .doc = "The agent that may.",
        },
        {
                .name = "command",
                .type = FIELD_LIST,
                .required = true,
                .minimum = 1,
                .maximum = 100,
                .item = &word_field,
                .doc = "The whole command, word by word.",
        },
        {
                .name = "cwd",
                .type = FIELD_TEXT,
                .required = true,
                .minimum = 1,
                .maximum = PATH_MAX_CHARACTERS,
                .pattern = "/.*",
                .pattern_message = "a folder's path from the root",
                .doc = "The folder that it runs in.",
        },
        { 0 },
};

static const struct field trusted_field = {
        .name = "command",
        .type = FIELD_OBJECT,
        .fields = trusted_fields,
        .doc = "One command that needs no approval.",
};

static const struct field shell_fields[] = {
        {
                .name = "enabled",
                .type = FIELD_BOOLEAN,
                .default_text = "false",
                .doc = "Whether agents may ask for commands on the host, each of which a person approves.",
        },
        {
                .name = "user",
                .type = FIELD_TEXT,
                .minimum = 1,
                .maximum = 32,
                .pattern = "[A-Za-z_][A-Za-z0-9_.-]*[$]?",
                .pattern_message = "a user's name",
                .doc = "The user of the host as whom they run. A server that runs as root needs one.",
        },
        {
                .name = "approvalSeconds",
                .type = FIELD_INTEGER,
                .unit = "seconds",
                .minimum = 1,
                .maximum = LONGEST_S,
                .default_text = "3600",
                .doc = "How long a command waits for its approval.",
        },
        {
                .name = "trusted",
                .type = FIELD_LIST,
                .minimum = 1,
                .maximum = 1000,
                .item = &trusted_field,
                .doc = "Commands that need no approval.",
        },
        { 0 },
};

static const struct field compat_fields[] = {
        {
                .name = "e2b",
                .type = FIELD_BOOLEAN,
                .default_text = "false",
                .doc = "Whether clients of E2B's interface are answered.",
        },
        {
                .name = "e2bTemplate",
                .type = FIELD_TEXT,
                .minimum = 1,
                .maximum = NAME_LENGTH_MAX,
                .pattern = NAME_PATTERN,
                .pattern_message = NAME_PATTERN_MESSAGE,
                .needs = "e2b",
                .doc = "The environment that they get where they name none. Absent: the first by name.",
        },
        { 0 },
};

static const struct field server_fields[] = {
        {
                .name = "stack",
                .type = FIELD_TEXT,
                .minimum = 1,
                .maximum = PATH_MAX_CHARACTERS,
                .doc = "The folder of the manifests of the stack that is served. A relative path begins at the Server's own file. "
                       "Absent: that file's folder.",
        },
        {
                .name = "listen",
                .type = FIELD_TEXT,
                .maximum = 300,
                .default_text = "127.0.0.1:9471",
                .pattern = LISTEN_PATTERN,
                .pattern_message = LISTEN_PATTERN_MESSAGE,
                .doc = "The address at which HTTP is answered; off for none but the Unix socket. Beyond loopback it needs tls, or "
                       "behindProxy.",
        },
        {
                .name = "hosts",
                .type = FIELD_LIST,
                .minimum = 1,
                .maximum = 100,
                .item = &host_field,
                .doc = "Names by which clients call it, such as that of a proxy in front: a request for another Host is refused (421). "
                       "localhost and loopback addresses need no mention.",
        },
        {
                .name = "behindProxy",
                .type = FIELD_BOOLEAN,
                .default_text = "false",
                .doc = "Whether a proxy in front has the certificate, and only that proxy can reach the address.",
        },
        {
                .name = "tls",
                .type = FIELD_OBJECT,
                .fields = tls_fields,
                .doc = "The server's own certificate.",
        },
        {
                .name = "clients",
                .type = FIELD_LIST,
                .minimum = 1,
                .maximum = 1000,
                .item = &client_field,
                .doc = "The clients that may call it. Absent: only clients on the Unix socket.",
        },
        {
                .name = "sessions",
                .type = FIELD_OBJECT,
                .fields = session_fields,
                .doc = "Sessions: their times and limits.",
        },
        {
                .name = "workspaces",
                .type = FIELD_OBJECT,
                .fields = workspace_fields,
                .doc = "What may stay in workspaces.",
        },
        {
                .name = "containers",
                .type = FIELD_OBJECT,
                .fields = container_fields,
                .doc = "Limits of containers.",
        },
        {
                .name = "shell",
                .type = FIELD_OBJECT,
                .fields = shell_fields,
                .doc = "Commands on the host.",
        },
        {
                .name = "compat",
                .type = FIELD_OBJECT,
                .fields = compat_fields,
                .doc = "Other interfaces that are answered.",
        },
        { 0 },
};

const struct kind server_kind = {
        .id = KIND_SERVER,
        .name = "Server",
        .doc = "The server of a stack: where it listens, and who may ask it for what: berth serve -f FILE. It is alone in its file, "
               "and no part of a stack.",
        .fields = server_fields,
        .schema_rules =
                "{\"anyOf\": [{\"not\": {\"required\": [\"listen\"]}}, {\"required\": [\"tls\"]}, "
                "{\"properties\": {\"behindProxy\": {\"const\": true}}, \"required\": [\"behindProxy\"]}, "
                "{\"properties\": {\"listen\": {\"pattern\": "
                "\"^(off|(localhost|127\\\\.[0-9]{1,3}\\\\.[0-9]{1,3}\\\\.[0-9]{1,3}|\\\\[::1\\\\]):[0-9]{1,5})$\"}}}], "
                "\"properties\": {\"clients\": {\"items\": {\"properties\": {\"agents\": {\"uniqueItems\": true}, "
                "\"environments\": {\"uniqueItems\": true}, \"may\": {\"uniqueItems\": true, \"not\": {\"allOf\": ["
                "{\"contains\": {\"const\": \"shell\"}}, {\"contains\": {\"const\": \"approve\"}}]}}}}}}}",
        .started_by = "berth serve",
        .check = check_server,
};
