/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/opened.h"

#include "broker/answers.h"

bool opened_may_see(const struct call *call, const struct workspace_row *row) {
        return door_lists(call->door.environments, row->environment) &&
               (!row->agent || door_lists(call->door.agents, row->agent));
}

static int open_for(const struct call *call, const char *id, bool any_owner, struct arena *arena,
                    struct opened *ret, struct problem *problem) {
        const struct workspaces *workspaces = broker_sessions_workspaces(call->broker->sessions);
        int result = any_owner ? workspace_open_any(workspaces, id, &ret->workspace, problem)
                               : workspace_open(workspaces, call->caller.owner, id, &ret->workspace, problem);

        if (result < 0 || workspace_describe(&ret->workspace, arena, &ret->row, problem) < 0)
                return -1;
        return opened_may_see(call, &ret->row) ? 0 : workspace_not_found(problem);
}

bool opened_open(struct server_request *request, const char *id, bool any_owner, struct opened *ret) {
        struct opened opened OPENED_CLEANUP = OPENED_INIT;
        struct problem problem;

        if (open_for(call_of(request), id, any_owner, request->arena, &opened, &problem) < 0)
                return call_refuse(request, &problem);
        *ret = opened;
        opened = (struct opened)OPENED_INIT;
        return true;
}

void opened_close(struct opened *opened) {
        workspace_close(&opened->workspace);
}

bool opened_limits(struct server_request *request, const struct opened *opened,
                   struct workspace_limits *ret) {
        const struct call *call = call_of(request);
        struct problem problem;

        if (broker_sessions_limits(call->broker->sessions, opened->row.owner, &opened->row,
                                   server_interrupt(request), ret, &problem) < 0)
                return call_refuse(request, &problem);
        return true;
}
