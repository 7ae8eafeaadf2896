/* SPDX-License-Identifier: Apache-2.0 */
/* Files of workspaces as tools have them, and as resources. */
#ifndef BERTH_BROKER_MCP_MCP_FILES_H
#define BERTH_BROKER_MCP_MCP_FILES_H

#include "broker/mcp/mcp_tools.h"

#define MCP_FILES_READ_MAX 1048576            /* bytes that read_file gives at a time */
#define MCP_FILES_WHOLE_MAX ((size_t)4 << 20) /* of an image, and of a resource, which are read whole */

int mcp_files_list(const struct mcp_call *call, const json_t *arguments, struct mcp_answer *ret,
                   struct problem *problem);
int mcp_files_read(const struct mcp_call *call, const json_t *arguments, struct mcp_answer *ret,
                   struct problem *problem);
int mcp_files_write(const struct mcp_call *call, const json_t *arguments, struct mcp_answer *ret,
                    struct problem *problem);
int mcp_files_copy(const struct mcp_call *call, const json_t *arguments, struct mcp_answer *ret,
                   struct problem *problem);

/*
 * A page of the owner's files, over all of its workspaces: {resources, nextCursor}. Few workspaces
 * are looked into for one page, so that one may have no resource and yet another behind it.
 */
int mcp_files_resources(const struct mcp_call *call, const char *cursor, json_t **ret,
                        struct problem *problem);
/* {contents}: one file, whole. */
int mcp_files_resource(const struct mcp_call *call, const char *uri, json_t **ret, struct problem *problem);

/* "image/png" and the like for the formats that models see; NULL for other bytes. */
const char *mcp_files_image_type(const void *bytes, size_t length);

#endif
