/* SPDX-License-Identifier: Apache-2.0 */
/* Which route a request takes: by tables of methods and paths. Pure. */
#ifndef BERTH_SERVER_ROUTE_H
#define BERTH_SERVER_ROUTE_H

#include "base/arena.h"
#include "server/server.h"

/*
 * The route of the path and method, its parameters in the arena; NULL if absent. Then
 * *ret_allow names the methods that the path has ("GET, HEAD"), and is NULL where it has none at
 * all. Of two that fit the first in the table is taken.
 */
const struct server_route *route_find(const struct server_route *routes, size_t count, const char *method,
                                      const char *path, struct arena *arena,
                                      const char *parameters[SERVER_PARAMETERS], const char **ret_allow);
/*
 * Whether an escaped slash, the first in the path, may stand for a slash: in what "{name...}" stands for, which has slashes anyway.
 * Elsewhere it would be a part of a name for one program and the end of it for the next.
 */
bool route_takes_slash(const struct server_route *route, const char *const parameters[SERVER_PARAMETERS],
                       const char *path, const char *slash) MUST_USE;

#endif
