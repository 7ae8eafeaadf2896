/* SPDX-License-Identifier: Apache-2.0 */
/* Workspaces: what an owner's sessions have left, listed, removed, copied from one to another, and as zips (archive.h). */
#include "broker/api_workspaces.h"

#include "base/json.h"
#include "broker/answers.h"
#include "broker/archive.h"
#include "broker/files.h"
#include "broker/opened.h"
#include "sessions/workspace_copy.h"

#include <string.h>

#define LIST_LIMIT 100
#define COPY_PATHS_MAX 1000

static json_t *workspace_json(const struct workspace_row *row) {
        json_t *json = json_checked(json_pack("{s:s, s:s, s:s, s:s?}", "id", row->id, "owner", row->owner,
                                              "environment", row->environment, "agent", row->agent));

        json_put(json, "createdAt", json_from_time(row->created_ms));
        json_put(json, "sessionUntil", json_from_time(row->lives_until_ms));
        return json;
}

/* Those that the client may not see are passed over, so a page is filled from as many as that takes. */
static int list(const struct call *call, const struct call_query *query, struct arena *arena, json_t *items,
                const char **ret_cursor, struct problem *problem) {
        const struct workspaces *workspaces = broker_sessions_workspaces(call->broker->sessions);
        const char *owner = call->caller.observes ? NULL : call->caller.owner,
                   *after = query->cursor ? query->cursor : "", *last = NULL;
        size_t limit = query->limit ? query->limit : LIST_LIMIT;
        bool more = true;

        *ret_cursor = NULL;
        while (more) {
                struct workspace_row *rows;
                size_t count;

                if (workspace_list(workspaces, owner, after, limit, arena, &rows, &count, &more, problem) < 0)
                        return -1;
                for (size_t i = 0; i < count; i++) {
                        after = rows[i].id;
                        if (!opened_may_see(call, &rows[i]))
                                continue;
                        if (json_array_size(items) == limit) {
                                *ret_cursor = last;
                                return 0;
                        }
                        json_add(items, workspace_json(&rows[i]));
                        last = rows[i].id;
                }
        }
        return 0;
}

static void answer_list(struct server_request *request) {
        const struct call *call = call_of(request);
        json_t *items JSON_CLEANUP = NULL;
        struct call_query query = { 0 };
        struct problem problem;
        const char *cursor;

        if (!call_query(request, &query))
                return;
        /* Who may observe and names no owner sees all; who may not has one. */
        if (!call->caller.observes && !call->caller.owner) {
                (void)call_refuse_value(request, "name the user in the header Berth-Owner");
                return;
        }
        items = json_checked(json_array());
        if (list(call, &query, request->arena, items, &cursor, &problem) < 0)
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
        if (engine_forget(call->engine, &caller, id, &problem) < 0 ||
            workspace_remove(workspaces, caller.owner, id, &problem) < 0)
                answers_refusal(request, &problem);
        else
                answers_nothing(request);
}

/* --- copying --- */

static json_t *copied_json(const struct workspace_changes *changes) {
        json_t *changed = json_checked(json_array()), *skipped = json_checked(json_array());

        for (size_t i = 0; i < changes->changed_count; i++)
                json_add(changed, json_pack("{s:s, s:I, s:s}", "path", changes->changed[i].path, "bytes",
                                            (json_int_t)changes->changed[i].bytes, "sha256",
                                            changes->changed[i].sha256));
        for (size_t i = 0; i < changes->skipped_count; i++)
                json_add(skipped, json_pack("{s:o, s:s}", "path", json_from_text(changes->skipped[i].path),
                                            "reason", changes->skipped[i].reason));
        return json_pack("{s:o, s:o, s:o}", "changed", changed, "conflict",
                         json_from_texts(changes->conflict, changes->conflict_count), "skipped", skipped);
}

static bool read_paths(struct server_request *request, const json_t *from, const char *const **ret,
                       size_t *ret_count) {
        const json_t *list = json_object_get(from, "paths"), *path;
        const char **paths;
        size_t index;

        if (!json_is_array(list) || json_array_size(list) < 1 || json_array_size(list) > COPY_PATHS_MAX)
                return call_refuse_value(request, "from.paths must be a list of 1 to 1000 paths");
        paths = arena_array(request->arena, json_array_size(list), sizeof(*paths));
        json_array_foreach (list, index, path) {
                if (!json_is_string(path) || strlen(json_string_value(path)) != json_string_length(path))
                        return call_refuse_value(request, "from.paths must be texts without NUL");
                paths[index] = json_string_value(path);
        }
        *ret = paths;
        *ret_count = json_array_size(list);
        return true;
}

static void answer_copy(struct server_request *request) {
        static const struct body_member members[] = {
                { "from", JSON_OBJECT }, { "to", JSON_STRING }, { "replace", JSON_TRUE }, { NULL, JSON_NULL }
        };
        struct opened target OPENED_CLEANUP = OPENED_INIT, source OPENED_CLEANUP = OPENED_INIT;
        struct call *call = call_of(request);
        struct workspace_copying copying = { .to = "" };
        struct workspace_changes changes = { 0 };
        const json_t *body, *from;
        struct problem problem;

        if (!opened_open(request, request->parameters[0], false, &target) ||
            !(body = body_object(&call->body, request, members)))
                return;
        from = call_object(body, "from");
        if (!json_text(from, "workspace") || json_object_size(from) != 2) {
                (void)call_refuse_value(request, "from must be {workspace, paths}");
                return;
        }
        if (!read_paths(request, from, &copying.paths, &copying.count) ||
            !opened_open(request, json_text(from, "workspace"), false, &source) ||
            !opened_limits(request, &target, &copying.limits))
                return;
        if (json_text(body, "to"))
                copying.to = json_text(body, "to");
        copying.replace = json_is_true(json_object_get(body, "replace"));
        copying.interrupt = server_interrupt(request);
        if (workspace_copy(&source.workspace, &target.workspace, &copying, request->arena, &changes,
                           &problem) < 0)
                answers_refusal(request, &problem);
        else
                answers_json(request, 200, copied_json(&changes));
}

const struct server_route api_workspaces_routes[] = {
        { .method = "GET",
          .path = "/v1/workspaces",
          .answer = answer_list,
          CALL(BROKER_EXECUTE | BROKER_OBSERVE) },
        { .method = "GET",
          .path = "/v1/workspaces/{id}",
          .answer = answer_show,
          CALL(BROKER_EXECUTE | BROKER_OBSERVE) },
        { .method = "DELETE",
          .path = "/v1/workspaces/{id}",
          .answer = answer_remove,
          CALL(BROKER_EXECUTE | BROKER_ADMINISTER) },
        { .method = "POST",
          .path = "/v1/workspaces/{id}/copy",
          .answer = answer_copy,
          CALL_WITH_JSON(BROKER_EXECUTE) },
        { .method = "GET",
          .path = "/v1/workspaces/{id}/archive",
          .answer = archive_answer,
          CALL(BROKER_EXECUTE) },
        { .method = "GET",
          .path = "/v1/workspaces/{id}/files",
          .answer = files_answer_list,
          CALL(BROKER_EXECUTE) },
        { .method = "GET",
          .path = "/v1/workspaces/{id}/files/{path...}",
          .answer = files_answer_get,
          CALL(BROKER_EXECUTE) },
        { .method = "PUT",
          .path = "/v1/workspaces/{id}/files/{path...}",
          .mark = BROKER_EXECUTE,
          .body_max = CALL_TRANSFER_MAX,
          .begin = files_begin_put,
          .take = files_take_put,
          .answer = files_answer_put,
          .end = files_end_put },
        { .method = "DELETE",
          .path = "/v1/workspaces/{id}/files/{path...}",
          .answer = files_answer_delete,
          CALL(BROKER_EXECUTE) },
};
const size_t api_workspaces_route_count = sizeof(api_workspaces_routes) / sizeof(api_workspaces_routes[0]);
