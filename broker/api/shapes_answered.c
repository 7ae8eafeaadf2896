/* SPDX-License-Identifier: Apache-2.0 */
/* What clients get: as the engine, the workspaces and what was applied are told (engine.h, workspace.h, applied.h). */
#include "broker/api/shapes.h"

#include <stddef.h>

#define MEMBER(type_, name_, doc_) .name = (name_), .type = (type_), .required = true, .doc = (doc_)
#define TEXT(name_, doc_) MEMBER(FIELD_TEXT, name_, doc_)
#define NUMBER(name_, doc_) MEMBER(FIELD_INTEGER, name_, doc_)
#define FLAG(name_, doc_) MEMBER(FIELD_BOOLEAN, name_, doc_)
#define LIST(name_, item_, doc_) MEMBER(FIELD_LIST, name_, doc_), .item = (item_)
#define TIME(name_, doc_) TEXT(name_, doc_), .format = "date-time"
#define SHAPE(name_, fields_, doc_) \
        { .type = FIELD_OBJECT, .component = (name_), .fields = (fields_), .doc = (doc_) }

static const struct field text_item = { .name = "text", .type = FIELD_TEXT, .doc = "A text." };
static const struct field any_key = { .name = "NAME", .type = FIELD_TEXT, .doc = "A name." };
static const struct field path_item = { .name = "path",
                                        .type = FIELD_TEXT,
                                        .doc = "A path in the workspace." };

/* --- sessions --- */

static const char *const session_statuses[] = { "queued", "starting", "idle", "running", "parked", NULL };

static const struct field session_fields[] = {
        { TEXT("id", "Its id: `s-` and 26 characters.") },
        { TEXT("owner", "Its owner: `REALM/NAME`, `client:NAME` or `uid:N`.") },
        { TEXT("environment", "The environment that it runs in.") },
        { TEXT("agent", "The agent that it is for."), .nullable = true },
        { TEXT("conversation", "The conversation that the session is for."), .nullable = true },
        { MEMBER(FIELD_MAP, "labels", "The client's own texts."), .keys = &any_key, .item = &text_item },
        { TEXT("status", "`queued` waits for room under its agent's limits; `parked` has no sandbox until its"
                         " next execution."),
          .choices_text = session_statuses },
        { TIME("createdAt", "The time of its creation.") },
        { TIME("lastActiveAt", "The time of the last execution.") },
        { NUMBER("idleSeconds", "The session ends after this time without an execution."),
          .unit = "seconds" },
        { NUMBER("ttlSeconds", "The session ends at this age."), .unit = "seconds" },
        { TIME("expiresAt", "The time of its end, if nothing runs until then.") },
        { NUMBER("queuePosition", "Its place in line, from 1, while it is `queued`."), .nullable = true },
        { NUMBER("generation", "Rises with each start of a kernel.") },
        { 0 },
};
const struct field shape_session =
        SHAPE("Session", session_fields, "A sandbox of one owner in one environment.");

/* --- executions --- */

static const char *const pending_statuses[] = { "queued", "running", NULL };
static const char *const ended_statuses[] = { "ok",          "error",  "timeout", "memory",
                                              "interrupted", "killed", "failed",  NULL };
static const char *const all_statuses[] = { "queued", "running",     "ok",     "error",  "timeout",
                                            "memory", "interrupted", "killed", "failed", NULL };
static const char *const encodings[] = { "utf-8", "base64", NULL };
static const char *const origins[] = { "new", "kept", "restored", "lost", NULL };

#define EXECUTION_ID                                              \
        { TEXT("session", "The session that it runs in.") }, {    \
                NUMBER("n", "Its number in the session, from 1.") \
        }

static const struct field pending_fields[] = {
        EXECUTION_ID,
        { TEXT("status", "`queued` waits in the session's line."), .choices_text = pending_statuses },
        { NUMBER("queuePosition", "Its place in line, from 1, while it is `queued`."), .nullable = true },
        { 0 },
};
const struct field shape_execution_pending =
        SHAPE("PendingExecution", pending_fields, "An execution that has not ended.");

const struct field shape_gap_fields[] = {
        { NUMBER("at", "The number of bytes of `content` before the gap."), .unit = "bytes" },
        { NUMBER("bytes", "The number of missing bytes."), .unit = "bytes" },
        { 0 },
};
const struct field shape_stream_fields[] = {
        { NUMBER("bytesTotal", "The number of bytes written."), .unit = "bytes" },
        { NUMBER("bytesReturned", "The number of bytes in `content`."), .unit = "bytes" },
        { FLAG("truncated", "Whether `content` is shorter than the output.") },
        { TEXT("sha256", "SHA-256 of the whole output; null if not all of it was read."), .nullable = true },
        { TEXT("encoding", "Encoding of `content`: base64 if it is not UTF-8."), .choices_text = encodings },
        { TEXT("content",
               "The output, as far as it is kept: the first and the last half of the cap, if it was longer.") },
        { .name = "gap",
          .type = FIELD_OBJECT,
          .component = "Gap",
          .fields = shape_gap_fields,
          .doc = "Gaps in `content`." },
        { 0 },
};
static const struct field value_fields[] = {
        { TEXT("type", "The type's name.") },
        { TEXT("text", "Its `repr`.") },
        { FLAG("truncated", "Whether the text was cut.") },
        { 0 },
};
static const struct field display_fields[] = {
        { MEMBER(FIELD_MAP, "mime", "Its forms, by MIME type; images but SVG in base64."), .keys = &any_key,
          .item = &text_item },
        { FLAG("main", "Whether it is the value of the last expression.") },
        { .name = "file",
          .type = FIELD_TEXT,
          .nullable = true,
          .doc = "The path of its image in the workspace." },
        { .name = "truncated", .type = FIELD_BOOLEAN, .doc = "Whether history dropped some of its forms." },
        { 0 },
};
const struct field shape_display = SHAPE("Display", display_fields, "A figure or another display.");
static const struct field error_fields[] = {
        { TEXT("name", "The exception's class.") },
        { TEXT("value", "The exception's message.") },
        { LIST("traceback", &text_item, "Its lines.") },
        { 0 },
};

static const struct field changed_fields[] = {
        { TEXT("path", "Its path.") },
        { NUMBER("bytes", "Its size."), .unit = "bytes" },
        { TEXT("sha256", "SHA-256 of the content."), .nullable = true },
        { 0 },
};
static const struct field changed_shape = SHAPE("ChangedFile", changed_fields, "A file that was written.");
static const struct field skipped_fields[] = {
        { TEXT("path", "Its path.") },
        { TEXT("reason", "The reason."), .nullable = true },
        { 0 },
};
static const struct field skipped_shape = SHAPE("SkippedFile", skipped_fields, "A file that was left out.");
static const struct field files_fields[] = {
        { LIST("changed", &changed_shape, "Files that it has written.") },
        { LIST("deleted", &path_item, "Files that it has deleted.") },
        { LIST("conflict", &path_item,
               "Files that another client has changed meanwhile: the execution's version stays. On "
               "AWS a deletion by the execution does not count: there the other client's version "
               "stays.") },
        { LIST("skipped", &skipped_shape,
               "Files that could not be taken into the workspace, 1,000 "
               "at most.") },
        { NUMBER("skippedTotal", "The number of files in all.") },
        { .name = "truncated",
          .type = FIELD_BOOLEAN,
          .doc = "Whether history dropped parts of these lists." },
        { 0 },
};
static const struct field returned_fields[] = {
        { TEXT("path", "Its path.") },
        { .name = "contentBase64", .type = FIELD_TEXT, .base64 = true, .doc = "The content." },
        { .name = "bytes",
          .type = FIELD_INTEGER,
          .unit = "bytes",
          .doc = "Its size, if it is not in the JSON." },
        { .name = "part",
          .type = FIELD_INTEGER,
          .doc = "The number of its part of the multipart/mixed, "
                 "from 1." },
        { .name = "reason", .type = FIELD_TEXT, .doc = "The reason if it is missing." },
        { 0 },
};
static const struct field returned_shape =
        SHAPE("ReturnedFile", returned_fields, "A file that `returnFiles` asked for.");
static const struct field usage_fields[] = {
        { NUMBER("queuedMs", "The time it waited."), .unit = "ms" },
        { NUMBER("wallMs", "The time it ran."), .unit = "ms" },
        { NUMBER("cpuMs", "The CPU time it used."), .unit = "ms" },
        { NUMBER("peakMemoryBytes", "The most memory that its sandbox used."), .unit = "bytes" },
        { .name = "checkpointBytes",
          .type = FIELD_INTEGER,
          .unit = "bytes",
          .doc = "The variables that were saved after it, on AWS. Absent: none were saved." },
        { .name = "checkpointMs", .type = FIELD_INTEGER, .unit = "ms", .doc = "The time that saving took." },
        { 0 },
};
static const struct field lost_fields[] = {
        { TEXT("name", "The variable's name.") },
        { TEXT("type", "Its type's name.") },
        { TEXT("why", "The reason.") },
        { 0 },
};
static const struct field lost_shape = SHAPE("LostName", lost_fields, "A variable that could not be kept.");
const struct field shape_state_fields[] = {
        { NUMBER("generation", "The kernel's: it rises with each start of one.") },
        { TEXT("was", "The kernel at the start: a new one, the previous one, one restored from a "
                      "checkpoint, or one whose variables are lost."),
          .choices_text = origins },
        { TEXT("reason", "The reason if it is not the previous kernel."), .nullable = true },
        { LIST("restored", &text_item, "Names of restored variables.") },
        { LIST("lost", &lost_shape, "Names of lost variables.") },
        { TEXT("ended", "The reason if the kernel ended in this execution; null while it lives."),
          .nullable = true },
        { .name = "truncated", .type = FIELD_BOOLEAN, .doc = "Whether history dropped some names." },
        { 0 },
};
static const struct field ran_in_fields[] = {
        { TEXT("name", "The environment.") },
        { TEXT("imageDigest", "The digest of its image; null if it has no image of its own."),
          .nullable = true },
        { 0 },
};

#define EXIT_CODE                                                    \
        .name = "exitCode", .type = FIELD_INTEGER, .nullable = true, \
        .doc = "0 with `ok` only; null if the code did not end by itself."
#define ERROR                                                                                    \
        .name = "error", .type = FIELD_OBJECT, .component = "Exception", .fields = error_fields, \
        .nullable = true, .doc = "The exception that ended it."
#define DETAIL .name = "detail", .type = FIELD_TEXT, .nullable = true, .doc = "Details of its end."
#define USAGE                                                                                \
        .name = "usage", .type = FIELD_OBJECT, .component = "Usage", .fields = usage_fields, \
        .doc = "Times and memory that it used."
#define STATE                                                                                            \
        .name = "state", .type = FIELD_OBJECT, .component = "KernelState", .fields = shape_state_fields, \
        .nullable = true, .doc = "The kernel that it ran in; null for code that ran in no kernel."
#define RAN_IN                                                                                      \
        .name = "environment", .type = FIELD_OBJECT, .component = "RanIn", .fields = ran_in_fields, \
        .doc = "The context that it ran in."
#define STREAM(name_, doc_) \
        MEMBER(FIELD_OBJECT, name_, doc_), .component = "Stream", .fields = shape_stream_fields

static const struct field execution_fields[] = {
        EXECUTION_ID,
        { TEXT("status",
               "How it ended. `failed`: it could not be run, or it is not known whether it ran; `detail` says which."),
          .choices_text = ended_statuses },
        { EXIT_CODE, .required = true },
        { STREAM("stdout", "Standard output.") },
        { STREAM("stderr", "Standard error.") },
        { MEMBER(FIELD_OBJECT, "value", "The value of the last expression; null if there was no value."),
          .component = "Value", .fields = value_fields, .nullable = true },
        { LIST("displays", &shape_display, "Figures and other displays.") },
        { .name = "displaysDropped",
          .type = FIELD_INTEGER,
          .doc = "The number of displays that were dropped." },
        { ERROR, .required = true },
        { DETAIL, .required = true },
        { MEMBER(FIELD_OBJECT, "files", "The changes of the workspace."), .component = "Files",
          .fields = files_fields },
        { LIST("returned", &returned_shape,
               "Files that `returnFiles` asked for, only in an answer that waited for the result.") },
        { USAGE, .required = true },
        { STATE, .required = true },
        { RAN_IN, .required = true },
        { 0 },
};
const struct field shape_execution =
        SHAPE("Execution", execution_fields, "An execution that has ended: its result.");

static const struct field summary_fields[] = {
        EXECUTION_ID,
        { TEXT("status", "The status of the execution."), .choices_text = all_statuses },
        { EXIT_CODE },
        { ERROR },
        { DETAIL },
        { USAGE },
        { STATE },
        { RAN_IN },
        { TEXT("language", "Its language.") },
        { TEXT("context", "The kernel that ran it.") },
        { .name = "code", .type = FIELD_TEXT, .doc = "The code, as far as it is kept." },
        { TIME("queuedAt", "The time of the request.") },
        { TIME("startedAt", "The time of its start."), .nullable = true },
        { TIME("endedAt", "The time of its end."), .nullable = true },
        { 0 },
};
const struct field shape_execution_summary =
        SHAPE("ExecutionSummary", summary_fields,
              "An execution in a session's history, without streams and displays.");

/* --- what was applied --- */

static const struct field environment_fields[] = {
        { TEXT("name", "Its name.") },
        { TEXT("description", "The environment's purpose."), .nullable = true },
        { MEMBER(FIELD_OBJECT, "image", "Its image, as its manifest names it."), .nullable = true },
        { NUMBER("memoryMB", "The memory that a sandbox has."), .unit = "MB", .nullable = true },
        { NUMBER("workspaceStorageMB", "The most bytes of a workspace."), .unit = "MB", .nullable = true },
        { NUMBER("timeoutSeconds", "The most seconds that an invocation may take."), .unit = "seconds",
          .nullable = true },
        { TIME("appliedAt", "The time of the last apply."), .nullable = true },
        { FLAG("incomplete", "Whether a change of it failed half-way.") },
        { 0 },
};
const struct field shape_environment =
        SHAPE("Environment", environment_fields, "An environment that was applied.");

static const struct field agent_fields[] = {
        { TEXT("name", "Its name.") },
        { .name = "type", .type = FIELD_TEXT, .doc = "`general` or `specialist`." },
        { TEXT("environment", "The environment that it works in."), .nullable = true },
        { FLAG("inService", "False while it is inactive, or taken from its environment.") },
        { MEMBER(FIELD_OBJECT, "limits", "The limits on concurrent use."), .nullable = true },
        { MEMBER(FIELD_OBJECT, "labels", "Its manifest's labels."), .nullable = true },
        { TIME("appliedAt", "The time of the last apply."), .nullable = true },
        { 0 },
};
const struct field shape_agent = SHAPE("Agent", agent_fields, "An agent that was applied.");

static const struct field dependent_fields[] = {
        { TEXT("address", "`Agent/NAME` or `Swarm/NAME`.") },
        { FLAG("active", "Whether it is in service.") },
        { 0 },
};
static const struct field dependent_shape =
        SHAPE("Dependent", dependent_fields, "A resource that uses an environment.");
static const struct field mapped_fields[] = {
        { TEXT("name", "Its name.") },
        { NUMBER("memoryMB", "The memory that a sandbox has."), .unit = "MB" },
        { LIST("dependents", &dependent_shape, "The agents and swarms that use it.") },
        { 0 },
};
static const struct field mapped_shape =
        SHAPE("MappedEnvironment", mapped_fields, "An environment and its users.");
static const struct field map_fields[] = { { LIST("environments", &mapped_shape, "By name.") }, { 0 } };
const struct field shape_map =
        SHAPE("Map", map_fields, "Environments, and the agents and swarms that use them.");

/* --- workspaces --- */

#define WORKSPACE_FIELDS                                                                           \
        { TEXT("id", "Its id, which its session has as well.") }, { TEXT("owner", "Its owner.") }, \
                { TEXT("environment", "The environment of its session.") },                        \
                { TEXT("agent", "The agent of its session."), .nullable = true },                  \
                { TIME("createdAt", "The time of its creation.") }, {                              \
                TIME("sessionUntil", "The latest end of its session; null once it has ended."),    \
                        .nullable = true                                                           \
        }

static const struct field workspace_fields[] = { WORKSPACE_FIELDS, { 0 } };
const struct field shape_workspace =
        SHAPE("Workspace", workspace_fields, "The files of a session, which outlive it.");
static const struct field shown_fields[] = {
        WORKSPACE_FIELDS,
        { NUMBER("files", "The number of files and folders.") },
        { NUMBER("bytes", "The size of its files."), .unit = "bytes" },
        { 0 },
};
const struct field shape_workspace_shown = SHAPE("WorkspaceShown", shown_fields, "A workspace and its size.");

#define FILE_FIELDS                                                                                          \
        { TEXT("path", "Its path.") }, { NUMBER("bytes", "Its size."), .unit = "bytes" },                    \
                { FLAG("executable", "Whether the file is executable.") }, { TEXT("etag", "Its version.") }, \
        {                                                                                                    \
                TIME("writtenAt", "The time of the last change.")                                            \
        }

static const struct field file_fields[] = { FILE_FIELDS, { 0 } };
const struct field shape_file = SHAPE("File", file_fields, "A file of a workspace.");
static const struct field put_fields[] = { FILE_FIELDS,
                                           { TEXT("sha256", "SHA-256 of the content.") },
                                           { 0 } };
const struct field shape_file_put = SHAPE("FilePut", put_fields, "An uploaded file.");

static const struct field copied_fields[] = {
        { LIST("changed", &changed_shape, "Copied paths.") },
        { LIST("conflict", &path_item, "Existing paths, which stay as they are.") },
        { LIST("skipped", &skipped_shape, "Paths that could not be copied.") },
        { 0 },
};
const struct field shape_copied = SHAPE("Copied", copied_fields, "The outcome of a copy.");

static const struct field ticket_fields[] = {
        { TEXT("address", "The path to download from, on this server.") },
        { TIME("expiresAt", "The time when it expires.") },
        { 0 },
};
const struct field shape_ticket = SHAPE("Ticket", ticket_fields, "An address that is good for one download.");

/* --- all the rest --- */

static const struct field problem_fields[] = {
        { TEXT("code", "The kind of problem, for programs: its text never changes.") },
        { NUMBER("status", "The HTTP status.") },
        { TEXT("title", "The meaning of the code.") },
        { TEXT("detail", "This request's mistake.") },
        { .name = "remedy", .type = FIELD_TEXT, .doc = "A remedy." },
        { 0 },
};
const struct field shape_problem =
        SHAPE("Problem", problem_fields, "Why a request was not answered (RFC 9457).");
const struct field shape_document = { .type = FIELD_OBJECT, .doc = "A document of OpenAPI 3.1." };
