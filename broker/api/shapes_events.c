/* SPDX-License-Identifier: Apache-2.0 */
/* What streams have: events of executions, of all that a client may see, of what a container uses; and lines of logs. */
#include "broker/api/shapes.h"

#include <stddef.h>

#define SHAPE(fields_, doc_) \
        { .type = FIELD_OBJECT, .fields = (fields_), .doc = (doc_) }
#define MEMBER(type_, name_, doc_) .name = (name_), .type = (type_), .required = true, .doc = (doc_)
#define TEXT(name_, doc_) MEMBER(FIELD_TEXT, name_, doc_)
#define NUMBER(name_, doc_) MEMBER(FIELD_INTEGER, name_, doc_)

static const char *const streams[] = { "stdout", "stderr", NULL };

/* --- of one execution --- */

static const struct field started_fields[] = {
        { NUMBER("n", "Its number in the session.") },
        { TEXT("context", "The kernel that runs it; null for code that runs in no kernel."),
          .nullable = true },
        { MEMBER(FIELD_OBJECT, "state", "The kernel that it runs in; null for code that runs in no kernel."),
          .component = "KernelState", .fields = shape_state_fields, .nullable = true },
        { 0 },
};
static const struct field started_shape = SHAPE(started_fields, "It has begun.");
static const struct field output_fields[] = {
        { .name = "text", .type = FIELD_TEXT, .doc = "The output, if it is UTF-8." },
        { .name = "contentBase64",
          .type = FIELD_TEXT,
          .base64 = true,
          .doc = "The output, if it is not UTF-8." },
        { .name = "gap",
          .type = FIELD_OBJECT,
          .component = "Gap",
          .fields = shape_gap_fields,
          .doc = "The place of bytes that were not kept." },
        { 0 },
};
static const struct field output_shape = SHAPE(output_fields, "A piece of what it writes.");
static const struct field gap_event_fields[] = {
        { TEXT("stream", "The place of the missing bytes."), .choices_text = streams },
        { NUMBER("bytes", "How many."), .unit = "bytes" },
        { 0 },
};
static const struct field gap_shape = SHAPE(gap_event_fields, "Output that is not kept.");

static const struct shape_event execution_items[] = {
        { "started", "StartedEvent", &started_shape },
        { "stdout", "StdoutEvent", &output_shape },
        { "stderr", "StderrEvent", &output_shape },
        { "gap", "GapEvent", &gap_shape },
        { "display", "DisplayEvent", &shape_display },
        { "done", "DoneEvent", &shape_execution },
        { NULL, NULL, NULL },
};
const struct shape_events shape_execution_events = { "ExecutionEvent", execution_items };

/* --- of all --- */

static const struct field session_fields[] = {
        { TEXT("id", "Its id.") },
        { TEXT("owner", "Its owner.") },
        { TEXT("status", "The session's status, or `ended`.") },
        { 0 },
};
static const struct field session_shape = SHAPE(
        session_fields,
        "A session's status has changed. All other members of `Session` are there, unless it has ended.");
static const struct field execution_fields[] = {
        { TEXT("session", "The session that it runs in.") },
        { NUMBER("n", "Its number in the session.") },
        { TEXT("status", "The execution's status.") },
        { 0 },
};
static const struct field execution_shape = SHAPE(execution_fields, "An execution begins, or has ended.");
static const struct field container_fields[] = {
        { TEXT("id", "Its id.") },
        { TEXT("owner", "Its owner.") },
        { TEXT("environment", "The environment that it runs in.") },
        { TEXT("agent", "The agent that it is for."), .nullable = true },
        { TEXT("status", "The container's status, and `removed` at last.") },
        { 0 },
};
static const struct field container_shape = SHAPE(container_fields, "A container's status has changed.");
static const struct field approval_fields[] = {
        { TEXT("id", "Its id.") },
        { TEXT("owner", "The owner of the request.") },
        { TEXT("agent", "The agent that asks."), .nullable = true },
        { TEXT("status", "The approval's status.") },
        { 0 },
};
static const struct field approval_shape = SHAPE(approval_fields, "An approval's status has changed.");
static const struct field no_fields[] = { { 0 } };
static const struct field missed_shape = SHAPE(no_fields, "More happened than is kept: list what there is.");

static const struct shape_event all_items[] = {
        { "session", "SessionEvent", &session_shape },
        { "execution", "ExecutionStatusEvent", &execution_shape },
        { "container", "ContainerEvent", &container_shape },
        { "approval", "ApprovalEvent", &approval_shape },
        { "missed", "MissedEvent", &missed_shape },
        { NULL, NULL, NULL },
};
const struct shape_events shape_all_events = { "Event", all_items };

/* --- of containers --- */

static const struct shape_event stats_items[] = {
        { "stats", "StatsEvent", &shape_container_stats },
        { NULL, NULL, NULL },
};
const struct shape_events shape_stats_events = { "ContainerStatsEvent", stats_items };

static const struct field line_fields[] = {
        { TEXT("at", "The time of the line."), .format = "date-time" },
        { TEXT("stream", "Where."), .choices_text = streams },
        { TEXT("text", "The line, without its end.") },
        { .name = "partial",
          .type = FIELD_BOOLEAN,
          .doc = "True if the line has no end: it goes on, or is cut." },
        { 0 },
};
const struct field shape_log_line = { .type = FIELD_OBJECT,
                                      .component = "LogLine",
                                      .fields = line_fields,
                                      .doc = "A line that a container has printed." };
