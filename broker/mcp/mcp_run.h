/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_code: an execution that is followed to its end, with progress for a client that asks for it,
 * and what a model is told of its result.
 */
#ifndef BERTH_BROKER_MCP_MCP_RUN_H
#define BERTH_BROKER_MCP_MCP_RUN_H

#include "broker/mcp/mcp_message.h"
#include "broker/mcp/mcp_tools.h"

/*
 * Answers the request, now or as a stream: of 2026-07-28 the client's leaving is its cancellation,
 * before that mcp_flight_cancel() is. `mcp_session` is "" if the client has none.
 */
void mcp_run_answer(const struct mcp_call *call, const struct mcp_message *message, const json_t *arguments,
                    const char *mcp_session);

/*
 * The result as a model gets it (`tells_session`: mcp_text_run()): streams and displays with smaller caps, and images in *ret->content instead of in the displays. Pure;
 * `result` is borrowed, and not changed.
 */
void mcp_run_show(const json_t *result, bool tells_session, struct mcp_answer *ret);

#endif
