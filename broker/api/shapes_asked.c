/* SPDX-License-Identifier: Apache-2.0 */
/* What clients send. The engine's own bounds are named here, never repeated. */
#include "broker/api/shapes_parts.h"
#include "broker/work/glob.h"
#include "broker/work/returned.h"
#include "runtime/protocol/request.h"
#include "sessions/checks.h"
#include "sessions/workspace_copy.h"
#include "sessions/workspace_tree.h"

#include <string.h>

/* Common ground of POSIX extended and ECMAScript expressions (schema/fields.h). Texts hold no NUL in any case. */
#define LINE "[^\x01-\x1f\x7f]*"
#define LINE_MESSAGE "a text without control characters"
#define SEGMENT "([^./]|[.][^./]|[.][.][^/])[^/]*"
/* As workspace_path_plain() takes it: "x/y", "./x//y/", "/workspace/x/y". */
#define BELOW "(/workspace/+)?([.]/+)*"
#define PATH BELOW SEGMENT "(/+(" SEGMENT "|[.]))*/*"
#define FOLDER BELOW "((" SEGMENT "|[.])(/+(" SEGMENT "|[.]))*/*)?|/workspace"
#define PATH_MESSAGE "a path in the workspace: names with slashes between them, none of which is .."
#define SESSION_ID "s-[a-z2-7]{26}"
#define WORKSPACE_ID SESSION_ID "|agent:[a-z0-9]([-a-z0-9]*[a-z0-9])?"

#define SECONDS(name_, doc_)                                                             \
        {                                                                                \
                .name = (name_), .type = FIELD_INTEGER, .unit = "seconds", .minimum = 1, \
                .maximum = ENGINE_AGE_MAX, .doc = (doc_)                                 \
        }
#define NAME_TEXT(name_, doc_)                                                                 \
        {                                                                                      \
                .name = (name_), .type = FIELD_TEXT, .minimum = 1, .maximum = CHECKS_TEXT_MAX, \
                .pattern = LINE, .pattern_message = LINE_MESSAGE, .doc = (doc_)                \
        }
#define FILE_PATH(name_, doc_)                                                                             \
        .name = (name_), .type = FIELD_TEXT, .minimum = 1, .maximum = WORKSPACE_PATH_MAX, .pattern = PATH, \
        .pattern_message = PATH_MESSAGE, .plain = plain_path, .doc = (doc_)

static const char *plain_path(const char *text, struct arena *arena) {
        return workspace_path_plain(text, workspace_roots, arena);
}

/* A slash at the end says where a name ends. */
static const char *plain_prefix(const char *text, struct arena *arena) {
        const char *plain = plain_path(text, arena);
        size_t length = strlen(text);
        bool is_folder = (length > 0 && text[length - 1] == '/') ||
                         (length > 1 && text[length - 1] == '.' && text[length - 2] == '/');

        return *plain && is_folder ? arena_printf(arena, "%s/", plain) : plain;
}

const struct field shape_part_name = { FILE_PATH("NAME", "Where the file goes in the workspace.") };

/* --- members that several have --- */

static const struct field label_key = {
        .name = "NAME",
        .type = FIELD_TEXT,
        .minimum = 1,
        .maximum = CHECKS_TEXT_MAX,
        .pattern = "[^=\x01-\x1f\x7f]*",
        .pattern_message = "without control characters and without =",
        .doc = "The label's name.",
};
static const struct field label_value = {
        .name = "text",
        .type = FIELD_TEXT,
        .maximum = CHECKS_TEXT_MAX,
        .pattern = LINE,
        .pattern_message = LINE_MESSAGE,
        .doc = "The label's text.",
};
static const struct field variable_key = {
        .name = "NAME",
        .type = FIELD_TEXT,
        .minimum = 1,
        .maximum = REQUEST_VARIABLES_BYTES_MAX, /* a pattern takes twelve times the memory of its text */
        .pattern = "[A-Za-z_][A-Za-z0-9_]*",
        .pattern_message = "letters, digits and _, and begin with no digit",
        .doc = "The variable's name.",
};
static const struct field any_text = { .name = "text", .type = FIELD_TEXT, .doc = "Anything." };

#define LABELS                                                                                            \
        {                                                                                                 \
                .name = "labels", .type = FIELD_MAP, .maximum = CHECKS_LABELS_MAX, .keys = &label_key,    \
                .item = &label_value, .doc = "Texts of the client's own by which sessions can be listed." \
        }
#define VARIABLES(doc_)                                                                   \
        {                                                                                 \
                .name = "variables", .type = FIELD_MAP, .maximum = REQUEST_VARIABLES_MAX, \
                .keys = &variable_key, .item = &any_text,                                 \
                .doc = doc_ " Names and values have 65,536 bytes together at most."       \
        }
#define ENVIRONMENT NAME_TEXT("environment", "The environment to run in.")
#define AGENT              \
        NAME_TEXT("agent", \
                  "The agent that it is for: it runs in the agent's environment, under the agent's limits.")

static const char *const environment_or_agent[] = { "environment", "agent", NULL };
static const struct field_group one_of_both[] = { { environment_or_agent, true }, { 0 } };

/* --- sessions --- */

static const struct field session_wish_fields[] = {
        ENVIRONMENT,
        AGENT,
        NAME_TEXT(
                "conversation",
                "The session's conversation: the owner's session of that conversation is returned again while it lives."),
        LABELS,
        VARIABLES("Environment variables of all that runs in it."),
        SECONDS("idleSeconds",
                "The session ends after this time without an execution; 3600 unless the server says otherwise."),
        SECONDS("ttlSeconds", "The session ends at this age; 86400 unless the server says otherwise."),
        { 0 },
};
const struct field shape_session_wish = { .type = FIELD_OBJECT,
                                          .component = "SessionWish",
                                          .fields = session_wish_fields,
                                          .groups = one_of_both,
                                          .doc = "The new session." };

static const struct field session_patch_fields[] = {
        LABELS,
        SECONDS("idleSeconds", "The session ends after this time without an execution."),
        SECONDS("ttlSeconds", "The session ends at this age, counted from its start."),
        { 0 },
};
const struct field shape_session_patch = { .type = FIELD_OBJECT,
                                           .component = "SessionPatch",
                                           .fields = session_patch_fields,
                                           .doc = "The members to change; `labels` replaces all labels." };

#define CONTEXT(doc_)                                                                                 \
        {                                                                                             \
                .name = "context", .type = FIELD_TEXT, .minimum = 1, .maximum = 64,                   \
                .pattern = "[A-Za-z0-9._-]*", .pattern_message = "letters, digits, '.', '_' and '-'", \
                .default_text = "main", .doc = (doc_)                                                 \
        }

static const struct field restart_fields[] = { CONTEXT("The kernel to restart."), { 0 } };
const struct field shape_restart = {
        .type = FIELD_OBJECT, .component = "Restart", .fields = restart_fields, .doc = "Which kernel."
};

static const struct field no_fields[] = { { 0 } };
const struct field shape_nothing = {
        .type = FIELD_OBJECT, .component = "Nothing", .fields = no_fields, .doc = "Nothing."
};

/* --- executions --- */

static const char *const languages[] = { "python", "sh", "bash", NULL };
static const char *const disconnects[] = { "continue", "interrupt", NULL };

static const struct field file_fields[] = {
        { FILE_PATH("path", "Where it goes in the workspace."), .required = true },
        { .name = "content", .type = FIELD_TEXT, .doc = "The content, as a text." },
        { .name = "contentBase64",
          .type = FIELD_TEXT,
          .base64 = true,
          .doc = "The content, in base64 with padding." },
        { 0 },
};
static const char *const contents[] = { "content", "contentBase64", NULL };
static const struct field_group one_content[] = { { contents, true }, { 0 } };
const struct field shape_input_file = { .name = "file",
                                        .type = FIELD_OBJECT,
                                        .component = "InputFile",
                                        .fields = file_fields,
                                        .groups = one_content,
                                        .doc = "A file that comes with an execution." };
static const struct field pattern_text = { .name = "PATTERN",
                                           .type = FIELD_TEXT,
                                           .minimum = 1,
                                           .maximum = GLOB_MAX,
                                           .doc = "A pattern as in a shell, with ** for any number of"
                                                  " folders." };

#define EXECUTION_FIELDS                                                                                       \
        { .name = "code", .type = FIELD_TEXT, .required = true, .doc = "The code." },                          \
                { .name = "language",                                                                          \
                  .type = FIELD_TEXT,                                                                          \
                  .choices_text = languages,                                                                   \
                  .default_text = "python",                                                                    \
                  .doc = "The language; `sh` and `bash` share the files, not the variables." },                \
                VARIABLES("Environment variables of this execution, over the session's."),                     \
                { .name = "stdin",                                                                             \
                  .type = FIELD_TEXT,                                                                          \
                  .doc = "Standard input; empty if left out. With `code` it may have 33 MB." },                \
                { .name = "timeoutSeconds",                                                                    \
                  .type = FIELD_INTEGER,                                                                       \
                  .unit = "seconds",                                                                           \
                  .minimum = 1,                                                                                \
                  .maximum = ENGINE_TIMEOUT_MAX,                                                               \
                  .default_text = "300",                                                                       \
                  .doc = "Code that still runs then is interrupted, and killed two seconds later." },          \
                { .name = "onDisconnect",                                                                      \
                  .type = FIELD_TEXT,                                                                          \
                  .choices_text = disconnects,                                                                 \
                  .default_text = "continue",                                                                  \
                  .doc = "The execution's fate when its client stops waiting." },                              \
                { .name = "files",                                                                             \
                  .type = FIELD_LIST,                                                                          \
                  .item = &shape_input_file,                                                                   \
                  .doc = "Files that are written into the workspace at the start: up to 2,000 and 100 MiB." }, \
        {                                                                                                      \
                .name = "returnFiles", .type = FIELD_LIST, .maximum = RETURNED_PATTERNS_MAX,                   \
                .item = &pattern_text,                                                                         \
                .doc = "Patterns of paths: files of the workspace that the result must include."               \
        }

static const struct field execution_wish_fields[] = {
        EXECUTION_FIELDS,
        CONTEXT("The kernel that runs it: each keeps variables of its own. A session has eight at most."),
        { 0 },
};
const struct field shape_execution_wish = { .type = FIELD_OBJECT,
                                            .component = "ExecutionWish",
                                            .fields = execution_wish_fields,
                                            .doc = "An execution to start in a session." };

static const struct field alone_wish_fields[] = { ENVIRONMENT, AGENT, LABELS, EXECUTION_FIELDS, { 0 } };
const struct field shape_alone_wish = { .type = FIELD_OBJECT,
                                        .component = "AloneWish",
                                        .fields = alone_wish_fields,
                                        .groups = one_of_both,
                                        .doc = "An execution to start in a new session." };

/* --- workspaces --- */

static const struct field copied_path = { FILE_PATH("PATH", "A file or folder.") };
static const struct field copy_from_fields[] = {
        { .name = "workspace",
          .type = FIELD_TEXT,
          .required = true,
          .pattern = WORKSPACE_ID,
          .pattern_message = "the id of a workspace (s-..., or agent:NAME)",
          .doc = "The workspace to copy from, of the same owner." },
        { .name = "paths",
          .type = FIELD_LIST,
          .required = true,
          .minimum = 1,
          .maximum = WORKSPACE_COPY_PATHS_MAX,
          .item = &copied_path,
          .doc = "The paths to copy." },
        { 0 },
};
static const struct field copy_fields[] = {
        { .name = "from",
          .type = FIELD_OBJECT,
          .required = true,
          .component = "CopyFrom",
          .fields = copy_from_fields,
          .doc = "The paths to copy." },
        { .name = "to",
          .type = FIELD_TEXT,
          .maximum = WORKSPACE_PATH_MAX,
          .pattern = FOLDER,
          .pattern_message = PATH_MESSAGE,
          .plain = plain_path,
          .doc = "The folder to copy into; the workspace itself if left out." },
        { .name = "replace",
          .type = FIELD_BOOLEAN,
          .default_text = "false",
          .doc = "Whether existing files are replaced." },
        { 0 },
};
const struct field shape_copy = { .type = FIELD_OBJECT,
                                  .component = "Copy",
                                  .fields = copy_fields,
                                  .doc = "The paths to copy, and their destination." };

static const struct field ticket_wish_fields[] = {
        { FILE_PATH("path", "The file; the zip of all if left out.") },
        { 0 },
};
const struct field shape_ticket_wish = { .type = FIELD_OBJECT,
                                         .component = "TicketWish",
                                         .fields = ticket_wish_fields,
                                         .doc = "The requested download." };

/* --- queries --- */

#define PREFIX                                                                                          \
        {                                                                                               \
                .name = "prefix", .type = FIELD_TEXT, .maximum = WORKSPACE_PATH_MAX, .pattern = FOLDER, \
                .pattern_message = "what a path can begin with", .plain = plain_prefix,                 \
                .doc = "Only files whose path has this prefix."                                         \
        }

static const char *const statuses[] = { "queued", "starting", "idle", "running", "parked", NULL };
static const struct field status_item = {
        .name = "STATUS", .type = FIELD_TEXT, .choices_text = statuses, .doc = "A status."
};
static const struct field name_item = NAME_TEXT("NAME", "A name.");
static const struct field label_item = {
        .name = "NAME=VALUE",
        .type = FIELD_TEXT,
        .minimum = 1,
        .maximum = 2 * CHECKS_TEXT_MAX + 1,
        .pattern = "[^=\x01-\x1f\x7f]+(=" LINE ")?",
        .pattern_message = "NAME=VALUE, or NAME for any value",
        .doc = "A label.",
};

const struct field shape_page_query[] = { SHAPE_LIMIT(ENGINE_LIST_MAX), SHAPE_CURSOR(NULL), { 0 } };
const struct field shape_sessions_query[] = {
        SHAPE_FILTER_ONE_OF("status", &status_item),
        SHAPE_FILTER_ONE_OF("environment", &name_item),
        SHAPE_FILTER_ONE_OF("agent", &name_item),
        SHAPE_FILTER("label", &label_item, "All of these must fit."),
        SHAPE_LIMIT(ENGINE_LIST_MAX),
        SHAPE_CURSOR("[0-9]+[.]" SESSION_ID),
        { 0 },
};
const struct field shape_history_query[] = { SHAPE_LIMIT(ENGINE_LIST_MAX),
                                             SHAPE_CURSOR("[1-9][0-9]{0,9}"),
                                             { 0 } };
const struct field shape_events_query[] = {
        { .name = "from",
          .type = FIELD_INTEGER,
          .maximum = 9999999999,
          .default_text = "0",
          .doc = "The id of the first event to send." },
        { 0 },
};
const struct field shape_files_query[] = { PREFIX, SHAPE_LIMIT(ENGINE_LIST_MAX), SHAPE_CURSOR(NULL), { 0 } };
const struct field shape_archive_query[] = { PREFIX, { 0 } };

/* --- headers --- */

#define ONCE                       \
        NAME_TEXT(                 \
                "Idempotency-Key", \
                "A repeated request with the same key and body gives the first one's answer, for 24 hours; with another body it is 422.")
#define PREFER                                                                             \
        {                                                                                  \
                .name = "Prefer", .type = FIELD_LIST, .item = &any_text,                   \
                .doc = "`respond-async`: answer 202 at once, without waiting for the end." \
        }
#define TAG "(W/)?\"[^\"\x01-\x20\x7f]*\""
#define TAGS "[*]|" TAG "( *, *" TAG ")*"
#define CONDITION(name_, doc_)                                                                       \
        {                                                                                            \
                .name = (name_), .type = FIELD_TEXT, .minimum = 1, .maximum = 4096, .pattern = TAGS, \
                .pattern_message = "* or entity tags, with commas between them", .doc = (doc_)       \
        }
#define IF_MATCH CONDITION("If-Match", "Only if the file has one of these versions.")
#define IF_NONE_MATCH              \
        CONDITION("If-None-Match", \
                  "Only if the file has none of these versions; `*`: only if the file does not exist.")

const struct field shape_once_headers[] = { ONCE, { 0 } };
const struct field shape_events_headers[] = {
        { .name = "Last-Event-ID",
          .type = FIELD_TEXT,
          .pattern = "[0-9]{1,10}",
          .pattern_message = "the id of an event",
          .doc = "The id of the last event that was read: the stream begins with the next one, "
                 "whatever `from` says." },
        { 0 },
};
const struct field shape_again_headers[] = {
        { .name = "Last-Event-ID",
          .type = FIELD_LIST,
          .item = &any_text,
          .doc = "An id of an earlier stream: the new one begins with `missed`." },
        { 0 },
};
const struct field shape_run_headers[] = { ONCE, PREFER, { 0 } };
const struct field shape_read_headers[] = {
        IF_MATCH,
        IF_NONE_MATCH,
        { .name = "Range",
          .type = FIELD_LIST,
          .item = &any_text,
          .doc = "One range of bytes; an invalid range is ignored." },
        { .name = "If-Range",
          .type = FIELD_LIST,
          .item = &any_text,
          .doc = "The version that the range belongs to: if the file has another, all of it is sent." },
        { 0 },
};
const struct field shape_condition_headers[] = { IF_MATCH, IF_NONE_MATCH, { 0 } };
const struct field shape_owner_header =
        NAME_TEXT("Berth-Owner",
                  "The user that the request is for. Required of a client that acts for users (400), refused "
                  "from any other (403).");

/* --- paths --- */

const struct field shape_path_fields[] = {
        { .name = "id",
          .type = FIELD_TEXT,
          .pattern = SESSION_ID,
          .pattern_message = "an id",
          .doc = "The id of the session, which its workspace has as well." },
        { .name = "n",
          .type = FIELD_INTEGER,
          .minimum = 1,
          .maximum = 9999999999,
          .doc = "The execution's number." },
        NAME_TEXT("name", "The environment's name."),
        { .name = "path",
          .type = FIELD_TEXT,
          .minimum = 1,
          .maximum = 255,
          .pattern = SEGMENT,
          .pattern_message = PATH_MESSAGE,
          .doc = "The file's path: names of at most 255 bytes. Slashes between them stand as they are, `%2F` is refused." },
        { .name = "ticket",
          .type = FIELD_TEXT,
          .pattern = "[0-9a-f]{64}",
          .pattern_message = "a ticket",
          .doc = "The ticket." },
        { 0 },
};
