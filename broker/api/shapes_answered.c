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
        { TEXT("owner", "Whose it is: `REALM/NAME`, `client:NAME` or `uid:N`.") },
        { TEXT("environment", "The environment that it runs in.") },
        { TEXT("agent", "The agent that it is for."), .nullable = true },
        { TEXT("conversation", "What it is for."), .nullable = true },
        { MEMBER(FIELD_MAP, "labels", "The client's own texts."), .keys = &any_key, .item = &text_item },
        { TEXT("status",
               "`queued` waits for room under its agent's limits; `parked` has no sandbox until something runs again."),
          .choices_text = session_statuses },
        { TIME("createdAt", "When it was made.") },
        { TIME("lastActiveAt", "When something ran last.") },
        { NUMBER("idleSeconds", "It ends when nothing has run for so long."), .unit = "seconds" },
        { NUMBER("ttlSeconds", "It ends when it is that old."), .unit = "seconds" },
        { TIME("expiresAt", "When it ends, if nothing runs by then.") },
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
        { NUMBER("at", "How many bytes of `content` are in front of it."), .unit = "bytes" },
        { NUMBER("bytes", "How many are missing there."), .unit = "bytes" },
        { 0 },
};
const struct field shape_stream_fields[] = {
        { NUMBER("bytesTotal", "How many bytes were written."), .unit = "bytes" },
        { NUMBER("bytesReturned", "How many of them `content` has."), .unit = "bytes" },
        { FLAG("truncated", "Whether those are fewer.") },
        { TEXT("sha256", "Of all that was written; null where not all of it was seen."), .nullable = true },
        { TEXT("encoding", "Of `content`: base64 where it is no UTF-8."), .choices_text = encodings },
        { TEXT("content",
               "What was written, as far as it is kept: the first and the last half of the cap, where that was passed.") },
        { .name = "gap",
          .type = FIELD_OBJECT,
          .component = "Gap",
          .fields = shape_gap_fields,
          .doc = "Where bytes are missing in `content`." },
        { 0 },
};
static const struct field value_fields[] = {
        { TEXT("type", "The type's name.") },
        { TEXT("text", "Its `repr`.") },
        { FLAG("truncated", "Whether the text is not all of it.") },
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
        { .name = "truncated",
          .type = FIELD_BOOLEAN,
          .doc = "Whether history has not kept all of its forms." },
        { 0 },
};
const struct field shape_display = SHAPE("Display", display_fields, "Something that the code has shown.");
static const struct field error_fields[] = {
        { TEXT("name", "The exception's class.") },
        { TEXT("value", "What it says.") },
        { LIST("traceback", &text_item, "Its lines.") },
        { 0 },
};

static const struct field changed_fields[] = {
        { TEXT("path", "Its path.") },
        { NUMBER("bytes", "Its size."), .unit = "bytes" },
        { TEXT("sha256", "Of what it holds."), .nullable = true },
        { 0 },
};
static const struct field changed_shape = SHAPE("ChangedFile", changed_fields, "A file that was written.");
static const struct field skipped_fields[] = {
        { TEXT("path", "Its path.") },
        { TEXT("reason", "Why it was passed over."), .nullable = true },
        { 0 },
};
static const struct field skipped_shape =
        SHAPE("SkippedFile", skipped_fields, "A file that was passed over.");
static const struct field files_fields[] = {
        { LIST("changed", &changed_shape, "Files that it has written.") },
        { LIST("deleted", &path_item, "Files that it has deleted.") },
        { LIST("conflict", &path_item,
               "Files that somebody else has put meanwhile: the execution's version stays. On AWS what the execution has "
               "deleted is not: there the other's version stays.") },
        { LIST("skipped", &skipped_shape, "What could not be taken into the workspace, 1,000 at most.") },
        { NUMBER("skippedTotal", "How many there are in all.") },
        { .name = "truncated",
          .type = FIELD_BOOLEAN,
          .doc = "Whether history has not kept all of these lists." },
        { 0 },
};
static const struct field returned_fields[] = {
        { TEXT("path", "Its path.") },
        { .name = "contentBase64", .type = FIELD_TEXT, .base64 = true, .doc = "What it holds." },
        { .name = "bytes",
          .type = FIELD_INTEGER,
          .unit = "bytes",
          .doc = "Its size, where it is not in the JSON." },
        { .name = "part", .type = FIELD_INTEGER, .doc = "Which part of the multipart/mixed it is, from 1." },
        { .name = "reason", .type = FIELD_TEXT, .doc = "Why it is not here." },
        { 0 },
};
static const struct field returned_shape =
        SHAPE("ReturnedFile", returned_fields, "A file that `returnFiles` asked for.");
static const struct field usage_fields[] = {
        { NUMBER("queuedMs", "How long it waited."), .unit = "ms" },
        { NUMBER("wallMs", "How long it ran."), .unit = "ms" },
        { NUMBER("cpuMs", "How long CPUs worked for it."), .unit = "ms" },
        { NUMBER("peakMemoryBytes", "The most memory that its sandbox used."), .unit = "bytes" },
        { .name = "checkpointBytes",
          .type = FIELD_INTEGER,
          .unit = "bytes",
          .doc = "What was kept of the variables after it, on AWS. Absent: nothing was." },
        { .name = "checkpointMs", .type = FIELD_INTEGER, .unit = "ms", .doc = "How long keeping them took." },
        { 0 },
};
static const struct field lost_fields[] = {
        { TEXT("name", "The variable's name.") },
        { TEXT("type", "Its type's name.") },
        { TEXT("why", "Why it could not be kept.") },
        { 0 },
};
static const struct field lost_shape = SHAPE("LostName", lost_fields, "A variable that could not be kept.");
const struct field shape_state_fields[] = {
        { NUMBER("generation", "The kernel's: it rises with each start of one.") },
        { TEXT("was",
               "What the execution began with: a new kernel, that of before, one restored from a checkpoint, or one whose variables are lost."),
          .choices_text = origins },
        { TEXT("reason", "Why it is not that of before."), .nullable = true },
        { LIST("restored", &text_item, "Names that came back.") },
        { LIST("lost", &lost_shape, "Names that did not.") },
        { TEXT("ended", "Why the kernel has ended in it; null where it lives."), .nullable = true },
        { .name = "truncated", .type = FIELD_BOOLEAN, .doc = "Whether history has not kept all names." },
        { 0 },
};
static const struct field ran_in_fields[] = {
        { TEXT("name", "The environment.") },
        { TEXT("imageDigest", "Its image's digest; null where it has no image of its own."),
          .nullable = true },
        { 0 },
};

#define EXIT_CODE                                                    \
        .name = "exitCode", .type = FIELD_INTEGER, .nullable = true, \
        .doc = "0 with `ok` only; null where nothing ended by itself."
#define ERROR                                                                                    \
        .name = "error", .type = FIELD_OBJECT, .component = "Exception", .fields = error_fields, \
        .nullable = true, .doc = "The exception that ended it."
#define DETAIL .name = "detail", .type = FIELD_TEXT, .nullable = true, .doc = "What is to be said of its end."
#define USAGE                                                                                \
        .name = "usage", .type = FIELD_OBJECT, .component = "Usage", .fields = usage_fields, \
        .doc = "What it took."
#define STATE                                                                                            \
        .name = "state", .type = FIELD_OBJECT, .component = "KernelState", .fields = shape_state_fields, \
        .nullable = true, .doc = "The kernel that it ran in; null of what ran in none."
#define RAN_IN                                                                                      \
        .name = "environment", .type = FIELD_OBJECT, .component = "RanIn", .fields = ran_in_fields, \
        .doc = "What it ran in."
#define STREAM(name_, doc_) \
        MEMBER(FIELD_OBJECT, name_, doc_), .component = "Stream", .fields = shape_stream_fields

static const struct field execution_fields[] = {
        EXECUTION_ID,
        { TEXT("status",
               "How it ended. `failed`: it could not be run, or nobody knows whether it ran; `detail` says which."),
          .choices_text = ended_statuses },
        { EXIT_CODE, .required = true },
        { STREAM("stdout", "Standard output.") },
        { STREAM("stderr", "Standard error.") },
        { MEMBER(FIELD_OBJECT, "value", "The value of the last expression; null where there is none."),
          .component = "Value", .fields = value_fields, .nullable = true },
        { LIST("displays", &shape_display, "What it has shown.") },
        { .name = "displaysDropped",
          .type = FIELD_INTEGER,
          .doc = "How many displays were too many or too large." },
        { ERROR, .required = true },
        { DETAIL, .required = true },
        { MEMBER(FIELD_OBJECT, "files", "What became of the workspace."), .component = "Files",
          .fields = files_fields },
        { LIST("returned", &returned_shape,
               "Files that `returnFiles` asked for: only to who waits for the result.") },
        { USAGE, .required = true },
        { STATE, .required = true },
        { RAN_IN, .required = true },
        { 0 },
};
const struct field shape_execution =
        SHAPE("Execution", execution_fields, "An execution that has ended: its result.");

static const struct field summary_fields[] = {
        EXECUTION_ID,
        { TEXT("status", "As of an execution."), .choices_text = all_statuses },
        { EXIT_CODE },
        { ERROR },
        { DETAIL },
        { USAGE },
        { STATE },
        { RAN_IN },
        { TEXT("language", "What ran it.") },
        { TEXT("context", "The kernel that ran it.") },
        { .name = "code", .type = FIELD_TEXT, .doc = "What ran, as far as it is kept." },
        { TIME("queuedAt", "When it was asked for.") },
        { TIME("startedAt", "When it began."), .nullable = true },
        { TIME("endedAt", "When it ended."), .nullable = true },
        { 0 },
};
const struct field shape_execution_summary =
        SHAPE("ExecutionSummary", summary_fields,
              "An execution in a session's history, without streams and displays.");

/* --- what was applied --- */

static const struct field environment_fields[] = {
        { TEXT("name", "Its name.") },
        { TEXT("description", "What it is for."), .nullable = true },
        { MEMBER(FIELD_OBJECT, "image", "Its image, as its manifest names it."), .nullable = true },
        { NUMBER("memoryMB", "The memory that a sandbox has."), .unit = "MB", .nullable = true },
        { NUMBER("workspaceStorageMB", "What a workspace holds."), .unit = "MB", .nullable = true },
        { NUMBER("timeoutSeconds", "The longest that an invocation may take."), .unit = "seconds",
          .nullable = true },
        { TIME("appliedAt", "When it was applied last."), .nullable = true },
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
        { MEMBER(FIELD_OBJECT, "limits", "What it may use at the same time."), .nullable = true },
        { MEMBER(FIELD_OBJECT, "labels", "Its manifest's labels."), .nullable = true },
        { TIME("appliedAt", "When it was applied last."), .nullable = true },
        { 0 },
};
const struct field shape_agent = SHAPE("Agent", agent_fields, "An agent that was applied.");

static const struct field dependent_fields[] = {
        { TEXT("address", "`Agent/NAME` or `Swarm/NAME`.") },
        { FLAG("active", "Whether it is in service.") },
        { 0 },
};
static const struct field dependent_shape = SHAPE("Dependent", dependent_fields, "Who uses an environment.");
static const struct field mapped_fields[] = {
        { TEXT("name", "Its name.") },
        { NUMBER("memoryMB", "The memory that a sandbox has."), .unit = "MB" },
        { LIST("dependents", &dependent_shape, "Who uses it.") },
        { 0 },
};
static const struct field mapped_shape =
        SHAPE("MappedEnvironment", mapped_fields, "An environment, and who uses it.");
static const struct field map_fields[] = { { LIST("environments", &mapped_shape, "By name.") }, { 0 } };
const struct field shape_map =
        SHAPE("Map", map_fields, "Environments, and the agents and swarms that use them.");

/* --- workspaces --- */

#define WORKSPACE_FIELDS                                                                              \
        { TEXT("id", "Its id, which its session has as well.") }, { TEXT("owner", "Whose it is.") },  \
                { TEXT("environment", "The environment of its session.") },                           \
                { TEXT("agent", "The agent of its session."), .nullable = true },                     \
                { TIME("createdAt", "When it was made.") }, {                                         \
                TIME("sessionUntil", "When its session ends at the latest; null once it has ended."), \
                        .nullable = true                                                              \
        }

static const struct field workspace_fields[] = { WORKSPACE_FIELDS, { 0 } };
const struct field shape_workspace =
        SHAPE("Workspace", workspace_fields, "The files of a session, which outlive it.");
static const struct field shown_fields[] = {
        WORKSPACE_FIELDS,
        { NUMBER("files", "How many files and folders it holds.") },
        { NUMBER("bytes", "How much it holds."), .unit = "bytes" },
        { 0 },
};
const struct field shape_workspace_shown =
        SHAPE("WorkspaceShown", shown_fields, "A workspace, with what it holds.");

#define FILE_FIELDS                                                                       \
        { TEXT("path", "Its path.") }, { NUMBER("bytes", "Its size."), .unit = "bytes" }, \
                { FLAG("executable", "Whether it may be run as a program.") },            \
                { TEXT("etag", "Its version.") }, {                                       \
                TIME("writtenAt", "When it was written.")                                 \
        }

static const struct field file_fields[] = { FILE_FIELDS, { 0 } };
const struct field shape_file = SHAPE("File", file_fields, "A file of a workspace.");
static const struct field put_fields[] = { FILE_FIELDS, { TEXT("sha256", "Of what it holds.") }, { 0 } };
const struct field shape_file_put = SHAPE("FilePut", put_fields, "A file that was put.");

static const struct field copied_fields[] = {
        { LIST("changed", &changed_shape, "What was copied.") },
        { LIST("conflict", &path_item, "What is there already, and stays.") },
        { LIST("skipped", &skipped_shape, "What could not be copied.") },
        { 0 },
};
const struct field shape_copied = SHAPE("Copied", copied_fields, "What became of a copy.");

static const struct field ticket_fields[] = {
        { TEXT("address", "The path to download from, on this server.") },
        { TIME("expiresAt", "When it is good for nothing any more.") },
        { 0 },
};
const struct field shape_ticket = SHAPE("Ticket", ticket_fields, "An address that is good for one download.");

/* --- all the rest --- */

static const struct field problem_fields[] = {
        { TEXT("code", "What is wrong, for programs: it stays as it is.") },
        { NUMBER("status", "The HTTP status.") },
        { TEXT("title", "What the code means.") },
        { TEXT("detail", "What is wrong with this request.") },
        { .name = "remedy", .type = FIELD_TEXT, .doc = "What can be done." },
        { 0 },
};
const struct field shape_problem =
        SHAPE("Problem", problem_fields, "Why a request was not answered (RFC 9457).");
const struct field shape_document = { .type = FIELD_OBJECT, .doc = "A document of OpenAPI 3.1." };
