/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/mcp/mcp_containers.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "broker/work/container_logs.h"

#include <poll.h>

#define STOPPING_MS (CONTAINERS_STOP_MS + 20000) /* what a stop may take, until it is told as it is */

static struct containers *containers_of(const struct mcp_call *call) {
        return broker_sessions_containers(call->call->broker->sessions);
}

int mcp_containers_run(const struct mcp_call *call, const json_t *arguments, struct mcp_answer *ret,
                       struct problem *problem) {
        const json_t *code = json_object_get(arguments, "code"),
                     *variables = json_object_get(arguments, "variables");
        const struct container_wish wish = { .agent = json_text(arguments, "agent"),
                                             .name = json_text(arguments, "name"),
                                             .service = true,
                                             .command = json_object_get(arguments, "command"),
                                             .code = json_string_value(code),
                                             .code_length = json_string_length(code),
                                             .language = json_text(arguments, "language"),
                                             .variables = json_is_object(variables) ? variables : NULL,
                                             .restart = json_text(arguments, "restart") };

        return containers_create(containers_of(call), &call->caller, &wish, &ret->data, problem);
}

int mcp_containers_list(const struct mcp_call *call, const json_t *arguments, struct mcp_answer *ret,
                        struct problem *problem) {
        const char *agents[] = { json_text(arguments, "agent"), NULL };
        const char *statuses[] = { json_text(arguments, "status"), NULL };
        const struct container_filter filter = { .agents = agents[0] ? agents : NULL,
                                                 .statuses = statuses[0] ? statuses : NULL,
                                                 .limit = (size_t)json_integer_or(arguments, "limit", 0),
                                                 .cursor = json_text(arguments, "cursor") };

        return containers_list(containers_of(call), &call->caller, &filter, &ret->data, problem);
}

int mcp_containers_logs(const struct mcp_call *call, const json_t *arguments, struct mcp_answer *ret,
                        struct problem *problem) {
        const char *id = json_text(arguments, "container"), *since = json_text(arguments, "since");
        const struct container_logs wanted = { .tail = json_integer_or(arguments, "tail", MCP_LOG_LINES),
                                               .since_ms = since ? clock_parse(since) : 0 };
        struct container_watch *watch;

        if (wanted.since_ms < 0)
                return problem_set(problem, PROBLEM_INVALID, "since is no time");
        if (container_watch_open(containers_of(call), &call->caller, id, &watch, problem) < 0)
                return -1;
        ret->data = json_checked(json_pack("{s:s}", "container", id));
        container_logs_add_lines(watch, &wanted, MCP_LOG_BYTES, ret->data);
        container_watch_close(watch);
        return 0;
}

/* Waits for its end: what is answered is what it has come to, or that it still runs. */
int mcp_containers_stop(const struct mcp_call *call, const json_t *arguments, struct mcp_answer *ret,
                        struct problem *problem) {
        const char *id = json_text(arguments, "container");
        int64_t until_ms = clock_now_ms() + STOPPING_MS, left_ms = STOPPING_MS;
        struct container_watch *watch;
        json_t *begun;
        int result;

        if (container_watch_open(containers_of(call), &call->caller, id, &watch, problem) < 0)
                return -1;
        if (containers_order(containers_of(call), &call->caller, id, CONTAINER_STOP, &begun, problem) < 0) {
                container_watch_close(watch);
                return -1;
        }
        json_decref(begun);
        for (;;) {
                container_watch_calm(watch);
                left_ms = until_ms - clock_now_ms();
                if (container_watch_is_over(watch) || left_ms <= 0)
                        break;
                switch (server_wait(call->request, container_watch_descriptor(watch), POLLIN, (int)left_ms)) {
                case SERVER_LEFT:
                case SERVER_STOPS:
                        left_ms = 0;
                        break;
                case SERVER_TIME:
                case SERVER_READY:
                default:
                        break;
                }
                if (left_ms <= 0)
                        break;
        }
        result = containers_show(containers_of(call), &call->caller, id, &ret->data, problem);
        container_watch_close(watch);
        return result;
}
