/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One workspace, opened for who calls. What he may not see is answered as what never was, in the same words, whatever else is
 * wrong with the request.
 */
#ifndef BERTH_BROKER_OPENED_H
#define BERTH_BROKER_OPENED_H

#include "broker/call.h"
#include "sessions/workspace.h"

struct opened {
        struct workspace workspace;
        struct workspace_row row; /* in the request's arena */
};
#define OPENED_INIT \
        { .workspace = WORKSPACE_INIT }

/* False where the request was answered. `any_owner`: whose it is does not matter. */
bool opened_open(struct server_request *request, const char *id, bool any_owner, struct opened *ret) MUST_USE;
/* Whether the caller may have it in a list. */
bool opened_may_see(const struct call *call, const struct workspace_row *row);
void opened_close(struct opened *opened);
#define OPENED_CLEANUP __attribute__((cleanup(opened_close)))

/* What it may hold. */
bool opened_limits(struct server_request *request, const struct opened *opened,
                   struct workspace_limits *ret) MUST_USE;

#endif
