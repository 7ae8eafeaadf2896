/* SPDX-License-Identifier: Apache-2.0 */
/* Those of E2B's remote procedures for files that are one request and one answer, in JSON. */
#ifndef BERTH_BROKER_E2B_E2B_FILESYSTEM_H
#define BERTH_BROKER_E2B_E2B_FILESYSTEM_H

#include "server/server.h"

void e2b_filesystem_stat(struct server_request *request);
void e2b_filesystem_list(struct server_request *request);
void e2b_filesystem_make(struct server_request *request);
void e2b_filesystem_move(struct server_request *request);
void e2b_filesystem_remove(struct server_request *request);

#endif
