/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/work/files.h"

#include "base/files.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "broker/request/answers.h"
#include "broker/work/disposition.h"
#include "broker/work/opened.h"
#include "sessions/conditions.h"
#include "sessions/workspace_files.h"
#include "sessions/workspace_tree.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

json_t *files_json(const struct workspace_file *file, const char *path) {
        json_t *json =
                json_checked(json_pack("{s:s, s:I, s:b, s:s}", "path", path, "bytes", (json_int_t)file->bytes,
                                       "executable", file->executable, "etag", file->etag));

        json_put(json, "writtenAt", json_from_time(file->written_ms));
        return json;
}

int files_list(struct opened *opened, const struct workspace_page *page, const struct interrupt *interrupt,
               struct arena *arena, json_t **ret, struct problem *problem) {
        struct workspace_file *files;
        json_t *items;
        size_t count;
        bool more;

        if (workspace_files_list(&opened->workspace, page, interrupt, arena, &files, &count, &more, problem) <
            0)
                return -1;
        items = json_checked(json_array());
        for (size_t i = 0; i < count; i++)
                json_add(items, files_json(&files[i], files[i].path));
        *ret = json_checked(json_pack("{s:o, s:s?}", "items", items, "cursor",
                                      more && count ? files[count - 1].path : NULL));
        return 0;
}

void files_answer_list(struct server_request *request) {
        const struct call *call = call_of(request);
        struct opened opened OPENED_CLEANUP = OPENED_INIT;
        struct workspace_page page;
        struct problem problem;
        json_t *list;

        if (!opened_open(request, request->parameters[0], false, &opened))
                return;
        page = (struct workspace_page){ .prefix = json_text(call->query, "prefix"),
                                        .after = json_text(call->query, "cursor"),
                                        .limit = call_limit(call) };
        if (opened_bring(request, request->parameters[0], &problem) < 0 ||
            files_list(&opened, &page, server_interrupt(request), request->arena, &list, &problem) < 0)
                answers_refusal(request, &problem);
        else
                answers_json(request, 200, list);
}

/* --- reading --- */

void files_add_headers(struct server_request *request, const char *name) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        disposition_write(name, &text);
        server_add_header(request, "Content-Disposition", strbuf_text(&text));
        server_add_header(request, "Content-Security-Policy", "sandbox; default-src 'none'");
}

struct reading {
        int descriptor;
        off_t at;
};

static ssize_t read_file(void *context, struct server_request *request, char *buffer, size_t size) {
        struct reading *reading = context;
        ssize_t count;

        (void)request;
        do
                count = pread(reading->descriptor, buffer, size, reading->at);
        while (count < 0 && errno == EINTR);
        if (count > 0)
                reading->at += count;
        return count;
}

static void end_reading(void *context) {
        struct reading *reading = context;

        close_descriptor(&reading->descriptor);
}

static const char *name_of(const char *path) {
        const char *slash = strrchr(path, '/');

        return slash ? slash + 1 : path;
}

/*
 * RFC 9110, 13.1.5: a range holds for the version that If-Range names, and for no other. Dates name
 * no version here.
 */
static const char *range_of(const struct server_request *request, const char *etag) {
        const char *condition = server_header(request, "If-Range");

        if (server_has_header(request, "If-Range") && (!condition || strcmp(condition, etag) != 0))
                return NULL;
        return server_header(request, "Range");
}

void files_send(struct server_request *request, struct opened *opened, const char *path, int *descriptor,
                const struct workspace_file *file) {
        struct reading *reading = arena_alloc(request->arena, sizeof(*reading));
        struct server_stream stream = { reading, read_file, end_reading, (int64_t)file->bytes };
        uint64_t from = 0, length = file->bytes, at = 0;
        unsigned status = 200;
        struct problem problem;

        switch (range_read(range_of(request, file->etag), file->bytes, &from, &length)) {
        case RANGE_BEHIND:
                server_add_header(request, "Content-Range",
                                  arena_printf(request->arena, "bytes */%" PRIu64, file->bytes));
                (void)problem_set(&problem, PROBLEM_RANGE, "the file has %" PRIu64 " bytes", file->bytes);
                answers_refusal(request, &problem);
                return;
        case RANGE_PART:
                status = 206;
                server_add_header(request, "Content-Range",
                                  arena_printf(request->arena, "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, from,
                                               from + length - 1, file->bytes));
                break;
        case RANGE_WHOLE:
        default:
                from = 0;
                length = file->bytes;
                break;
        }
        /* HEAD gets none of it. */
        if (strcmp(request->method, "HEAD") != 0 &&
            workspace_file_fetch(&opened->workspace, path, file, from, length, descriptor, &at, &problem) <
                    0) {
                answers_refusal(request, &problem);
                return;
        }
        *reading = (struct reading){ *descriptor, (off_t)at };
        *descriptor = -1;
        stream.length = (int64_t)length;
        files_add_headers(request, name_of(path));
        server_answer_stream(request, status, "application/octet-stream", &stream);
}

/* Each stands once at most: the operation's table says so. */
static struct conditions conditions_of(const struct server_request *request) {
        return (struct conditions){ server_header(request, "If-Match"),
                                    server_header(request, "If-None-Match") };
}

static const char *path_of(const struct server_request *request) {
        return workspace_path_plain(request->parameters[1], workspace_roots, request->arena);
}

void files_answer_get(struct server_request *request) {
        struct opened opened OPENED_CLEANUP = OPENED_INIT;
        int descriptor DESCRIPTOR_CLEANUP = -1;
        const struct conditions conditions = conditions_of(request);
        struct workspace_file file;
        struct problem problem;

        if (!opened_open(request, request->parameters[0], false, &opened))
                return;
        if (opened_bring(request, request->parameters[0], &problem) < 0 ||
            workspace_file_look(&opened.workspace, path_of(request), &descriptor, &file, &problem) < 0) {
                answers_refusal(request, &problem);
                return;
        }
        server_add_header(request, "ETag", file.etag);
        server_add_header(request, "Accept-Ranges", "bytes");
        switch (conditions_judge(&conditions, file.etag)) {
        case CONDITIONS_HOLD:
                files_send(request, &opened, path_of(request), &descriptor, &file);
                return;
        case CONDITIONS_MATCHED:
                server_answer(request, 304, "application/octet-stream", "", 0);
                return;
        case CONDITIONS_BAD:
                (void)call_refuse_value(request, "If-Match and If-None-Match take entity tags");
                return;
        case CONDITIONS_FAIL:
        default:
                (void)problem_set(&problem, PROBLEM_CHANGED,
                                  "the file has another version than the request allows");
                answers_refusal(request, &problem);
                return;
        }
}

/* --- putting --- */

struct putting {
        struct opened opened;
        struct workspace_put put;
};

/*
 * A body that is known to be too much is refused before it is sent: a client that expects
 * 100-continue never sends it.
 */
static bool has_room(struct server_request *request, const struct workspace_limits *limits) {
        const char *length = server_header(request, "Content-Length");
        struct problem problem;

        if (!length || !limits->bytes_max || strtoull(length, NULL, 10) <= limits->bytes_max)
                return true;
        (void)workspace_is_full(limits, 0, &problem);
        return call_refuse(request, &problem);
}

void files_begin_put(struct server_request *request) {
        struct putting *putting = arena_alloc(request->arena, sizeof(*putting));
        struct workspace_limits limits;
        const struct conditions conditions = conditions_of(request);
        struct problem problem;

        *putting = (struct putting){ .opened = OPENED_INIT, .put = WORKSPACE_PUT_INIT };
        if (!call_admit(request))
                return;
        call_of(request)->more = putting;
        if (!opened_make(request, request->parameters[0]) ||
            !opened_open(request, request->parameters[0], false, &putting->opened) ||
            !opened_limits(request, &putting->opened, &limits) || !has_room(request, &limits))
                return;
        if (server_has_header(request, "Content-Range")) {
                (void)call_refuse_value(request, "a file is put whole: Content-Range cannot be taken");
                return;
        }
        if (workspace_put_begin(&putting->opened.workspace, path_of(request), &conditions, &limits, NULL,
                                &putting->put, &problem) < 0)
                answers_refusal(request, &problem);
}

void files_take_put(struct server_request *request, const void *bytes, size_t length) {
        struct putting *putting = call_of(request)->more;
        struct problem problem;

        if (workspace_put_write(&putting->put, bytes, length, &problem) < 0)
                answers_refusal(request, &problem);
}

void files_answer_put(struct server_request *request) {
        struct putting *putting = call_of(request)->more;
        char sha256[SHA256_HEX_SIZE];
        struct workspace_file file;
        struct problem problem;
        json_t *json;
        bool made;

        putting->put.interrupt = server_interrupt(request);
        if (workspace_put_finish(&putting->put, &file, sha256, &made, &problem) < 0) {
                answers_refusal(request, &problem);
                return;
        }
        json = files_json(&file, path_of(request));
        json_set_text(json, "sha256", sha256);
        server_add_header(request, "ETag", file.etag);
        answers_json(request, made ? 201 : 200, json);
}

void files_end_put(struct server_request *request) {
        struct putting *putting = call_of(request)->more;

        if (putting) {
                workspace_put_close(&putting->put);
                opened_close(&putting->opened);
        }
        call_end(request);
}

void files_answer_delete(struct server_request *request) {
        struct opened opened OPENED_CLEANUP = OPENED_INIT;
        const struct conditions conditions = conditions_of(request);
        struct problem problem;

        if (!opened_open(request, request->parameters[0], false, &opened))
                return;
        if (workspace_file_delete(&opened.workspace, path_of(request), &conditions, server_interrupt(request),
                                  &problem) < 0)
                answers_refusal(request, &problem);
        else
                answers_nothing(request);
}
