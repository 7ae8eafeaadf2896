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
          .doc = "The program and what it is given, 32,768 bytes at most. No shell is between, unless it is the program. A program without a "
                 "slash is looked for in the system's folders." },
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
          .doc = "Why, for whoever decides." },
        { .name = "timeoutSeconds",
          .type = FIELD_INTEGER,
          .unit = "seconds",
          .minimum = 1,
          .maximum = APPROVALS_TIMEOUT_MAX,
          .default_text = "300",
          .doc = "It is killed then, with all that it has started." },
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
          .doc = "A remark, for who asked and for the audit log." },
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
               "How it ended. `failed`: it did not run, or nobody knows how far it came; `detail` says which."),
          .choices_text = outcomes },
        { MEMBER(FIELD_INTEGER, "exitCode", "Its own; null where something else ended it."),
          .nullable = true },
        { TEXT("detail", "More, for people."), .nullable = true },
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
        { TEXT("status",
               "`pending` waits for a decision, `approved` runs or is about to, `done` has come to its end: `result`."),
          .choices_text = statuses },
        { MEMBER(FIELD_LIST, "command", "What runs, word by word."), .item = &word },
        { TEXT("cwd", "The folder that it runs in, without links.") },
        { TEXT("program", "The file that runs, without links.") },
        { TEXT("programSha256", "Of that file, as it was when it was asked for. Another one does not run.") },
        { TEXT("user", "The user of the host as whom it runs.") },
        { MEMBER(FIELD_MAP, "variables", "All its environment variables."), .keys = &variable_name,
          .item = &word },
        { TEXT("agent", "The agent that asks.") },
        { TEXT("client", "The client that asks.") },
        { TEXT("owner", "For whom: `REALM/NAME`, `client:NAME` or `uid:N`.") },
        { TEXT("reason", "Why, in the agent's words."), .nullable = true },
        { MEMBER(FIELD_BOOLEAN, "trusted", "Whether it needed no approval: `shell.trusted` of the Server.") },
        { MEMBER(FIELD_INTEGER, "timeoutSeconds", "After which it is killed."), .unit = "seconds" },
        { TIME("askedAt", "When it was asked for.") },
        { TIME("expiresAt", "Until when it can be decided on.") },
        { TEXT("decidedBy", "The client that decided."), .nullable = true },
        { TIME("decidedAt", "When it did."), .nullable = true },
        { TEXT("note", "What it said with that."), .nullable = true },
        { MEMBER(FIELD_OBJECT, "result", "What it came to."), .component = "ShellResult",
          .fields = result_fields, .nullable = true },
        { 0 },
};
const struct field shape_approval = { .type = FIELD_OBJECT,
                                      .component = "Approval",
                                      .fields = approval_fields,
                                      .doc = "A command on the host that an agent has asked for." };
