/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tool for commands on the host: it asks, and asks again; no decision is taken by MCP, whose
 * client is the one that asked.
 */
#ifndef BERTH_BROKER_MCP_MCP_SHELL_H
#define BERTH_BROKER_MCP_MCP_SHELL_H

#include "broker/mcp/mcp_tools.h"

int mcp_shell_run(const struct mcp_call *call, const json_t *arguments, struct mcp_answer *ret,
                  struct problem *problem);

#endif
