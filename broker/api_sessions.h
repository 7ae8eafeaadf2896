/* SPDX-License-Identifier: Apache-2.0 */
/* The routes of sessions and executions. Their server's context is a struct broker (broker.h). */
#ifndef BERTH_BROKER_API_SESSIONS_H
#define BERTH_BROKER_API_SESSIONS_H

#include "server/server.h"

#include <stddef.h>

extern const struct server_route api_sessions_routes[];
extern const size_t api_sessions_route_count;

#endif
