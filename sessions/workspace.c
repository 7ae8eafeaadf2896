/* SPDX-License-Identifier: Apache-2.0 */
/* What is the same wherever workspaces lie; the rest is passed to their body. */
#include "sessions/workspace.h"

#include "base/files.h"
#include "sessions/workspace_body.h"
#include "sessions/workspace_local.h"

#include <inttypes.h>
#include <string.h>

int workspace_not_found(struct problem *problem) {
        return problem_set(problem, PROBLEM_NOT_FOUND, "there is no such workspace");
}

bool workspace_is_id(const char *id) {
        size_t length = strlen(id);

        return length > 0 && length <= WORKSPACE_ID_MAX &&
               strspn(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") == length;
}

int workspace_create(const struct workspaces *workspaces, const struct workspace_row *row,
                     struct problem *problem) {
        if (!workspace_is_id(row->id) || !row->owner || !row->owner[0] ||
            strlen(row->owner) > WORKSPACE_OWNER_MAX || !row->environment)
                return problem_set(problem, PROBLEM_INVALID,
                                   "a workspace has an id, an owner and an environment");
        return workspace_body_of(workspaces)->create(workspaces, row, problem);
}

const char *workspace_agent_of(const char *id) {
        const size_t length = strlen(WORKSPACE_OF_AGENT);

        return strncmp(id, WORKSPACE_OF_AGENT, length) == 0 ? id + length : NULL;
}

static int open_shared(const struct workspaces *workspaces, const char *owner, const char *id,
                       struct workspace *ret, struct problem *problem) {
        const struct workspace_shared *shared = workspaces->shared;
        int folder DESCRIPTOR_CLEANUP = -1;

        if (!shared || !owner || strlen(id) > WORKSPACE_ID_MAX)
                return workspace_not_found(problem);
        if (shared->open(shared->context, owner, workspace_agent_of(id), &folder, problem) < 0)
                return -1;
        return workspace_local_open_shared(workspaces, folder, owner, id, ret, problem);
}

/* Of any owner where it is NULL. */
static int open_workspace(const struct workspaces *workspaces, const char *owner, const char *id,
                          struct workspace *ret, struct problem *problem) {
        if (workspace_agent_of(id))
                return open_shared(workspaces, owner, id, ret, problem);
        return workspace_is_id(id) ? workspace_body_of(workspaces)->open(workspaces, owner, id, ret, problem)
                                   : workspace_not_found(problem);
}

int workspace_open(const struct workspaces *workspaces, const char *owner, const char *id,
                   struct workspace *ret, struct problem *problem) {
        return owner ? open_workspace(workspaces, owner, id, ret, problem) : workspace_not_found(problem);
}

int workspace_open_any(const struct workspaces *workspaces, const char *id, struct workspace *ret,
                       struct problem *problem) {
        return open_workspace(workspaces, NULL, id, ret, problem);
}

int workspace_make_shared(const struct workspaces *workspaces, const char *owner, const char *agent,
                          const char *environment, struct problem *problem) {
        const struct workspace_shared *shared = workspaces->shared;

        return shared ? shared->make(shared->context, owner, agent, environment, problem)
                      : workspace_not_found(problem);
}

void workspace_close(struct workspace *workspace) {
        if (workspace->body)
                workspace->body->close(workspace);
        workspace->body = NULL;
}

int workspace_describe(const struct workspace *workspace, struct arena *arena, struct workspace_row *ret,
                       struct problem *problem) {
        return workspace->body->describe(workspace, arena, ret, problem);
}

int workspace_set_life(struct workspace *workspace, int64_t lives_until_ms, struct problem *problem) {
        return workspace->body->set_life(workspace, lives_until_ms, problem);
}

int workspace_list(const struct workspaces *workspaces, const char *owner, const char *after, size_t limit,
                   struct arena *arena, struct workspace_row **ret, size_t *ret_count, bool *ret_more,
                   struct problem *problem) {
        return workspace_body_of(workspaces)
                ->list(workspaces, owner, after, limit, arena, ret, ret_count, ret_more, problem);
}

int workspace_list_shared(const struct workspaces *workspaces, const char *owner, struct arena *arena,
                          struct workspace_row **ret, size_t *ret_count, struct problem *problem) {
        const struct workspace_shared *shared = workspaces->shared;

        if (shared)
                return shared->list(shared->context, owner, arena, ret, ret_count, problem);
        *ret = NULL;
        *ret_count = 0;
        return 0;
}

int workspace_remove(const struct workspaces *workspaces, const char *owner, const char *id,
                     struct problem *problem) {
        const struct workspace_shared *shared = workspaces->shared;

        if (owner && shared && workspace_agent_of(id))
                return shared->remove(shared->context, owner, workspace_agent_of(id), problem);
        return owner && workspace_is_id(id)
                       ? workspace_body_of(workspaces)->remove(workspaces, owner, id, problem)
                       : workspace_not_found(problem);
}

int workspace_recover(const struct workspaces *workspaces, struct problem *problem) {
        return workspace_body_of(workspaces)->recover(workspaces, problem);
}

int workspace_measure(struct workspace *workspace, const struct interrupt *interrupt,
                      struct workspace_usage *ret, struct problem *problem) {
        return workspace->body->measure(workspace, interrupt, ret, problem);
}

int workspace_set_history(struct workspace *workspace, uint64_t bytes, struct problem *problem) {
        return workspace->body->set_history(workspace, bytes, problem);
}

int workspace_is_full(const struct workspace_limits *limits, uint64_t bytes, struct problem *problem) {
        if (limits->owner_max)
                return problem_set(problem, PROBLEM_WORKSPACE_FULL,
                                   "the owner's workspaces may hold %" PRIu64
                                   " bytes together, and would hold more",
                                   limits->owner_max);
        return problem_set(problem, PROBLEM_WORKSPACE_FULL,
                           "the workspace may hold %" PRIu64 " bytes, and has %" PRIu64, limits->bytes_max,
                           bytes);
}

int workspace_has_many(const struct workspace_limits *limits, struct problem *problem) {
        return problem_set(problem, PROBLEM_WORKSPACE_FULL,
                           "the workspace may hold %" PRIu64 " files and folders", limits->files_max);
}

int workspace_check_free(const struct workspace *workspace, const struct workspace_limits *limits,
                         uint64_t more, struct problem *problem) {
        return limits->free_min ? workspace->body->check_free(workspace, limits, more, problem) : 0;
}
