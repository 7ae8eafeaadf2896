/* SPDX-License-Identifier: Apache-2.0 */
/* Code that E2B's SDK runs in a sandbox: an execution of the session, told as lines of JSON. */
#ifndef BERTH_BROKER_E2B_E2B_RUN_H
#define BERTH_BROKER_E2B_E2B_RUN_H

#include "server/server.h"

void e2b_run_answer(struct server_request *request);

#endif
