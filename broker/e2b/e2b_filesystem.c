/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/e2b/e2b_filesystem.h"

#include "base/json.h"
#include "broker/e2b/e2b_call.h"
#include "broker/request/answers.h"
#include "broker/work/opened.h"
#include "sessions/workspace_folders.h"

#include <string.h>

#define FILE_MODE 0644
#define EXECUTABLE_MODE 0755

static json_t *entry_json(const struct workspace_place *place, struct arena *arena) {
        const char *slash = strrchr(place->path, '/');
        const char *name = !*place->path ? &E2B_FOLDER[1] : slash ? slash + 1 : place->path;
        json_t *json = json_checked(json_object());

        json_set_text(json, "name", name);
        json_set_text(json, "type", place->folder ? "FILE_TYPE_DIRECTORY" : "FILE_TYPE_FILE");
        json_set_text(json, "path",
                      *place->path ? arena_printf(arena, E2B_FOLDER "/%s", place->path) : E2B_FOLDER);
        /* 64 bits are texts in the JSON of protocol buffers. */
        json_set_text(json, "size", arena_printf(arena, "%llu", (unsigned long long)place->bytes));
        json_put(json, "mode", json_integer(place->executable ? EXECUTABLE_MODE : FILE_MODE));
        json_set_text(json, "permissions",
                      place->folder       ? "drwxr-xr-x"
                      : place->executable ? "-rwxr-xr-x"
                                          : "-rw-r--r--");
        json_set_text(json, "owner", "user");
        json_set_text(json, "group", "user");
        if (place->written_ms > 0)
                json_put(json, "modifiedTime", json_from_time(place->written_ms));
        return json;
}

/* What a procedure is asked, and the workspace that it is about. */
struct asked {
        const json_t *body;
        const char *path, *other;
        struct opened opened;
};

static void asked_close(struct asked *asked) {
        opened_close(&asked->opened);
}
#define ASKED_CLEANUP __attribute__((cleanup(asked_close)))

static bool read_path(struct server_request *request, const json_t *body, const char *name, bool found,
                      const char **ret) {
        const char *path = json_text(body, name);
        struct problem problem;

        if (e2b_call_path(path, request->arena, ret, &problem) == 0)
                return true;
        /* A path elsewhere does not exist, for a mere look. */
        if (found && *path == '/')
                problem.code = PROBLEM_NOT_FOUND;
        return call_refuse(request, &problem);
}

/* False where the request was answered. `looks`: it changes nothing. */
static bool begin(struct server_request *request, const struct e2b_member *members, bool looks,
                  struct asked *ret) {
        struct problem problem;

        *ret = (struct asked){ .body = e2b_call_body(request, members), .opened = OPENED_INIT };
        if (!ret->body || !read_path(request, ret->body, members[0].name, looks, &ret->path) ||
            !opened_open(request, e2b_call_sandbox(request), false, &ret->opened))
                return false;
        return opened_bring(request, e2b_call_sandbox(request), &problem) == 0 ||
               call_refuse(request, &problem);
}

static const struct e2b_member path_members[] = {
        { "path", JSON_STRING, true },
        { "depth", JSON_INTEGER, false },
        { NULL, JSON_NULL, false },
};

static void answer_entry(struct server_request *request, struct asked *asked, const char *path) {
        struct workspace_place place;
        struct problem problem;

        if (workspace_place_look(&asked->opened.workspace, path, &place, &problem) < 0)
                answers_refusal(request, &problem);
        else
                answers_json(request, 200, json_pack("{s:o}", "entry", entry_json(&place, request->arena)));
}

void e2b_filesystem_stat(struct server_request *request) {
        struct asked asked ASKED_CLEANUP = { .opened = OPENED_INIT };

        if (begin(request, path_members, true, &asked))
                answer_entry(request, &asked, asked.path);
}

void e2b_filesystem_list(struct server_request *request) {
        struct asked asked ASKED_CLEANUP = { .opened = OPENED_INIT };
        struct workspace_place *places;
        struct problem problem;
        json_int_t depth;
        json_t *entries;
        size_t count;

        if (!begin(request, path_members, true, &asked))
                return;
        depth = json_integer_or(asked.body, "depth", 1);
        if (depth < 0 || depth > UINT16_MAX) {
                (void)call_refuse_value(request, "depth must be 1 to 65535");
                return;
        }
        if (workspace_places_list(&asked.opened.workspace, asked.path, depth ? (unsigned)depth : 1,
                                  server_interrupt(request), request->arena, &places, &count, &problem) < 0) {
                answers_refusal(request, &problem);
                return;
        }
        entries = json_checked(json_array());
        for (size_t i = 0; i < count; i++)
                json_add(entries, entry_json(&places[i], request->arena));
        answers_json(request, 200, json_pack("{s:o}", "entries", entries));
}

void e2b_filesystem_make(struct server_request *request) {
        struct asked asked ASKED_CLEANUP = { .opened = OPENED_INIT };
        struct workspace_limits limits;
        struct problem problem;

        if (!begin(request, path_members, false, &asked) || !opened_limits(request, &asked.opened, &limits))
                return;
        if (!*asked.path)
                e2b_answer_error(request, 409, "the folder already exists");
        else if (workspace_folder_create(&asked.opened.workspace, asked.path, &limits,
                                         server_interrupt(request), &problem) < 0)
                answers_refusal(request, &problem);
        else
                answer_entry(request, &asked, asked.path);
}

void e2b_filesystem_move(struct server_request *request) {
        static const struct e2b_member members[] = {
                { "source", JSON_STRING, true },
                { "destination", JSON_STRING, true },
                { NULL, JSON_NULL, false },
        };
        struct asked asked ASKED_CLEANUP = { .opened = OPENED_INIT };
        struct workspace_limits limits;
        struct problem problem;

        if (!begin(request, members, false, &asked) ||
            !read_path(request, asked.body, "destination", false, &asked.other) ||
            !opened_limits(request, &asked.opened, &limits))
                return;
        if (workspace_place_move(&asked.opened.workspace, asked.path, asked.other, &limits,
                                 server_interrupt(request), &problem) < 0)
                answers_refusal(request, &problem);
        else
                answer_entry(request, &asked, asked.other);
}

void e2b_filesystem_remove(struct server_request *request) {
        struct asked asked ASKED_CLEANUP = { .opened = OPENED_INIT };
        struct problem problem;

        if (!begin(request, path_members, false, &asked))
                return;
        if (workspace_place_remove(&asked.opened.workspace, asked.path, server_interrupt(request), &problem) <
            0)
                answers_refusal(request, &problem);
        else
                answers_json(request, 200, json_object());
}
