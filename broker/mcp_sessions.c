/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/mcp_sessions.h"

#include "base/json.h"
#include "base/log.h"
#include "base/strbuf.h"

#define NAMES_MAX ((size_t)1000) /* bytes of names, which a model reads with each list of tools */

int mcp_sessions_list(const struct mcp_call *call, const json_t *arguments, struct mcp_answer *ret,
                      struct problem *problem) {
        const char *environments[] = { json_text(arguments, "environment"), NULL };
        const char *agents[] = { json_text(arguments, "agent"), NULL };
        const struct engine_filter filter = { .environments = environments[0] ? environments : NULL,
                                              .agents = agents[0] ? agents : NULL,
                                              .limit = (size_t)json_integer_or(arguments, "limit", 0),
                                              .cursor = json_text(arguments, "cursor") };

        return engine_list(call->call->engine, &call->caller, &filter, &ret->data, problem);
}

int mcp_sessions_end(const struct mcp_call *call, const json_t *arguments, struct mcp_answer *ret,
                     struct problem *problem) {
        const char *id = json_text(arguments, "session");

        if (engine_end(call->call->engine, &call->caller, id, problem) < 0)
                return -1;
        ret->data = json_pack("{s:s, s:b}", "session", id, "ended", 1);
        return 0;
}

int mcp_sessions_environments(const struct mcp_call *call, const char **ret, size_t *ret_count,
                              struct problem *problem) {
        struct strbuf names STRBUF_CLEANUP = STRBUF_INIT;
        struct applied_environment *environments;
        struct error err;
        size_t count, found = 0;

        if (applied_environments(call->call->broker->applied, call->request->arena, &environments, &count,
                                 &err) < 0) {
                log_error("/mcp: %s", err.message);
                return problem_set(problem, PROBLEM_STORE_FAILED,
                                   "the state cannot be read: the server's log says why");
        }
        for (size_t i = 0; i < count; i++) {
                if (!door_lists(call->call->door.environments, environments[i].name))
                        continue;
                if (names.length < NAMES_MAX)
                        strbuf_printf(&names, "%s%s", found ? ", " : "", environments[i].name);
                else if (i + 1 == count)
                        strbuf_append(&names, ", ...");
                found++;
        }
        *ret = arena_strdup(call->request->arena, strbuf_text(&names));
        *ret_count = found;
        return 0;
}
