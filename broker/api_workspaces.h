/* SPDX-License-Identifier: Apache-2.0 */
/* The routes of workspaces and their files. Their server's context is a struct broker (broker.h). */
#ifndef BERTH_BROKER_API_WORKSPACES_H
#define BERTH_BROKER_API_WORKSPACES_H

#include "server/server.h"

#include <stddef.h>

extern const struct server_route api_workspaces_routes[];
extern const size_t api_workspaces_route_count;

#endif
