/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of a workspace over HTTP: listed, read, put, deleted. Bytes are streamed both ways. What a sandbox wrote leaves as an
 * attachment that no browser shows or runs.
 */
#ifndef BERTH_BROKER_FILES_H
#define BERTH_BROKER_FILES_H

#include "server/server.h"

void files_answer_list(struct server_request *request);
void files_answer_get(struct server_request *request);
void files_answer_delete(struct server_request *request);

void files_begin_put(struct server_request *request);
void files_take_put(struct server_request *request, const void *bytes, size_t length);
void files_answer_put(struct server_request *request);
void files_end_put(struct server_request *request);

/* The headers of an answer that is a file of this name. */
void files_add_headers(struct server_request *request, const char *name);

#endif
