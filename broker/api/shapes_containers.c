/* SPDX-License-Identifier: Apache-2.0 */
/* Containers, as clients ask for them and get them. */
#include "broker/api/shapes_parts.h"
#include "containers/container_ports.h"
#include "containers/container_record.h"
#include "containers/containers.h"
#include "runtime/protocol/request.h"
#include "sessions/checks.h"

#define CONTAINER_ID "c-[a-z2-7]{26}"
#define NAME_PATTERN "[a-z0-9]([a-z0-9-]*[a-z0-9])?"
#define NAME_MESSAGE "a-z, 0-9 and -, which neither begins nor ends it"

static const char *const types[] = { "temporary", "service", NULL };
static const char *const restarts[] = { "never", "on-failure", "always", NULL };
static const char *const languages[] = { "python", "sh", "bash", NULL };
static const char *const statuses[] = { "queued", "starting", "running", "stopped", "exited", NULL };
static const char *const reasons[] = { "exited",   "stopped",         "killed", "memory",
                                       "deadline", "could-not-start", "lost",   NULL };

/* --- asked --- */

static const struct field variable_key = {
        .name = "NAME",
        .type = FIELD_TEXT,
        .minimum = 1,
        .maximum = REQUEST_VARIABLES_BYTES_MAX,
        .pattern = "[A-Za-z_][A-Za-z0-9_]*",
        .pattern_message = "letters, digits and _, and begin with no digit",
        .doc = "The variable's name.",
};
static const struct field any_text = { .name = "text", .type = FIELD_TEXT, .doc = "Anything." };

#define COMMAND                                                                                           \
        { .name = "command",                                                                              \
          .type = FIELD_LIST,                                                                             \
          .minimum = 1,                                                                                   \
          .maximum = REQUEST_ARGUMENTS_MAX,                                                               \
          .item = &any_text,                                                                              \
          .doc = "The program and its arguments. No shell interprets them, unless the program is one." }, \
                { .name = "code", .type = FIELD_TEXT, .doc = "A program of `language` instead." },        \
                { .name = "language",                                                                     \
                  .type = FIELD_TEXT,                                                                     \
                  .choices_text = languages,                                                              \
                  .default_text = "python",                                                               \
                  .needs = "code",                                                                        \
                  .doc = "The interpreter of the code: the image's `python3`, `/bin/sh` or `bash`." },    \
        {                                                                                                 \
                .name = "variables", .type = FIELD_MAP, .maximum = REQUEST_VARIABLES_MAX,                 \
                .keys = &variable_key, .item = &any_text,                                                 \
                .doc = "Environment variables. Names and values have 65,536 bytes together at most."      \
        }

static const char *const command_or_code[] = { "command", "code", NULL };
static const struct field_group one_of_both[] = { { command_or_code, true }, { 0 } };

#define PORT_MAX 65535

static const struct field wished_port_fields[] = {
        { .name = "name",
          .type = FIELD_TEXT,
          .minimum = 1,
          .maximum = CONTAINER_PORT_NAME_MAX,
          .pattern = NAME_PATTERN,
          .pattern_message = NAME_MESSAGE,
          .doc = "The container's name." },
        { .name = "port",
          .type = FIELD_INTEGER,
          .required = true,
          .minimum = 1,
          .maximum = PORT_MAX,
          .doc = "The port that the command listens at, on 127.0.0.1 or ::1." },
        { .name = "expose",
          .type = FIELD_INTEGER,
          .nullable = true,
          .maximum = PORT_MAX,
          .doc = "The port of this machine's 127.0.0.1 that leads there, for every user of the machine: 1024 or higher, 0 finds one. Null: none does." },
        { 0 },
};
static const struct field wished_port = { .type = FIELD_OBJECT,
                                          .component = "PortWish",
                                          .fields = wished_port_fields,
                                          .doc = "A port at which a container's command listens." };

static const struct field wish_fields[] = {
        { .name = "agent",
          .type = FIELD_TEXT,
          .required = true,
          .minimum = 1,
          .maximum = CHECKS_TEXT_MAX,
          .doc = "The agent that it is for: it runs in the agent's environment, under the agent's limits." },
        { .name = "name",
          .type = FIELD_TEXT,
          .minimum = 1,
          .maximum = CONTAINER_NAME_MAX,
          .pattern = NAME_PATTERN,
          .pattern_message = NAME_MESSAGE,
          .doc = "A name that no other container of the same owner and agent has." },
        { .name = "type",
          .type = FIELD_TEXT,
          .choices_text = types,
          .default_text = "temporary",
          .doc = "`temporary` runs and ends; `service` runs until it is stopped, over restarts of the server and of the machine." },
        COMMAND,
        { .name = "ports",
          .type = FIELD_LIST,
          .maximum = CONTAINER_PORTS_MAX,
          .item = &wished_port,
          .doc = "The ports that its command listens at. Containers of the same owner, agent and "
                 "environment reach each other there, whether a port is exposed or not." },
        { .name = "restart",
          .type = FIELD_TEXT,
          .choices_text = restarts,
          .doc = "Whether a service is started again when its command ends: `always` if left out. A"
                 " temporary container is never started again." },
        { .name = "timeoutSeconds",
          .type = FIELD_INTEGER,
          .unit = "seconds",
          .minimum = 1,
          .maximum = ENGINE_AGE_MAX,
          .doc = "A temporary container is killed after this time; 86400 if left out." },
        { .name = "waitSeconds",
          .type = FIELD_INTEGER,
          .unit = "seconds",
          .minimum = 1,
          .maximum = SHAPES_WAIT_MAX,
          .doc = "The answer waits this long for the end of a temporary container, and has its output." },
        { 0 },
};
const struct field shape_container_wish = { .type = FIELD_OBJECT,
                                            .component = "ContainerWish",
                                            .fields = wish_fields,
                                            .groups = one_of_both,
                                            .doc = "The new container." };

static const struct field exec_fields[] = {
        COMMAND,
        { .name = "stdin", .type = FIELD_TEXT, .doc = "Standard input; empty if left out." },
        { .name = "timeoutSeconds",
          .type = FIELD_INTEGER,
          .unit = "seconds",
          .minimum = 1,
          .maximum = ENGINE_TIMEOUT_MAX,
          .default_text = "300",
          .doc = "Code that still runs then is interrupted, and killed two seconds later." },
        { 0 },
};
const struct field shape_container_exec = { .type = FIELD_OBJECT,
                                            .component = "ContainerExec",
                                            .fields = exec_fields,
                                            .groups = one_of_both,
                                            .doc = "An execution to start in a container." };

static const struct field status_item = {
        .name = "STATUS", .type = FIELD_TEXT, .choices_text = statuses, .doc = "A status."
};
static const struct field type_item = {
        .name = "TYPE", .type = FIELD_TEXT, .choices_text = types, .doc = "A type."
};
static const struct field name_item = {
        .name = "NAME", .type = FIELD_TEXT, .minimum = 1, .maximum = CHECKS_TEXT_MAX, .doc = "A name."
};

const struct field shape_containers_query[] = {
        SHAPE_FILTER_ONE_OF("status", &status_item),
        SHAPE_FILTER_ONE_OF("type", &type_item),
        SHAPE_FILTER_ONE_OF("agent", &name_item),
        SHAPE_FILTER_ONE_OF("name", &name_item),
        SHAPE_LIMIT(ENGINE_LIST_MAX),
        SHAPE_CURSOR("[0-9]+[.]" CONTAINER_ID),
        { 0 },
};

static const char *const yes_or_no[] = { "true", "false", NULL };
const struct field shape_logs_query[] = {
        { .name = "follow",
          .type = FIELD_TEXT,
          .choices_text = yes_or_no,
          .default_text = "false",
          .doc = "Whether the answer goes on with what is printed from now on, until the container has ended." },
        { .name = "tail",
          .type = FIELD_INTEGER,
          .maximum = SHAPES_TAIL_MAX,
          .doc = "Only this many of the lines that exist, the last ones." },
        { .name = "since",
          .type = FIELD_TEXT,
          .pattern = "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z",
          .pattern_message = "a time as 2026-01-31T12:00:00Z",
          .doc = "Only lines that were printed at that time or later." },
        { 0 },
};
const struct field shape_logs_headers[] = {
        { .name = "Accept",
          .type = FIELD_LIST,
          .item = &any_text,
          .doc = "`application/jsonl`: a JSON object a line, `{at, stream, text}`, with `partial: true` where the line has no end; else the text alone." },
        { 0 },
};
const struct field shape_stop_headers[] = {
        { .name = "Prefer",
          .type = FIELD_LIST,
          .item = &any_text,
          .doc = "`respond-async`: answer 202 at once, without waiting for the end." },
        { 0 },
};
const struct field shape_container_path = {
        .name = "container",
        .type = FIELD_TEXT,
        .pattern = CONTAINER_ID,
        .pattern_message = "an id",
        .doc = "The id of the container.",
};

/* --- answered --- */

#define MEMBER(type_, name_, doc_) .name = (name_), .type = (type_), .required = true, .doc = (doc_)
#define TEXT(name_, doc_) MEMBER(FIELD_TEXT, name_, doc_)
#define NUMBER(name_, doc_) MEMBER(FIELD_INTEGER, name_, doc_)
#define TIME(name_, doc_) TEXT(name_, doc_), .format = "date-time"

#define USAGE_FIELDS                                                                                        \
        { NUMBER("cpuPercent",                                                                              \
                 "Percent of one CPU, over the last seconds: 200 is two CPUs. Null until there are "        \
                 "two readings."),                                                                          \
          .nullable = true },                                                                               \
                { NUMBER("cpuMs", "CPU time used since its sandbox began."), .unit = "ms" },                \
                { NUMBER("memoryBytes", "Memory that counts against its limit now, with files in memory."), \
                  .unit = "bytes" },                                                                        \
        {                                                                                                   \
                NUMBER("peakMemoryBytes", "The highest value so far. 0: not known."), .unit = "bytes"       \
        }

static const struct field shape_usage_fields[] = { USAGE_FIELDS, { 0 } };
static const struct field stats_fields[] = {
        { TIME("at", "The time of this reading.") },
        { TEXT("status", "The container's."), .choices_text = statuses },
        { MEMBER(FIELD_OBJECT, "usage",
                 "The usage of its sandbox; null if none runs, or if it is not known."),
          .component = "ContainerUsage", .fields = shape_usage_fields, .nullable = true },
        { 0 },
};
const struct field shape_container_stats = { .type = FIELD_OBJECT,
                                             .component = "ContainerStats",
                                             .fields = stats_fields,
                                             .doc = "A container's usage." };
static const struct field port_fields[] = {
        { TEXT("name", "The container's name."), .nullable = true },
        { NUMBER("port", "The port that the command listens at.") },
        { NUMBER("hostPort", "The port of this machine's 127.0.0.1 that leads there; null where none does."),
          .nullable = true },
        { 0 },
};
static const struct field port_item = {
        .type = FIELD_OBJECT, .component = "Port", .fields = port_fields, .doc = "A port of a container."
};

#define CONTAINER_FIELDS                                                                                                           \
        { TEXT("id", "Its id: `c-` and 26 characters.") }, { TEXT("name", "Its name."), .nullable = true },                        \
                { TEXT("agent", "The agent that it is for.") },                                                                    \
                { TEXT("owner", "Its owner: `REALM/NAME`, `client:NAME` or `uid:N`.") },                                           \
                { TEXT("environment", "The environment that it runs in.") },                                                       \
                { TEXT("type", "Whether it runs once or until it is stopped."), .choices_text = types },                           \
                { TEXT("status",                                                                                                   \
                       "`queued` waits for room under its agent's limits; `stopped` was asked to, `exited` has ended by itself."), \
                  .choices_text = statuses },                                                                                      \
                { NUMBER("exitCode",                                                                                               \
                         "The exit code of its command; null while it runs, or if something else ended it."),                      \
                  .nullable = true },                                                                                              \
                { TEXT("reason",                                                                                                   \
                       "Why it does not run, or why it was started again last. `lost`: its end was not observed."),                \
                  .choices_text = reasons, .nullable = true },                                                                     \
                { TEXT("detail", "Details of the reason, for people."), .nullable = true },                                        \
                { TEXT("restart", "Whether it is started again when its command ends."),                                           \
                  .choices_text = restarts },                                                                                      \
                { NUMBER("starts", "The number of times its command was started.") },                                              \
                { NUMBER("timeoutSeconds", "The time after which a temporary container is killed."),                               \
                  .unit = "seconds", .nullable = true },                                                                           \
                { NUMBER("queuePosition", "Its place in line, from 1, while it is `queued`."),                                     \
                  .nullable = true },                                                                                              \
                { MEMBER(FIELD_OBJECT, "usage",                                                                                    \
                         "The usage of its sandbox; null if none runs, or if it is not known."),                                   \
                  .component = "ContainerUsage", .fields = shape_usage_fields, .nullable = true },                                 \
                { MEMBER(FIELD_LIST, "ports", "The ports that its command listens at."),                                           \
                  .item = &port_item },                                                                                            \
                { TIME("createdAt", "The time of its creation.") },                                                                \
                { TIME("startedAt", "The time of its command's last start."), .nullable = true }, {                                \
                TIME("endedAt", "The time of its command's last end; null while it runs."), .nullable = true                       \
        }

static const struct field container_fields[] = { CONTAINER_FIELDS, { 0 } };
const struct field shape_container = { .type = FIELD_OBJECT,
                                       .component = "Container",
                                       .fields = container_fields,
                                       .doc = "A sandbox with a command of its own." };
static const struct field ended_fields[] = {
        CONTAINER_FIELDS,
        { TEXT("stdout",
               "The end of its output, 65,536 bytes at most; bytes that are not UTF-8 as `\\xNN`.") },
        { TEXT("stderr", "The same for its standard error.") },
        { MEMBER(FIELD_BOOLEAN, "truncated", "Whether it printed more than these two contain.") },
        { 0 },
};
const struct field shape_container_ended = {
        .type = FIELD_OBJECT,
        .component = "EndedContainer",
        .fields = ended_fields,
        .doc = "A temporary container that has ended, with its output."
};

/* --- sandboxes --- */

static const char *const sandbox_types[] = { "session", "temporary", "service", NULL };
static const char *const sandbox_statuses[] = { "queued", "starting", "idle",   "running",
                                                "parked", "stopped",  "exited", NULL };
static const struct field sandbox_status_item = {
        .name = "STATUS", .type = FIELD_TEXT, .choices_text = sandbox_statuses, .doc = "A status."
};
static const struct field sandbox_type_item = {
        .name = "TYPE", .type = FIELD_TEXT, .choices_text = sandbox_types, .doc = "A type."
};

const struct field shape_sandboxes_query[] = {
        SHAPE_FILTER_ONE_OF("type", &sandbox_type_item),
        SHAPE_FILTER_ONE_OF("status", &sandbox_status_item),
        SHAPE_FILTER_ONE_OF("environment", &name_item),
        SHAPE_FILTER_ONE_OF("agent", &name_item),
        SHAPE_LIMIT(ENGINE_LIST_MAX),
        SHAPE_CURSOR("[0-9]+[.][cs]-[a-z2-7]{26}"),
        { 0 },
};

static const struct field sandbox_fields[] = {
        { TEXT("id", "The session's id, or the container's.") },
        { TEXT("type", "Session or container."), .choices_text = sandbox_types },
        { TEXT("name", "The container's name."), .nullable = true },
        { TEXT("owner", "Its owner.") },
        { TEXT("environment", "The environment that it runs in.") },
        { TEXT("agent", "The agent that it is for."), .nullable = true },
        { TEXT("status", "The status of the session or the container."), .choices_text = sandbox_statuses },
        { NUMBER("queuePosition", "Its place in line, from 1, while it is `queued`."), .nullable = true },
        { TIME("createdAt", "The time of its creation.") },
        { 0 },
};
const struct field shape_sandbox = { .type = FIELD_OBJECT,
                                     .component = "Sandbox",
                                     .fields = sandbox_fields,
                                     .doc = "A session or a container." };
