/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/work/inputs.h"

#include "base/json.h"
#include "broker/request/answers.h"
#include "broker/request/base64.h"
#include "sessions/workspace_tree.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool begin_stage(struct inputs *inputs, struct server_request *request, const char *session) {
        struct workspace_limits limits;
        struct problem problem;

        if (inputs->stage.paths)
                return true;
        if (!opened_open(request, session, false, &inputs->opened) ||
            !opened_limits(request, &inputs->opened, &limits))
                return false;
        return workspace_stage_begin(&inputs->opened.workspace, &limits, &inputs->stage, &problem) == 0 ||
               call_refuse(request, &problem);
}

bool inputs_begin(struct inputs *inputs, struct server_request *request, const char *session) {
        const char *type = server_header(request, "Content-Type"),
                   *length = server_header(request, "Content-Length");
        char boundary[MULTIPART_BOUNDARY_MAX + 1];

        if (!body_is_type(request, "multipart/form-data"))
                return !length || strtoull(length, NULL, 10) <= BODY_MAX || body_refuse_size(request);
        if (!multipart_boundary(type, boundary))
                return call_refuse_value(request, "Content-Type: multipart/form-data has no boundary");
        inputs->form = arena_alloc(request->arena, sizeof(*inputs->form));
        multipart_begin(inputs->form, boundary);
        return begin_stage(inputs, request, session);
}

static bool take_event(struct inputs *inputs, struct server_request *request,
                       const struct multipart_event *event) {
        const char *name = inputs->form->name;
        struct call *call = call_of(request);
        struct problem problem;
        int result = 0;

        if (event->type == MULTIPART_PART) {
                inputs->in_request = !inputs->had_request;
                if (inputs->in_request && strcmp(name, "request") != 0)
                        return call_refuse_value(request,
                                                 "the first part must be named request, and be JSON");
                if (!inputs->in_request)
                        result = workspace_stage_file(
                                &inputs->stage, workspace_path_plain(name, workspace_roots, request->arena),
                                &problem);
                inputs->had_request = true;
        } else if (event->type == MULTIPART_DATA && inputs->in_request) {
                return body_take(&call->body, request, event->bytes, event->length);
        } else if (event->type == MULTIPART_DATA) {
                result = workspace_stage_write(&inputs->stage, event->bytes, event->length, &problem);
        }
        return result == 0 || call_refuse(request, &problem);
}

bool inputs_take(struct inputs *inputs, struct server_request *request, const void *bytes, size_t length) {
        const char *at = bytes;

        if (!inputs->form)
                return body_take(&call_of(request)->body, request, bytes, length);
        while (length > 0) {
                struct multipart_event event;
                ssize_t used = multipart_take(inputs->form, at, length, &event);

                if (used < 0)
                        return call_refuse_value(request, inputs->form->why);
                at += used;
                length -= (size_t)used;
                if (!take_event(inputs, request, &event))
                        return false;
        }
        return true;
}

const json_t *inputs_object(struct inputs *inputs, struct server_request *request) {
        struct call *call = call_of(request);

        if (!inputs->form)
                return body_object(&call->body, request);
        if (!multipart_ended(inputs->form)) {
                (void)call_refuse_value(request, "the body ends before its last boundary");
                return NULL;
        }
        return body_read(&call->body, request);
}

static int write_staged(void *context, const void *bytes, size_t length, struct problem *problem) {
        return workspace_stage_write(context, bytes, length, problem);
}

static bool take_file(struct inputs *inputs, struct server_request *request, const json_t *file) {
        const json_t *text = json_object_get(file, "content"),
                     *base64 = json_object_get(file, "contentBase64");
        struct problem problem;

        if (workspace_stage_file(&inputs->stage, json_text(file, "path"), &problem) < 0)
                return call_refuse(request, &problem);
        if (json_is_string(base64))
                return base64_write(json_string_value(base64), json_string_length(base64), write_staged,
                                    &inputs->stage, &problem) == 0 ||
                       call_refuse(request, &problem);
        return workspace_stage_write(&inputs->stage, json_string_value(text), json_string_length(text),
                                     &problem) == 0 ||
               call_refuse(request, &problem);
}

bool inputs_finish(struct inputs *inputs, struct server_request *request, const char *session,
                   const json_t *files, const char **ret) {
        const char *asked = call_of(request)->body.hash, *both;
        char sha256[SHA256_HEX_SIZE] = "";
        struct problem problem;
        const json_t *file;
        size_t index;

        *ret = NULL;
        if (json_array_size(files) > 0 && !begin_stage(inputs, request, session))
                return false;
        json_array_foreach (files, index, file) {
                if (!take_file(inputs, request, file))
                        return false;
        }
        if (json_array_size(inputs->stage.paths) > 0) {
                if (workspace_stage_finish(&inputs->stage, sha256, &problem) < 0)
                        return call_refuse(request, &problem);
                *ret = inputs->stage.name;
        }
        both = arena_printf(request->arena, "%s%s", asked, sha256);
        digest_sha256_hex(both, strlen(both), inputs->hash);
        return true;
}

void inputs_keep(struct inputs *inputs) {
        inputs->stage.kept = true;
}

void inputs_end(struct inputs *inputs) {
        workspace_stage_close(&inputs->stage);
        opened_close(&inputs->opened);
}
