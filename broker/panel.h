/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page (panel/): its files, which are part of this program and need no token, and what it asks
 * before it shows anything: which client its token makes it. It answers 200 to any caller: a
 * browser writes each refusal that a page gets into its console.
 *
 *      GET /panel/self -> {known: false}
 *      GET /panel/self -> {known: true, client, owner, actsFor, may: [right], serves: {sessions, containers, approvals}, version}
 */
#ifndef BERTH_BROKER_PANEL_H
#define BERTH_BROKER_PANEL_H

#include "server/server.h"

extern const struct server_route panel_routes[];
extern const size_t panel_route_count;

#endif
