/* SPDX-License-Identifier: Apache-2.0 */
/* One row a code: clients rely on the names and numbers, so a row may be added and never changed. */
#include "sessions/problem.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct row {
        const char *name;
        unsigned status;
        const char *title, *remedy;
} rows[PROBLEM_CODE_COUNT] = {
        [PROBLEM_NONE] = { "none", 200, "nothing is wrong", NULL },
        [PROBLEM_INVALID] = { "invalid", 400, "a value cannot be taken", NULL },
        [PROBLEM_NOT_FOUND] = { "not-found", 404, "no such resource", NULL },
        [PROBLEM_NOT_ALLOWED] = { "not-allowed", 403, "another client must do that", NULL },
        [PROBLEM_UNKNOWN_ENVIRONMENT] = { "unknown-environment", 404, "no such environment was applied",
                                          "GET /v1/environments lists the applied ones" },
        [PROBLEM_UNKNOWN_AGENT] = { "unknown-agent", 404, "no such agent was applied",
                                    "GET /v1/agents lists the applied ones" },
        [PROBLEM_AGENT_OUT_OF_SERVICE] = { "agent-out-of-service", 409, "the agent is out of service",
                                           "activate it in its manifest, or put it back by berth reassociate" },
        [PROBLEM_NOT_RUNNING] = { "not-running", 409, "the execution has ended", NULL },
        [PROBLEM_BUSY] = { "busy", 409, "the session is running something",
                           "wait for it to end, or interrupt it" },
        [PROBLEM_HAS_SESSIONS] = { "has-sessions", 409, "living sessions use it", "end them first" },
        [PROBLEM_CONFLICT] = { "conflict", 409, "another resource already exists there", NULL },
        [PROBLEM_CHANGED] = { "precondition-failed", 412,
                              "the resource differs from what the request expects",
                              "read it again, and decide again" },
        [PROBLEM_TOO_LARGE] = { "too-large", 413, "the request is too large", NULL },
        [PROBLEM_RANGE] = { "range-not-satisfiable", 416, "the file ends before the range begins", NULL },
        [PROBLEM_KEY_REUSED] = { "idempotency-key-reused", 422, "the key belongs to another request",
                                 "use a new Idempotency-Key for each new request" },
        [PROBLEM_QUEUE_FULL] = { "queue-full", 429, "too many executions wait in this session",
                                 "wait for one of them to end" },
        [PROBLEM_OWNER_LIMIT] = { "owner-limit", 429, "the owner's limit of sessions is reached",
                                  "end a session" },
        [PROBLEM_SERVER_LIMIT] = { "server-limit", 429, "the server's limit of sessions is reached",
                                   "try again later" },
        [PROBLEM_AGENT_LIMIT] = { "agent-limit", 429, "the agent's limit is reached",
                                  "end one of its sessions, or try again later" },
        [PROBLEM_KEYS_FULL] = { "idempotency-keys-full", 429,
                                "the owner's limit of Idempotency-Keys is reached",
                                "send the request without a key, or wait as long as Retry-After says" },
        [PROBLEM_ENVIRONMENT_UNFIT] = { "environment-unfit", 409, "the environment cannot have sessions",
                                        "change the environment, or the server's file, as the detail says" },
        [PROBLEM_STORE_FAILED] = { "store-failed", 500, "the server's records cannot be used", NULL },
        [PROBLEM_WORKSPACE_FAILED] = { "workspace-failed", 500, "the workspace's files cannot be used",
                                       NULL },
        [PROBLEM_PLACE_FAILED] = { "place-failed", 503, "the sandbox cannot be started", "try again later" },
        [PROBLEM_EXHAUSTED] = { "exhausted", 503, "the server has no descriptor or thread left",
                                "try again later" },
        [PROBLEM_STOPPING] = { "stopping", 503, "the server is stopping", "try again later" },
        [PROBLEM_WORKSPACE_FULL] = { "workspace-full", 507, "the workspace is full",
                                     "delete files, or workspaces that are not needed any more" },
};

/* Where the problem itself does not say: about as long as one of the kind takes to pass. */
static const int64_t usual_retry_seconds[PROBLEM_CODE_COUNT] = {
        [PROBLEM_QUEUE_FULL] = 1,  [PROBLEM_OWNER_LIMIT] = 10, [PROBLEM_SERVER_LIMIT] = 10,
        [PROBLEM_AGENT_LIMIT] = 5, [PROBLEM_EXHAUSTED] = 1,    [PROBLEM_KEYS_FULL] = 3600,
};

const char *problem_name(enum problem_code code) {
        return rows[code].name;
}

unsigned problem_status(enum problem_code code) {
        return rows[code].status;
}

const char *problem_title(enum problem_code code) {
        return rows[code].title;
}

const char *problem_remedy(enum problem_code code) {
        return rows[code].remedy;
}

int64_t problem_retry_seconds(const struct problem *problem) {
        return problem->retry_seconds ? problem->retry_seconds : usual_retry_seconds[problem->code];
}

int problem_set(struct problem *problem, enum problem_code code, const char *format, ...) {
        struct problem made = { .code = code };
        va_list arguments;

        va_start(arguments, format);
        vsnprintf(made.detail, sizeof(made.detail), format, arguments);
        va_end(arguments);
        *problem = made;
        return -1;
}

int problem_from_error(struct problem *problem, enum problem_code code, const struct error *err) {
        return problem_set(problem, code, "%s", err->message);
}

int problem_from_errno(struct problem *problem, const char *what) {
        return problem_set(problem,
                           errno == ENOSPC || errno == EDQUOT ? PROBLEM_WORKSPACE_FULL
                                                              : PROBLEM_WORKSPACE_FAILED,
                           "cannot %s: %s", what, strerror(errno));
}
