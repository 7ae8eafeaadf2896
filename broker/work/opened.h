/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One workspace, opened for the caller. A workspace that the caller may not see is answered like
 * one that never was, in the same words, whatever else is wrong with the request.
 */
#ifndef BERTH_BROKER_WORK_OPENED_H
#define BERTH_BROKER_WORK_OPENED_H

#include "broker/request/call.h"
#include "sessions/workspace.h"

struct opened {
        struct workspace workspace;
        struct workspace_row row; /* in the request's arena */
};
#define OPENED_INIT \
        { .workspace = WORKSPACE_INIT }

/* `any_owner`: whose it is does not matter. */
int opened_find(const struct call *call, const char *id, bool any_owner, struct arena *arena,
                struct opened *ret, struct problem *problem) MUST_USE;
/* The same, and false where the request was answered with the problem. */
bool opened_open(struct server_request *request, const char *id, bool any_owner, struct opened *ret) MUST_USE;
/*
 * Before an upload: a missing workspace of an agent that is in service (workspace_shared) is made.
 */
bool opened_make(struct server_request *request, const char *id) MUST_USE;
/* Whether the caller may have it in a list. */
bool opened_may_see(const struct call *call, const struct workspace_row *row);
void opened_close(struct opened *opened);
#define OPENED_CLEANUP __attribute__((cleanup(opened_close)))

/*
 * Before its files are read: what processes have written which executions of its session left behind is brought into it. As far as that
 * takes no longer than some seconds.
 */
int opened_bring(struct server_request *request, const char *id, struct problem *problem) MUST_USE;

/* Its limits. The second answers the request where it is false. */
int opened_bound(const struct call *call, const struct opened *opened, const struct interrupt *interrupt,
                 struct workspace_limits *ret, struct problem *problem) MUST_USE;
bool opened_limits(struct server_request *request, const struct opened *opened,
                   struct workspace_limits *ret) MUST_USE;

#endif
