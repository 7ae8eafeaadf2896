/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands on the host, for a caller: what HTTP and MCP share, and how the Server's `shell` is
 * read.
 */
#ifndef BERTH_BROKER_WORK_APPROVALS_H
#define BERTH_BROKER_WORK_APPROVALS_H

#include "approvals/approvals.h"
#include "broker/auth/config.h"
#include "broker/auth/door.h"
#include "broker/service/sessions.h"
#include "server/server.h"

/* *ret is NULL where the Server does not enable them. `folder`: the state's. `sessions`: whose followers hear of them. */
int broker_approvals_open(const struct broker_config *config, const char *folder,
                          struct broker_sessions *sessions, struct approvals **ret,
                          struct error *err) MUST_USE;

/* The caller, as approvals/ sees it; in the request's arena. */
struct approvals_caller broker_approvals_caller(struct server_request *request,
                                                const struct door_caller *door);

/*
 * The approvals that it follows in /v1/events (enum engine_of): those that a list shows it; 0 for
 * none.
 */
unsigned broker_approvals_followed(struct server_request *request, const struct door_caller *door);

/*
 * `body` is as shape_shell_wish says; `key`: NULL, or approvals_wish.key. *ret is the approval: pending, or `done`, since the end of a trusted one is waited for; still `approved`
 * where the client left, or the server stops.
 */
int broker_approvals_ask(struct server_request *request, const struct approvals_caller *caller,
                         const json_t *body, const char *key, json_t **ret, struct problem *problem) MUST_USE;

/*
 * *ret is one as it is: with `decision_ms`, once it is decided on, for which that long is waited; and where that was waited for and it runs,
 * once it has ended.
 */
int broker_approvals_wait(struct server_request *request, const struct approvals_caller *caller,
                          const char *id, int decision_ms, json_t **ret, struct problem *problem) MUST_USE;

#endif
