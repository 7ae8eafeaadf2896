/* SPDX-License-Identifier: Apache-2.0 */
/* The route of MCP: one message a request, of either era (mcp_message.h). docs/mcp.md is for its users. */
#ifndef BERTH_BROKER_MCP_MCP_H
#define BERTH_BROKER_MCP_MCP_H

#include "broker/mcp/mcp_message.h"
#include "broker/request/answers.h"
#include "server/server.h"

extern const struct server_route mcp_routes[];
extern const size_t mcp_route_count;

/* Answer a request of the client's: with a result, given away, or with the reason of a failure. */
void mcp_answer_result(struct server_request *request, const struct mcp_message *message, json_t *result);
void mcp_answer_fault(struct server_request *request, const struct mcp_message *message,
                      const struct mcp_fault *fault);

#define MCP_PATH "/mcp"

/* Problems from before the message was read (the token, a right, a limit) as JSON-RPC errors, which clients show. The status is HTTP's. */
extern const struct answers_form mcp_form;

/*
 * An Mcp-Session-Id for this client and owner; and whether one that came is. It grants nothing: the
 * token identifies the caller. It parts the ids of requests of one program from those of another,
 * which is why no list of them is kept, and one holds over restarts of the server.
 */
const char *mcp_session_make(const char *client, const char *owner, struct arena *arena);
bool mcp_session_is_of(const char *id, const char *client, const char *owner, struct arena *arena);

#endif
