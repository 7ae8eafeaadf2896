/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sandboxes of E2B's API. `metadata` are the session's labels, `timeout` is its end: ttlSeconds is set so that it ends then, and
 * idleSeconds to the most there is. One that is paused is parked, and has no end but the session's: 14 days from its start.
 */
#ifndef BERTH_BROKER_E2B_SANDBOXES_H
#define BERTH_BROKER_E2B_SANDBOXES_H

#include "server/server.h"

void e2b_sandboxes_create(struct server_request *request);
void e2b_sandboxes_list(struct server_request *request);
void e2b_sandboxes_show(struct server_request *request);
void e2b_sandboxes_connect(struct server_request *request);
void e2b_sandboxes_set_timeout(struct server_request *request);
void e2b_sandboxes_pause(struct server_request *request);
void e2b_sandboxes_kill(struct server_request *request);

#endif
