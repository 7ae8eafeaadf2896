/* SPDX-License-Identifier: Apache-2.0 */
/* Tools about sessions, and the environments that a session may be made in. */
#ifndef BERTH_BROKER_MCP_SESSIONS_H
#define BERTH_BROKER_MCP_SESSIONS_H

#include "broker/mcp_tools.h"

int mcp_sessions_list(const struct mcp_call *call, const json_t *arguments, struct mcp_answer *ret,
                      struct problem *problem);
int mcp_sessions_end(const struct mcp_call *call, const json_t *arguments, struct mcp_answer *ret,
                     struct problem *problem);

/* The names that the caller may choose, "a, b", the first of them where there are many; "" where there are none. In the arena. */
int mcp_sessions_environments(const struct mcp_call *call, const char **ret, size_t *ret_count,
                              struct problem *problem);

#endif
