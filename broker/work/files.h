/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of a workspace over HTTP: listed, read, put, deleted. Bytes are streamed both ways. What a sandbox wrote leaves as an
 * attachment that no browser shows or runs.
 */
#ifndef BERTH_BROKER_WORK_FILES_H
#define BERTH_BROKER_WORK_FILES_H

#include "broker/work/opened.h"
#include "server/server.h"
#include "sessions/workspace_files.h"

#include <jansson.h>

void files_answer_list(struct server_request *request);
void files_answer_get(struct server_request *request);
void files_answer_delete(struct server_request *request);

void files_begin_put(struct server_request *request);
void files_take_put(struct server_request *request, const void *bytes, size_t length);
void files_answer_put(struct server_request *request);
void files_end_put(struct server_request *request);

/* One file as lists and answers tell it; {items, cursor} of a page. New references. */
json_t *files_json(const struct workspace_file *file, const char *path);
int files_list(struct opened *opened, const struct workspace_page *page, const struct interrupt *interrupt,
               struct arena *arena, json_t **ret, struct problem *problem) MUST_USE;

/*
 * Answers with the file that workspace_file_look() has found, or the part of it that Range asks for. Takes the descriptor over where it is
 * sent; it is -1 then. `path` names the download.
 */
void files_send(struct server_request *request, struct opened *opened, const char *path, int *descriptor,
                const struct workspace_file *file);

/* The headers of an answer that is a file of this name. */
void files_add_headers(struct server_request *request, const char *name);

#endif
