/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands on the host over HTTP: the rights to ask and decide are checked here, all else by
 * approvals/.
 */
#include "broker/api/api.h"

#include "approvals/approvals.h"
#include "base/json.h"
#include "broker/api/shapes.h"
#include "broker/request/answers.h"
#include "broker/request/call.h"
#include "broker/work/approvals.h"

#include <string.h>

/* The request was let in, and the Server enables it. */
static void begin(struct server_request *request) {
        if (call_admit(request) && !call_of(request)->broker->approvals)
                answers_refuse(request, "no-shell", "the Server does not enable commands on the host");
}

#define OF_APPROVALS(rights) .mark = (rights), .begin = begin, .end = call_end
#define OF_APPROVALS_WITH_JSON(rights) OF_APPROVALS(rights), .body_max = BODY_MAX, .take = call_take

/* --- asked --- */

static void answer_shell(struct server_request *request) {
        struct call *call = call_of(request);
        struct approvals_caller caller = broker_approvals_caller(request, &call->door);
        struct engine_once once;
        struct problem problem;
        const json_t *body;
        json_t *approval;
        unsigned status;

        if (!(body = body_object(&call->body, request)) || !call_once_begin(request, "shell", &once))
                return;
        if (broker_approvals_ask(request, &caller, body, once.key, &approval, &problem) < 0) {
                call_once_end(request, "shell", &once, 0, NULL);
                answers_refusal(request, &problem);
                return;
        }
        status = strcmp(json_text(approval, "status"), "done") == 0 ? 200 : 202;
        call_once_end(request, "shell", &once, status, approval);
        answers_json(request, status, approval);
}

/* --- decided --- */

static void decide(struct server_request *request, bool approve) {
        struct call *call = call_of(request);
        const struct approvals_caller caller = broker_approvals_caller(request, &call->door);
        const json_t *body = body_object(&call->body, request);
        struct approvals_decision decision;
        struct problem problem;
        json_t *approval;

        if (!body)
                return;
        decision = (struct approvals_decision){ request->parameters[0], approve, json_text(body, "note") };
        if (approvals_decide(call->broker->approvals, &caller, &decision, &approval, &problem) < 0)
                answers_refusal(request, &problem);
        else
                answers_json(request, 200, approval);
}

static void answer_approve(struct server_request *request) {
        decide(request, true);
}

static void answer_deny(struct server_request *request) {
        decide(request, false);
}

/* --- seen --- */

static void answer_approval(struct server_request *request) {
        struct call *call = call_of(request);
        const struct approvals_caller caller = broker_approvals_caller(request, &call->door);
        struct problem problem;
        json_t *approval;

        if (approvals_show(call->broker->approvals, &caller, request->parameters[0], &approval, &problem) < 0)
                answers_refusal(request, &problem);
        else
                answers_json(request, 200, approval);
}

static void answer_list(struct server_request *request) {
        struct call *call = call_of(request);
        const struct approvals_caller caller = broker_approvals_caller(request, &call->door);
        const struct approvals_filter filter = { .statuses = call_texts(request, "status"),
                                                 .agents = call_texts(request, "agent"),
                                                 .limit = call_limit(call),
                                                 .cursor = json_text(call->query, "cursor") };
        struct problem problem;
        json_t *list;

        if (approvals_list(call->broker->approvals, &caller, &filter, &list, &problem) < 0)
                answers_refusal(request, &problem);
        else
                answers_json(request, 200, list);
}

/* --- the rows --- */

#define JSON "application/json"
#define SHELL "Commands on the host"

static const struct operation_answer shell_answers[] = {
        { .status = 202, .doc = "The command waits for a decision.", .type = JSON, .shape = &shape_approval },
        { .status = 200,
          .doc = "The command is trusted, and has run.",
          .type = JSON,
          .shape = &shape_approval },
        { 0 },
};
static const struct operation_answer approval_answers[] = {
        { .status = 200, .doc = "The approval.", .type = JSON, .shape = &shape_approval }, { 0 }
};
static const struct operation_answer list_answers[] = { { .status = 200,
                                                          .doc = "Approvals, newest first.",
                                                          .type = JSON,
                                                          .shape = &shape_approval,
                                                          .list = true },
                                                        { 0 } };

static const char *const shell_problems[] = { "unknown-agent",
                                              "agent-out-of-service",
                                              "idempotency-key-reused",
                                              "idempotency-keys-full",
                                              "busy",
                                              "conflict",
                                              "too-large",
                                              "owner-limit",
                                              "server-limit",
                                              "no-shell",
                                              "workspace-full",
                                              NULL };
static const char *const list_problems[] = { "no-shell", NULL };
static const char *const found_problems[] = { "not-found", "no-shell", NULL };
static const char *const decide_problems[] = { "not-found",    "not-allowed", "conflict", "store-failed",
                                               "server-limit", "no-shell",    NULL };

#define SEES (BROKER_SHELL | BROKER_APPROVE | BROKER_OBSERVE)

const struct operation api_approvals_operations[] = {
        { .route = { .method = "POST",
                     .path = "/v1/shell",
                     .answer = answer_shell,
                     OF_APPROVALS_WITH_JSON(BROKER_SHELL) },
          .id = "askForCommand",
          .tag = SHELL,
          .title = "Request a command on the host",
          .doc = "The command runs once a person has approved it: exactly these words, in this "
                 "folder, with the program's file as it is now. A command that the Server trusts "
                 "runs at once, and the answer waits for its end.",
          .headers = shape_once_headers,
          .body = &shape_shell_wish,
          .example =
                  "{\"agent\": \"analyst\", \"command\": [\"df\", \"-h\"], \"cwd\": \"/\", \"reason\": \"The upload failed.\"}",
          .answers = shell_answers,
          .problems = shell_problems },
        { .route = { .method = "GET", .path = "/v1/approvals", .answer = answer_list, OF_APPROVALS(SEES) },
          .needs = OPERATION_NEEDS_CLIENT,
          .id = "listApprovals",
          .tag = SHELL,
          .title = "List approvals",
          .doc = "The owner's approvals; every owner's for a client that may approve or observe and"
                 " names no owner. Ended ones stay for seven days.",
          .query = shape_approvals_query,
          .answers = list_answers,
          .problems = list_problems },
        { .route = { .method = "GET",
                     .path = "/v1/approvals/{approval}",
                     .answer = answer_approval,
                     OF_APPROVALS(SEES) },
          .needs = OPERATION_NEEDS_CLIENT,
          .id = "getApproval",
          .tag = SHELL,
          .title = "Get an approval",
          .answers = approval_answers,
          .problems = found_problems },
        { .route = { .method = "POST",
                     .path = "/v1/approvals/{approval}/approve",
                     .answer = answer_approve,
                     OF_APPROVALS_WITH_JSON(BROKER_APPROVE) },
          .needs = OPERATION_NEEDS_CLIENT,
          .id = "approve",
          .tag = SHELL,
          .title = "Approve a command",
          .doc = "The command begins, once. The client that asked for it may not approve it; a second decision is refused.",
          .body = &shape_decision,
          .answers = approval_answers,
          .problems = decide_problems },
        { .route = { .method = "POST",
                     .path = "/v1/approvals/{approval}/deny",
                     .answer = answer_deny,
                     OF_APPROVALS_WITH_JSON(BROKER_APPROVE) },
          .needs = OPERATION_NEEDS_CLIENT,
          .id = "deny",
          .tag = SHELL,
          .title = "Deny a command",
          .doc = "The command never runs.",
          .body = &shape_decision,
          .answers = approval_answers,
          .problems = decide_problems },
};
const size_t api_approvals_operation_count =
        sizeof(api_approvals_operations) / sizeof(api_approvals_operations[0]);
