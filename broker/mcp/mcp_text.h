/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a model reads of a tool's answer: it pays for each word, and what it needs of most answers is one line. The whole is beside it, as
 * `structuredContent`. Output of a sandbox is not altered. Pure; each function returns a new reference to a text.
 */
#ifndef BERTH_BROKER_MCP_MCP_TEXT_H
#define BERTH_BROKER_MCP_MCP_TEXT_H

#include <jansson.h>
#include <stdbool.h>

/* Of an execution: what it printed, its value, its error. `tells_session`: the caller must know the id to go on. */
json_t *mcp_text_run(const json_t *data, bool tells_session);

json_t *mcp_text_sessions(const json_t *data);
json_t *mcp_text_ended(const json_t *data);
json_t *mcp_text_files(const json_t *data);
json_t *mcp_text_read(const json_t *data);
json_t *mcp_text_written(const json_t *data);
json_t *mcp_text_copied(const json_t *data);
json_t *mcp_text_container(const json_t *data);
json_t *mcp_text_containers(const json_t *data);
json_t *mcp_text_log(const json_t *data);

#endif
