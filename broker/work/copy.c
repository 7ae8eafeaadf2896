/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/work/copy.h"

#include "base/json.h"
#include "sessions/workspace_copy.h"

#include <string.h>

static json_t *copied_json(const struct workspace_changes *changes) {
        json_t *changed = json_checked(json_array()), *skipped = json_checked(json_array());

        for (size_t i = 0; i < changes->changed_count; i++)
                json_add(changed, json_pack("{s:s, s:I, s:s}", "path", changes->changed[i].path, "bytes",
                                            (json_int_t)changes->changed[i].bytes, "sha256",
                                            changes->changed[i].sha256));
        for (size_t i = 0; i < changes->skipped_count; i++)
                json_add(skipped, json_pack("{s:o, s:s}", "path", json_from_text(changes->skipped[i].path),
                                            "reason", changes->skipped[i].reason));
        return json_checked(json_pack("{s:o, s:o, s:o}", "changed", changed, "conflict",
                                      json_from_texts(changes->conflict, changes->conflict_count), "skipped",
                                      skipped));
}

static int read_paths(const json_t *from, struct arena *arena, struct workspace_copying *ret,
                      struct problem *problem) {
        const json_t *list = json_object_get(from, "paths"), *path;
        const char **paths;
        size_t index;

        if (!json_is_array(list) || json_array_size(list) < 1 ||
            json_array_size(list) > WORKSPACE_COPY_PATHS_MAX)
                return problem_set(problem, PROBLEM_INVALID, "from.paths must be a list of 1 to 1000 paths");
        paths = arena_array(arena, json_array_size(list), sizeof(*paths));
        json_array_foreach (list, index, path) {
                if (!json_is_string(path) || strlen(json_string_value(path)) != json_string_length(path))
                        return problem_set(problem, PROBLEM_INVALID, "from.paths must be texts without NUL");
                paths[index] = json_string_value(path);
        }
        ret->paths = paths;
        ret->count = json_array_size(list);
        return 0;
}

int copy_run(struct server_request *request, struct opened *target, const json_t *wish, json_t **ret,
             struct problem *problem) {
        const struct call *call = call_of(request);
        struct opened source OPENED_CLEANUP = OPENED_INIT;
        struct workspace_copying copying = { .to = "", .interrupt = server_interrupt(request) };
        struct workspace_changes changes = { 0 };
        const json_t *from = call_object(wish, "from");

        if (!json_text(from, "workspace") || json_object_size(from) != 2)
                return problem_set(problem, PROBLEM_INVALID, "from must be {workspace, paths}");
        if (read_paths(from, request->arena, &copying, problem) < 0 ||
            opened_find(call, json_text(from, "workspace"), false, request->arena, &source, problem) < 0 ||
            opened_bound(call, target, copying.interrupt, &copying.limits, problem) < 0)
                return -1;
        if (json_text(wish, "to"))
                copying.to = json_text(wish, "to");
        copying.replace = json_is_true(json_object_get(wish, "replace"));
        if (opened_bring(request, json_text(from, "workspace"), problem) < 0 ||
            workspace_copy(&source.workspace, &target->workspace, &copying, request->arena, &changes,
                           problem) < 0)
                return -1;
        *ret = copied_json(&changes);
        return 0;
}
