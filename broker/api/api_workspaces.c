/* SPDX-License-Identifier: Apache-2.0 */
/* Workspaces: what an owner's sessions have left, listed, removed, copied from one to another, and as zips (archive.h). */
#include "broker/api/api.h"

#include "base/json.h"
#include "base/log.h"
#include "broker/api/shapes.h"
#include "broker/request/answers.h"
#include "broker/work/archive.h"
#include "broker/work/copy.h"
#include "broker/work/files.h"
#include "broker/work/opened.h"

#include <string.h>

static json_t *workspace_json(const struct workspace_row *row) {
        json_t *json = json_checked(json_pack("{s:s, s:s, s:s, s:s?}", "id", row->id, "owner", row->owner,
                                              "environment", row->environment, "agent", row->agent));

        json_put(json, "createdAt", json_from_time(row->created_ms));
        json_put(json, "sessionUntil", json_from_time(row->lives_until_ms));
        return json;
}

/* False: the page is full, and there is another behind it. */
static bool add(json_t *items, const struct workspace_row *row, size_t limit, const char **last) {
        if (json_array_size(items) == limit)
                return false;
        json_add(items, workspace_json(row));
        *last = row->key ? row->key : row->id;
        return true;
}

/*
 * Those that agents have come before those of sessions, by keys that say whose they are as well: several owners may have one of an id.
 * 1: the page is full.
 */
static int list_of_agents(const struct call *call, const char *owner, const char *after, json_t *items,
                          const char **last, struct arena *arena, struct problem *problem) {
        const struct workspaces *workspaces = broker_sessions_workspaces(call->broker->sessions);
        struct workspace_row *rows;
        size_t count;

        if (workspace_list_shared(workspaces, owner, arena, &rows, &count, problem) < 0)
                return -1;
        for (size_t i = 0; i < count; i++) {
                if (strcmp(rows[i].key, after) > 0 && opened_may_see(call, &rows[i]) &&
                    !add(items, &rows[i], call_limit(call), last))
                        return 1;
        }
        return 0;
}

/* Those that the client may not see are passed over, so a page is filled from as many as that takes. */
static int list(const struct call *call, struct arena *arena, json_t *items, const char **ret_cursor,
                struct problem *problem) {
        const struct workspaces *workspaces = broker_sessions_workspaces(call->broker->sessions);
        const char *owner = call->caller.observes ? NULL : call->caller.owner,
                   *after = json_text(call->query, "cursor"), *last = NULL;
        size_t limit = call_limit(call);
        bool more = true;
        int full;

        *ret_cursor = NULL;
        after = after ? after : "";
        full = list_of_agents(call, owner, after, items, &last, arena, problem);
        if (full < 0)
                return -1;
        if (full) {
                *ret_cursor = last;
                return 0;
        }
        after = workspace_agent_of(after) ? "" : after;
        while (more) {
                struct workspace_row *rows;
                size_t count;

                if (workspace_list(workspaces, owner, after, limit, arena, &rows, &count, &more, problem) < 0)
                        return -1;
                for (size_t i = 0; i < count; i++) {
                        after = rows[i].id;
                        if (!opened_may_see(call, &rows[i]))
                                continue;
                        if (!add(items, &rows[i], limit, &last)) {
                                *ret_cursor = last;
                                return 0;
                        }
                }
        }
        return 0;
}

static void answer_list(struct server_request *request) {
        const struct call *call = call_of(request);
        json_t *items JSON_CLEANUP = NULL;
        struct problem problem;
        const char *cursor;

        /* A client that may observe and names no owner sees all; any other client has one. */
        if (!call->caller.observes && !call->caller.owner) {
                (void)call_refuse_value(request, "name the user in the header Berth-Owner");
                return;
        }
        items = json_checked(json_array());
        if (list(call, request->arena, items, &cursor, &problem) < 0)
                answers_refusal(request, &problem);
        else
                answers_json(request, 200, json_pack("{s:O, s:s?}", "items", items, "cursor", cursor));
}

static void answer_show(struct server_request *request) {
        const struct call *call = call_of(request);
        struct opened opened OPENED_CLEANUP = OPENED_INIT;
        struct workspace_usage usage;
        struct problem problem;
        json_t *json;

        if (!opened_open(request, request->parameters[0], call->caller.observes, &opened))
                return;
        if (workspace_measure(&opened.workspace, server_interrupt(request), &usage, &problem) < 0) {
                answers_refusal(request, &problem);
                return;
        }
        json = workspace_json(&opened.row);
        json_put(json, "files", json_integer((json_int_t)usage.files));
        json_put(json, "bytes", json_integer((json_int_t)usage.bytes));
        answers_json(request, 200, json);
}

/* What ran in it is forgotten first: should this end in between, the workspace is still there to be removed again. */
static void answer_remove(struct server_request *request) {
        const struct call *call = call_of(request);
        const struct workspaces *workspaces = broker_sessions_workspaces(call->broker->sessions);
        struct opened opened OPENED_CLEANUP = OPENED_INIT;
        const char *id = request->parameters[0];
        struct engine_caller caller = call->caller;
        struct problem problem;

        if (!opened_open(request, id, call->caller.ends_any, &opened))
                return;
        caller.owner = opened.row.owner;
        /* An agent's is not removed while anybody has it open. */
        workspace_close(&opened.workspace);
        if ((!workspace_agent_of(id) && engine_forget(call->engine, &caller, id, &problem) < 0) ||
            workspace_remove(workspaces, caller.owner, id, &problem) < 0)
                answers_refusal(request, &problem);
        else
                answers_nothing(request);
}

static void answer_copy(struct server_request *request) {
        struct opened target OPENED_CLEANUP = OPENED_INIT;
        struct call *call = call_of(request);
        struct engine_once once;
        struct problem problem;
        const json_t *body;
        json_t *copied = NULL;

        if (!opened_open(request, request->parameters[0], false, &target) ||
            !(body = body_object(&call->body, request)))
                return;
        if (!call_once_begin(request, request->parameters[0], &once))
                return;
        if (copy_run(request, &target, body, &copied, &problem) < 0)
                copied = NULL;
        call_once_end(request, request->parameters[0], &once, 200, copied);
        if (copied)
                answers_json(request, 200, copied);
        else
                answers_refusal(request, &problem);
}

#define WORKSPACES "Workspaces"
#define JSON "application/json"
#define BYTES "application/octet-stream"

static const char *const file_headers[] = { "ETag", "Accept-Ranges", "Content-Disposition", NULL };
static const char *const range_headers[] = { "ETag", "Accept-Ranges", "Content-Disposition", "Content-Range",
                                             NULL };
static const char *const version_headers[] = { "ETag", NULL };

static const struct operation_answer list_answers[] = {
        { .status = 200, .doc = "By id.", .type = JSON, .shape = &shape_workspace, .list = true },
        { 0 },
};
static const struct operation_answer show_answers[] = {
        { .status = 200, .doc = "The workspace.", .type = JSON, .shape = &shape_workspace_shown }, { 0 }
};
static const struct operation_answer nothing_answers[] = { { .status = 204, .doc = "Done." }, { 0 } };
static const struct operation_answer copy_answers[] = {
        { .status = 200, .doc = "The outcome of the copy.", .type = JSON, .shape = &shape_copied }, { 0 }
};
static const struct operation_answer archive_answers[] = {
        { .status = 200, .doc = "The zip.", .type = "application/zip" },
        { 0 },
};
static const struct operation_answer files_answers[] = {
        { .status = 200, .doc = "By path.", .type = JSON, .shape = &shape_file, .list = true },
        { 0 },
};
static const struct operation_answer get_answers[] = {
        { .status = 200, .doc = "The whole file.", .type = BYTES, .headers = file_headers },
        { .status = 206, .doc = "The requested range.", .type = BYTES, .headers = range_headers },
        { .status = 304, .doc = "The file has not changed.", .headers = version_headers },
        { 0 },
};
static const struct operation_answer put_answers[] = {
        { .status = 201,
          .doc = "The file is new.",
          .type = JSON,
          .shape = &shape_file_put,
          .headers = version_headers },
        { .status = 200,
          .doc = "The file was replaced.",
          .type = JSON,
          .shape = &shape_file_put,
          .headers = version_headers },
        { 0 },
};

static const char *const read_problems[] = { "not-found", "workspace-failed", NULL };
static const char *const remove_problems[] = { "not-found", "has-sessions", "busy", "workspace-failed",
                                               NULL };
static const char *const copy_problems[] = { "not-found",
                                             "conflict",
                                             "workspace-failed",
                                             "workspace-full",
                                             "busy",
                                             "idempotency-key-reused",
                                             "idempotency-keys-full",
                                             NULL };
static const char *const get_problems[] = { "not-found", "precondition-failed", "range-not-satisfiable",
                                            "workspace-failed", NULL };
static const char *const put_problems[] = { "not-found",        "conflict",       "precondition-failed",
                                            "workspace-failed", "workspace-full", NULL };
static const char *const delete_problems[] = { "not-found", "conflict", "precondition-failed",
                                               "workspace-failed", NULL };

const struct operation api_workspaces_operations[] = {
        { .route = { .method = "GET",
                     .path = "/v1/workspaces",
                     .answer = answer_list,
                     CALL(BROKER_EXECUTE | BROKER_OBSERVE) },
          .id = "listWorkspaces",
          .tag = WORKSPACES,
          .title = "List workspaces",
          .doc = "The owner's workspaces: those of agents, then those of sessions. Every owner's "
                 "for a client that may observe and names no owner.",
          .query = shape_page_query,
          .answers = list_answers },
        { .route = { .method = "GET",
                     .path = "/v1/workspaces/{id}",
                     .answer = answer_show,
                     CALL(BROKER_EXECUTE | BROKER_OBSERVE) },
          .id = "getWorkspace",
          .tag = WORKSPACES,
          .title = "Get a workspace",
          .doc = "Also `agent:NAME`: the `/workspace` of the agent's containers for the owner. It "
                 "changes as they run.",
          .answers = show_answers,
          .problems = read_problems },
        { .route = { .method = "DELETE",
                     .path = "/v1/workspaces/{id}",
                     .answer = answer_remove,
                     CALL(BROKER_EXECUTE | BROKER_ADMINISTER) },
          .id = "removeWorkspace",
          .tag = WORKSPACES,
          .title = "Delete a workspace",
          .doc = "Deletes the history of its session, too. The session must have ended; for "
                 "`agent:NAME`, the agent's containers.",
          .answers = nothing_answers,
          .problems = remove_problems },
        { .route = { .method = "POST",
                     .path = "/v1/workspaces/{id}/copy",
                     .answer = answer_copy,
                     CALL_WITH_JSON(BROKER_EXECUTE) },
          .id = "copyFiles",
          .tag = WORKSPACES,
          .title = "Copy files from another workspace",
          .doc = "Copies files into this workspace; both must have the same owner.",
          .headers = shape_once_headers,
          .body = &shape_copy,
          .example =
                  "{\"from\": {\"workspace\": \"s-aaaaaaaaaaaaaaaaaaaaaaaaaa\", \"paths\": [\"in/numbers.csv\"]}, \"to\": \"copied\"}",
          .answers = copy_answers,
          .problems = copy_problems },
        { .route = { .method = "GET",
                     .path = "/v1/workspaces/{id}/archive",
                     .answer = archive_answer,
                     CALL(BROKER_EXECUTE) },
          .id = "getArchive",
          .tag = WORKSPACES,
          .title = "Download a workspace as a zip",
          .doc = "Files over the policy's `maxDownloadFileMB` are left out, and named in its `LEFT-OUT.txt`.",
          .query = shape_archive_query,
          .answers = archive_answers,
          .problems = read_problems },
        { .route = { .method = "GET",
                     .path = "/v1/workspaces/{id}/files",
                     .answer = files_answer_list,
                     CALL(BROKER_EXECUTE) },
          .id = "listFiles",
          .tag = WORKSPACES,
          .title = "List a workspace's files",
          .query = shape_files_query,
          .answers = files_answers,
          .problems = read_problems },
        { .route = { .method = "GET",
                     .path = "/v1/workspaces/{id}/files/{path...}",
                     .answer = files_answer_get,
                     CALL(BROKER_EXECUTE) },
          .id = "getFile",
          .tag = WORKSPACES,
          .title = "Download a file",
          .doc = "Sent as an attachment: no browser shows or runs a file that an agent wrote.",
          .headers = shape_read_headers,
          .head_too = true,
          .answers = get_answers,
          .problems = get_problems },
        { .route = { .method = "PUT",
                     .path = "/v1/workspaces/{id}/files/{path...}",
                     .mark = BROKER_EXECUTE,
                     .body_max = CALL_TRANSFER_MAX,
                     .begin = files_begin_put,
                     .take = files_take_put,
                     .answer = files_answer_put,
                     .end = files_end_put },
          .id = "putFile",
          .tag = WORKSPACES,
          .title = "Upload a file",
          .doc = "Writes the whole file or nothing; the file is in the sandbox before the next "
                 "execution begins. The workspace `agent:NAME` is created if it does not exist.",
          .headers = shape_condition_headers,
          .body_type = BYTES,
          .answers = put_answers,
          .problems = put_problems },
        { .route = { .method = "DELETE",
                     .path = "/v1/workspaces/{id}/files/{path...}",
                     .answer = files_answer_delete,
                     CALL(BROKER_EXECUTE) },
          .id = "deleteFile",
          .tag = WORKSPACES,
          .title = "Delete a file",
          .headers = shape_condition_headers,
          .answers = nothing_answers,
          .problems = delete_problems },
};
const size_t api_workspaces_operation_count =
        sizeof(api_workspaces_operations) / sizeof(api_workspaces_operations[0]);
