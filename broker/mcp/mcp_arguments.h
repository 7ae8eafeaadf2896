/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments as models write them: a number as a text, "" for what they leave out, "Python" for "python". Here they become what the table
 * of the tool means, before json_check() holds them against it. HTTP takes none of these: programs write its requests. Pure.
 */
#ifndef BERTH_BROKER_MCP_MCP_ARGUMENTS_H
#define BERTH_BROKER_MCP_MCP_ARGUMENTS_H

#include "base/arena.h"
#include "schema/kind.h"

#include <jansson.h>

/*
 * - An optional member that is "", [] or {} is removed. Of members of which one must be given (`groups`), a last one stays: an empty
 *   file has "" as content.
 * - A text becomes the number, or the true or false, that it spells.
 * - A number over its maximum becomes the maximum.
 * - A choice in other letters becomes the choice.
 * - A list of "NAME=VALUE" becomes a map.
 * - `session`, the older name, becomes `session_id` where that is not given.
 *
 * Other arguments stay as they are. Returns a sentence for each change that the model should know of; "": none.
 */
const char *mcp_arguments_read(json_t *arguments, const struct field *fields,
                               const struct field_group *groups, struct arena *arena);

#endif
