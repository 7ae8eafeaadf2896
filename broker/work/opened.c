/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/work/opened.h"

#include "base/clock.h"
#include "broker/request/answers.h"

#include <poll.h>

#define BRING_MS 30000

bool opened_may_see(const struct call *call, const struct workspace_row *row) {
        return door_lists(call->door.environments, row->environment) &&
               (!row->agent || door_lists(call->door.agents, row->agent));
}

int opened_find(const struct call *call, const char *id, bool any_owner, struct arena *arena,
                struct opened *ret, struct problem *problem) {
        const struct workspaces *workspaces = broker_sessions_workspaces(call->broker->sessions);
        struct opened opened OPENED_CLEANUP = OPENED_INIT;
        int result = any_owner
                             ? workspace_open_any(workspaces, id, &opened.workspace, problem)
                             : workspace_open(workspaces, call->caller.owner, id, &opened.workspace, problem);

        if (result < 0 || workspace_describe(&opened.workspace, arena, &opened.row, problem) < 0)
                return -1;
        if (!opened_may_see(call, &opened.row))
                return workspace_not_found(problem);
        *ret = opened;
        opened = (struct opened)OPENED_INIT;
        return 0;
}

bool opened_open(struct server_request *request, const char *id, bool any_owner, struct opened *ret) {
        struct problem problem;

        return opened_find(call_of(request), id, any_owner, request->arena, ret, &problem) == 0 ||
               call_refuse(request, &problem);
}

/* As containers_create(): what the client may not use is not there. */
bool opened_make(struct server_request *request, const char *id) {
        const struct call *call = call_of(request);
        const struct workspaces *workspaces = broker_sessions_workspaces(call->broker->sessions);
        const char *name = workspace_agent_of(id);
        struct catalog_agent agent;
        struct problem problem;
        struct error err;
        int found;

        if (!name)
                return true;
        found = broker_sessions_agent(call->broker->sessions, name, request->arena, &agent, &err);
        if (found < 0)
                (void)problem_from_error(&problem, PROBLEM_STORE_FAILED, &err);
        else if (found == 0 || !agent.in_service || !agent.environment ||
                 !door_lists(call->door.agents, name) ||
                 !door_lists(call->door.environments, agent.environment))
                (void)workspace_not_found(&problem);
        else if (workspace_make_shared(workspaces, call->caller.owner, name, agent.environment, &problem) ==
                 0)
                return true;
        return call_refuse(request, &problem);
}

void opened_close(struct opened *opened) {
        workspace_close(&opened->workspace);
}

int opened_bring(struct server_request *request, const char *id, struct problem *problem) {
        const struct call *call = call_of(request);
        int64_t until_ms = clock_now_ms() + BRING_MS, left_ms;
        struct engine_follower *follower;
        struct engine_event ignored;
        enum server_wait waited = SERVER_READY;

        if (engine_bring_files(call->engine, &call->caller, id, &follower, problem) < 0)
                return -1;
        while (follower && waited == SERVER_READY &&
               engine_follower_next(follower, &ignored) != ENGINE_ENDED) {
                left_ms = until_ms - clock_now_ms();
                waited = server_wait(request, engine_follower_descriptor(follower), POLLIN,
                                     left_ms > 0 ? (int)left_ms : 0);
        }
        engine_follower_close(follower);
        return 0;
}

int opened_bound(const struct call *call, const struct opened *opened, const struct interrupt *interrupt,
                 struct workspace_limits *ret, struct problem *problem) {
        return broker_sessions_limits(call->broker->sessions, opened->row.owner, &opened->row, interrupt, ret,
                                      problem);
}

bool opened_limits(struct server_request *request, const struct opened *opened,
                   struct workspace_limits *ret) {
        struct problem problem;

        return opened_bound(call_of(request), opened, server_interrupt(request), ret, &problem) == 0 ||
               call_refuse(request, &problem);
}
