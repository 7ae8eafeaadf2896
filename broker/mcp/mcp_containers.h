/* SPDX-License-Identifier: Apache-2.0 */
/* Tools about containers: a service that is started, what there is, what one has printed, the end of one. */
#ifndef BERTH_BROKER_MCP_MCP_CONTAINERS_H
#define BERTH_BROKER_MCP_MCP_CONTAINERS_H

#include "broker/mcp/mcp_tools.h"

#define MCP_LOG_LINES 100   /* unless `tail` says otherwise */
#define MCP_LOG_BYTES 65536 /* the end of the log that a model reads at most */

int mcp_containers_run(const struct mcp_call *call, const json_t *arguments, struct mcp_answer *ret,
                       struct problem *problem);
int mcp_containers_list(const struct mcp_call *call, const json_t *arguments, struct mcp_answer *ret,
                        struct problem *problem);
int mcp_containers_logs(const struct mcp_call *call, const json_t *arguments, struct mcp_answer *ret,
                        struct problem *problem);
int mcp_containers_stop(const struct mcp_call *call, const json_t *arguments, struct mcp_answer *ret,
                        struct problem *problem);

#endif
