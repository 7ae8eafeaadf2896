/* SPDX-License-Identifier: Apache-2.0 */
/* Tools about sessions, and the environments that a session may be made in. */
#ifndef BERTH_BROKER_MCP_MCP_SESSIONS_H
#define BERTH_BROKER_MCP_MCP_SESSIONS_H

#include "broker/mcp/mcp_tools.h"

int mcp_sessions_list(const struct mcp_call *call, const json_t *arguments, struct mcp_answer *ret,
                      struct problem *problem);
int mcp_sessions_end(const struct mcp_call *call, const json_t *arguments, struct mcp_answer *ret,
                     struct problem *problem);

/*
 * The session that a call is about: that of its session_id, or the living one of its conversation, an argument or the header. PROBLEM_INVALID
 * where it names none, or two; PROBLEM_NOT_FOUND where the conversation has none. Whether there is one of the id is not looked at. *ret is in the arena.
 */
int mcp_sessions_named(const struct mcp_call *call, const json_t *arguments, const char **ret,
                       struct problem *problem);
/*
 * The same, but a missing session is made: of that conversation, in the environment or for the agent that the arguments name, else in the only
 * environment there is.
 */
int mcp_sessions_open(const struct mcp_call *call, const json_t *arguments, const char **ret, bool *ret_made,
                      struct problem *problem);

/*
 * The names that the caller may choose, "a, b", the first of them where there are many; "" for an
 * empty list. In the arena.
 */
int mcp_sessions_environments(const struct mcp_call *call, const char **ret, size_t *ret_count,
                              struct problem *problem);

#endif
