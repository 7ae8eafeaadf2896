/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sandboxes of E2B's API. `metadata` are the session's labels, `timeout` is its end: ttlSeconds is
 * set so that it ends then, and idleSeconds to the most there is. A paused one is parked, and has
 * no end but the session's: 14 days from its start.
 */
#ifndef BERTH_BROKER_E2B_E2B_SANDBOXES_H
#define BERTH_BROKER_E2B_E2B_SANDBOXES_H

#include "broker/service/applied.h"
#include "server/server.h"

#include <jansson.h>

void e2b_sandboxes_create(struct server_request *request);
void e2b_sandboxes_show(struct server_request *request);
void e2b_sandboxes_connect(struct server_request *request);
/* As connect, of a paused sandbox only. */
void e2b_sandboxes_resume(struct server_request *request);
void e2b_sandboxes_set_timeout(struct server_request *request);
void e2b_sandboxes_pause(struct server_request *request);
void e2b_sandboxes_kill(struct server_request *request);

/*
 * The applied environments, in the request's arena: answers about a sandbox have their memory and
 * storage.
 */
struct e2b_environments {
        struct applied_environment *items;
        size_t count;
};

/* False where the request was answered: the state cannot be read. */
bool e2b_sandboxes_environments(struct server_request *request, struct e2b_environments *ret);
/* A session as E2B's API tells of a sandbox: a new reference. */
json_t *e2b_sandboxes_info(const json_t *session, const struct e2b_environments *environments);

#endif
