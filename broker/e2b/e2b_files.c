/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/e2b/e2b_files.h"

#include "base/files.h"
#include "base/json.h"
#include "broker/e2b/e2b_call.h"
#include "broker/request/answers.h"
#include "broker/work/files.h"
#include "broker/work/opened.h"
#include "server/multipart.h"

#include <string.h>

/* False where the request was answered: it names no path of the sandbox's files. */
static bool read_path(struct server_request *request, const char *path, const char **ret) {
        struct problem problem;

        if (!path)
                return call_refuse_value(request, "the request names no path");
        return e2b_call_path(path, request->arena, ret, &problem) == 0 || call_refuse(request, &problem);
}

void e2b_files_answer_get(struct server_request *request) {
        struct opened opened OPENED_CLEANUP = OPENED_INIT;
        int descriptor DESCRIPTOR_CLEANUP = -1;
        struct workspace_file file;
        struct problem problem;
        const char *path = NULL;

        if (!read_path(request, server_query(request, "path"), &path) ||
            !opened_open(request, e2b_call_sandbox(request), false, &opened))
                return;
        if (opened_bring(request, e2b_call_sandbox(request), &problem) < 0 ||
            workspace_file_look(&opened.workspace, path, &descriptor, &file, &problem) < 0)
                answers_refusal(request, &problem);
        else
                files_send(request, &opened, path, &descriptor, &file);
}

/* --- in --- */

struct putting {
        struct opened opened;
        struct workspace_limits limits;
        struct multipart form;
        struct workspace_put put; /* of the part that comes now */
        const char *path;         /* the query's; NULL: each part's filename */
        const char *now;          /* the path of that part */
        json_t *answer;           /* what is there already */
};

static struct putting *of(struct server_request *request) {
        return call_of(request)->more;
}

void e2b_files_begin_put(struct server_request *request) {
        struct putting *putting = arena_alloc(request->arena, sizeof(*putting));
        const char *type = server_header(request, "Content-Type"), *path = server_query(request, "path");
        char boundary[MULTIPART_BOUNDARY_MAX + 1];

        *putting = (struct putting){ .opened = OPENED_INIT, .put = WORKSPACE_PUT_INIT };
        if (!e2b_call_admit_by_access(request))
                return;
        call_of(request)->more = putting;
        putting->answer = json_checked(json_array());
        if (server_has_header(request, "Content-Encoding")) {
                e2b_answer_error(request, 415, "files are not taken compressed: send no Content-Encoding");
        } else if (!body_is_type(request, "multipart/form-data")) {
                e2b_answer_error(request, 415, "send files as Content-Type: multipart/form-data");
        } else if (!multipart_boundary(type, boundary)) {
                (void)call_refuse_value(request, "Content-Type: multipart/form-data has no boundary");
        } else if ((!path || read_path(request, path, &putting->path)) &&
                   opened_open(request, e2b_call_sandbox(request), false, &putting->opened) &&
                   opened_limits(request, &putting->opened, &putting->limits)) {
                multipart_begin(&putting->form, boundary);
        }
}

static bool begin_part(struct server_request *request, struct putting *putting) {
        static const struct conditions none = { NULL, NULL };
        struct problem problem;

        if (strcmp(putting->form.name, "file") != 0)
                return call_refuse_value(request, "each part must be named file");
        if (putting->path && json_array_size(putting->answer) > 0)
                return call_refuse_value(request, "one path can be of one file alone");
        putting->now = putting->path;
        if (!putting->now && !read_path(request, putting->form.filename, &putting->now))
                return false;
        if (workspace_put_begin(&putting->opened.workspace, putting->now, &none, &putting->limits, NULL,
                                &putting->put, &problem) < 0)
                return call_refuse(request, &problem);
        return true;
}

static bool end_part(struct server_request *request, struct putting *putting) {
        const char *slash = strrchr(putting->now, '/');
        struct workspace_file file;
        struct problem problem;

        putting->put.interrupt = server_interrupt(request);
        if (workspace_put_finish(&putting->put, &file, NULL, NULL, &problem) < 0)
                return call_refuse(request, &problem);
        workspace_put_close(&putting->put);
        putting->put = (struct workspace_put)WORKSPACE_PUT_INIT;
        json_add(putting->answer,
                 json_pack("{s:o, s:s, s:o}", "name", json_from_text(slash ? slash + 1 : putting->now),
                           "type", "file", "path",
                           json_from_text(arena_printf(request->arena, E2B_FOLDER "/%s", putting->now))));
        return true;
}

void e2b_files_take_put(struct server_request *request, const void *bytes, size_t length) {
        struct putting *putting = of(request);
        const char *at = bytes;
        bool goes_on = true;

        while (goes_on && length > 0) {
                struct multipart_event event;
                ssize_t used = multipart_take(&putting->form, at, length, &event);
                struct problem problem;

                if (used < 0) {
                        (void)call_refuse_value(request, putting->form.why);
                        return;
                }
                at += used;
                length -= (size_t)used;
                if (event.type == MULTIPART_PART)
                        goes_on = begin_part(request, putting);
                else if (event.type == MULTIPART_DATA)
                        goes_on = workspace_put_write(&putting->put, event.bytes, event.length, &problem) ==
                                          0 ||
                                  call_refuse(request, &problem);
                else if (event.type == MULTIPART_PART_END)
                        goes_on = end_part(request, putting);
        }
}

void e2b_files_answer_put(struct server_request *request) {
        struct putting *putting = of(request);

        if (!multipart_ended(&putting->form))
                (void)call_refuse_value(request, "the body ends before its last boundary");
        else
                answers_json(request, 200, json_incref(putting->answer));
}

void e2b_files_end_put(struct server_request *request) {
        struct putting *putting = call_of(request) ? of(request) : NULL;

        if (putting) {
                workspace_put_close(&putting->put);
                opened_close(&putting->opened);
                json_decref(putting->answer);
        }
        e2b_call_end(request);
}
