/* SPDX-License-Identifier: Apache-2.0 */
/* Names of files as resources: berth://workspaces/ID/PATH, each byte that is not plain as %XX. Pure. */
#ifndef BERTH_BROKER_MCP_MCP_URI_H
#define BERTH_BROKER_MCP_MCP_URI_H

#include "base/arena.h"
#include "base/strbuf.h"

#include <stdbool.h>

void mcp_uri_write(const char *id, const char *path, struct strbuf *to);
/*
 * False if it is invalid: another scheme, an empty part, a bad escape or one that hides a NUL. In
 * the arena.
 */
bool mcp_uri_read(const char *uri, struct arena *arena, const char **ret_id, const char **ret_path);

#endif
