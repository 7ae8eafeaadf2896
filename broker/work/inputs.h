/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that come with an execution: in JSON, as texts or base64, or as parts of multipart/form-data, which go to the disk as they
 * come. They wait beside the workspace until the execution begins (sessions/workspace_stage.h).
 */
#ifndef BERTH_BROKER_WORK_INPUTS_H
#define BERTH_BROKER_WORK_INPUTS_H

#include "broker/work/opened.h"
#include "server/multipart.h"
#include "sessions/workspace_stage.h"

struct inputs {
        struct opened opened;
        struct workspace_stage stage;
        struct multipart *form; /* NULL: the body is JSON */
        bool in_request, had_request;
        char hash[SHA256_HEX_SIZE]; /* of the request and its files, once they are all there */
};
#define INPUTS_INIT \
        { .opened = OPENED_INIT, .stage = WORKSPACE_STAGE_INIT }

/* Each is false where the request was answered; `session` is the caller's. */
bool inputs_begin(struct inputs *inputs, struct server_request *request, const char *session) MUST_USE;
bool inputs_take(struct inputs *inputs, struct server_request *request, const void *bytes,
                 size_t length) MUST_USE;
/* The object that says what is asked; NULL where the request was answered. */
const json_t *inputs_object(struct inputs *inputs, struct server_request *request);
/* Takes in the list `files` of JSON; *ret is what the engine is given, or NULL. */
bool inputs_finish(struct inputs *inputs, struct server_request *request, const char *session,
                   const json_t *files, const char **ret) MUST_USE;
/* The engine has them now. */
void inputs_keep(struct inputs *inputs);
void inputs_end(struct inputs *inputs);

#endif
