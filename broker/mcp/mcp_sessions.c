/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/mcp/mcp_sessions.h"

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
        const char *id;

        if (mcp_sessions_named(call, arguments, &id, problem) < 0 ||
            engine_end(call->call->engine, &call->caller, id, problem) < 0)
                return -1;
        ret->data = json_pack("{s:s, s:b}", "session", id, "ended", 1);
        return 0;
}

/* --- which session a call names --- */

/* The living session of the conversation, or NULL. */
static int find_conversation(const struct mcp_call *call, const char *conversation, const char **ret,
                             struct problem *problem) {
        const struct engine_filter filter = { .conversation = conversation, .limit = 2 };
        json_t *list JSON_CLEANUP = NULL;
        const json_t *items;

        if (engine_list(call->call->engine, &call->caller, &filter, &list, problem) < 0)
                return -1;
        items = json_object_get(list, "items");
        if (json_array_size(items) > 1)
                return problem_set(
                        problem, PROBLEM_INVALID,
                        "the conversation %s has a session in each of several environments: give session_id",
                        conversation);
        *ret = json_array_size(items) == 1
                       ? arena_strdup(call->request->arena, json_text(json_array_get(items, 0), "id"))
                       : NULL;
        return 0;
}

static const char *conversation_of(const struct mcp_call *call, const json_t *arguments) {
        const char *conversation = json_text(arguments, "conversation");

        return conversation ? conversation : call->conversation;
}

/* An id wins over the header, which stands with each call; beside an argument it would be a second answer to one question. */
static int find_named(const struct mcp_call *call, const json_t *arguments, const char **ret,
                      struct problem *problem) {
        const char *id = json_text(arguments, "session_id");

        *ret = id;
        if (id && json_text(arguments, "conversation"))
                return problem_set(problem, PROBLEM_INVALID,
                                   "session_id and conversation both name a session: give one of them");
        return id || !conversation_of(call, arguments)
                       ? 0
                       : find_conversation(call, conversation_of(call, arguments), ret, problem);
}

int mcp_sessions_named(const struct mcp_call *call, const json_t *arguments, const char **ret,
                       struct problem *problem) {
        if (find_named(call, arguments, ret, problem) < 0)
                return -1;
        if (*ret)
                return 0;
        if (!conversation_of(call, arguments))
                return problem_set(problem, PROBLEM_INVALID, "give session_id or conversation");
        return problem_set(
                problem, PROBLEM_NOT_FOUND,
                "no session of the conversation %.256s lives: run_code makes one; files of an ended "
                "session are found by its session_id",
                conversation_of(call, arguments));
}

static int find_environment(const struct mcp_call *call, const char **ret, struct problem *problem) {
        const char *names = "";
        size_t count = 0;

        if (mcp_sessions_environments(call, &names, &count, problem) < 0)
                return -1;
        if (count != 1)
                return problem_set(problem, PROBLEM_INVALID,
                                   count ? "name the environment: there are %s"
                                         : "no environment was applied yet%s",
                                   names);
        *ret = names;
        return 0;
}

int mcp_sessions_open(const struct mcp_call *call, const json_t *arguments, const char **ret, bool *ret_made,
                      struct problem *problem) {
        const char *conversation = conversation_of(call, arguments);
        struct engine_wish wish = { .environment = json_text(arguments, "environment"),
                                    .agent = json_text(arguments, "agent"),
                                    .conversation = conversation };
        bool is_chosen = wish.environment || wish.agent;
        json_t *session;
        int made;

        *ret_made = false;
        if (json_text(arguments, "session_id") && is_chosen)
                return problem_set(
                        problem, PROBLEM_INVALID,
                        "environment and agent are for a new session: leave them out, or session_id");
        if (json_text(arguments, "session_id") || !is_chosen) {
                if (find_named(call, arguments, ret, problem) < 0)
                        return -1;
                if (*ret)
                        return 0;
                if (find_environment(call, &wish.environment, problem) < 0)
                        return -1;
        }
        made = engine_create(call->call->engine, &call->caller, &wish, &session, problem);
        if (made < 0)
                return -1;
        *ret = arena_strdup(call->request->arena, json_text(session, "id"));
        *ret_made = made > 0;
        json_decref(session);
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
