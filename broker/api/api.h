/* SPDX-License-Identifier: Apache-2.0 */
/* The operations, by what they are about. Their server's context is a struct broker (broker.h). */
#ifndef BERTH_BROKER_API_API_H
#define BERTH_BROKER_API_API_H

#include "broker/request/operation.h"

extern const struct operation api_operations[]; /* the server, what was applied */
extern const size_t api_operation_count;
extern const struct operation api_sessions_operations[]; /* sessions, executions */
extern const size_t api_sessions_operation_count;
extern const struct operation api_containers_operations[];
extern const size_t api_containers_operation_count;
extern const struct operation
        api_sandboxes_operations[]; /* sessions and containers in one list; what a container uses */
extern const size_t api_sandboxes_operation_count;
extern const struct operation api_approvals_operations[]; /* commands on the host */
extern const size_t api_approvals_operation_count;
extern const struct operation api_workspaces_operations[];
extern const size_t api_workspaces_operation_count;
extern const struct operation api_downloads_operations[]; /* by a browser, which sends no token (tickets.h) */
extern const size_t api_downloads_operation_count;

/* What a parameter of a path means, by its name in it. */
const struct field *api_path_field(const char *name);

/*
 * The rows that are served, in the order in which they are told: a loop ends where it returns NULL. *at is 0 at first. Without sessions
 * theirs are left out.
 */
const struct operation *api_next(size_t *at, bool with_sessions);

#endif
