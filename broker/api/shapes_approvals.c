/* SPDX-License-Identifier: Apache-2.0 */
/* Commands on the host, as clients ask for them and get them. */
#include "approvals/approvals.h"
#include "broker/api/shapes_parts.h"
#include "sessions/checks.h"

#define APPROVAL_ID "a-[a-z2-7]{26}"

static const char *const statuses[] = { "pending", "approved", "denied", "expired", "done", NULL };
static const char *const outcomes[] = { "ok", "error", "timeout", "killed", "failed", NULL };

/* --- asked --- */

static const struct field word = { .name = "text", .type = FIELD_TEXT, .doc = "Anything." };
static const struct field wish_fields[] = {
        { .name = "agent",
          .type = FIELD_TEXT,
          .required = true,
          .minimum = 1,
          .maximum = CHECKS_TEXT_MAX,
          .doc = "The agent that asks." },
        { .name = "command",
          .type = FIELD_LIST,
          .required = true,
          .minimum = 1,
          .maximum = APPROVALS_WORDS_MAX,
          .item = &word,
          .doc = "The program and its arguments, 32,768 bytes at most. No shell interprets them, "
                 "unless the program is one. A program without a slash is searched in the system's "
                 "folders." },
        { .name = "cwd",
          .type = FIELD_TEXT,
          .required = true,
          .minimum = 1,
          .maximum = 4096,
          .pattern = "/.*",
          .pattern_message = "a folder's path from the root",
          .doc = "The folder that it runs in. Links in it are followed once, now." },
        { .name = "reason",
          .type = FIELD_TEXT,
          .maximum = APPROVALS_REASON_MAX,
          .doc = "The reason, for the person who decides." },
        { .name = "timeoutSeconds",
          .type = FIELD_INTEGER,
          .unit = "seconds",
          .minimum = 1,
          .maximum = APPROVALS_TIMEOUT_MAX,
          .default_text = "300",
          .doc = "The command and all processes that it started are killed then." },
        { 0 },
};
const struct field shape_shell_wish = { .type = FIELD_OBJECT,
                                        .component = "ShellWish",
                                        .fields = wish_fields,
                                        .doc = "A command for the host." };

static const struct field decision_fields[] = {
        { .name = "note",
          .type = FIELD_TEXT,
          .maximum = APPROVALS_REASON_MAX,
          .doc = "A remark, for the client that asked and for the audit log." },
        { 0 },
};
const struct field shape_decision = { .type = FIELD_OBJECT,
                                      .component = "Decision",
                                      .fields = decision_fields,
                                      .doc = "A decision on an approval." };

static const struct field status_item = {
        .name = "STATUS", .type = FIELD_TEXT, .choices_text = statuses, .doc = "A status."
};
static const struct field agent_item = {
        .name = "NAME", .type = FIELD_TEXT, .minimum = 1, .maximum = CHECKS_TEXT_MAX, .doc = "A name."
};

const struct field shape_approvals_query[] = {
        SHAPE_FILTER_ONE_OF("status", &status_item),
        SHAPE_FILTER_ONE_OF("agent", &agent_item),
        SHAPE_LIMIT(APPROVALS_LIST_MAX),
        SHAPE_CURSOR(APPROVAL_ID),
        { 0 },
};
const struct field shape_approval_path = {
        .name = "approval",
        .type = FIELD_TEXT,
        .pattern = APPROVAL_ID,
        .pattern_message = "an id",
        .doc = "The id of the approval.",
};

/* --- answered --- */

#define MEMBER(type_, name_, doc_) .name = (name_), .type = (type_), .required = true, .doc = (doc_)
#define TEXT(name_, doc_) MEMBER(FIELD_TEXT, name_, doc_)
#define TIME(name_, doc_) TEXT(name_, doc_), .format = "date-time"

static const struct field variable_name = { .name = "NAME", .type = FIELD_TEXT, .doc = "A name." };

static const struct field result_fields[] = {
        { TEXT("status",
               "How it ended. `failed`: it did not run, or it is not known how far it came; `detail` says which."),
          .choices_text = outcomes },
        { MEMBER(FIELD_INTEGER, "exitCode", "The command's own exit code; null if something else ended it."),
          .nullable = true },
        { TEXT("detail", "Details, for people."), .nullable = true },
        { .name = "stdout",
          .type = FIELD_OBJECT,
          .component = "Stream",
          .fields = shape_stream_fields,
          .doc = "Standard output. Lists leave it out." },
        { .name = "stderr",
          .type = FIELD_OBJECT,
          .component = "Stream",
          .fields = shape_stream_fields,
          .doc = "Standard error. Lists leave it out." },
        { 0 },
};

static const struct field approval_fields[] = {
        { TEXT("id", "Its id: `a-` and 26 characters.") },
        { TEXT("status", "`pending` waits for a decision, `approved` runs or will run at once, `done` has "
                         "ended: see `result`."),
          .choices_text = statuses },
        { MEMBER(FIELD_LIST, "command", "The command, word by word."), .item = &word },
        { TEXT("cwd", "The folder that it runs in, without links.") },
        { TEXT("program", "The file that runs, without links.") },
        { TEXT("programSha256", "SHA-256 of that file at the time of the request. A changed file "
                                "does not run.") },
        { TEXT("user", "The user of the host that it runs as.") },
        { MEMBER(FIELD_MAP, "variables", "All its environment variables."), .keys = &variable_name,
          .item = &word },
        { TEXT("agent", "The agent that asks.") },
        { TEXT("client", "The client that asks.") },
        { TEXT("owner", "The owner: `REALM/NAME`, `client:NAME` or `uid:N`.") },
        { TEXT("reason", "The reason, in the agent's words."), .nullable = true },
        { MEMBER(FIELD_BOOLEAN, "trusted", "Whether it needed no approval: `shell.trusted` of the Server.") },
        { MEMBER(FIELD_INTEGER, "timeoutSeconds", "The time after which it is killed."), .unit = "seconds" },
        { TIME("askedAt", "The time of the request.") },
        { TIME("expiresAt", "The last time for a decision.") },
        { TEXT("decidedBy", "The client that decided."), .nullable = true },
        { TIME("decidedAt", "The time of the decision."), .nullable = true },
        { TEXT("note", "The decider's note."), .nullable = true },
        { MEMBER(FIELD_OBJECT, "result", "The command's result."), .component = "ShellResult",
          .fields = result_fields, .nullable = true },
        { 0 },
};
const struct field shape_approval = { .type = FIELD_OBJECT,
                                      .component = "Approval",
                                      .fields = approval_fields,
                                      .doc = "A command on the host that an agent has asked for." };
