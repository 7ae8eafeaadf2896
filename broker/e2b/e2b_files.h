/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a sandbox, in and out: those of its session's workspace, put by the same functions as those of the API (files.h). */
#ifndef BERTH_BROKER_E2B_E2B_FILES_H
#define BERTH_BROKER_E2B_E2B_FILES_H

#include "server/server.h"

void e2b_files_answer_get(struct server_request *request);

void e2b_files_begin_put(struct server_request *request);
void e2b_files_take_put(struct server_request *request, const void *bytes, size_t length);
void e2b_files_answer_put(struct server_request *request);
void e2b_files_end_put(struct server_request *request);

#endif
