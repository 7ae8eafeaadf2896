/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of clients from before 2026-07-28 that are under way: such a client cancels one by a request of its own, which names it by
 * the id that it gave it. One is found only by the client, the owner and the session of MCP that sent it. Any thread's.
 */
#ifndef BERTH_BROKER_MCP_MCP_FLIGHT_H
#define BERTH_BROKER_MCP_MCP_FLIGHT_H

#include "sessions/engine.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Borrowed, and in one place, from mcp_flight_begin() to mcp_flight_end(). */
struct mcp_flight {
        const char *client, *owner, *mcp_session; /* the last may be "" */
        const json_t *id;
        const char *session; /* where it runs code, and as which execution */
        int64_t n;
        struct mcp_flight *next;
        bool cancelled, added;
};

void mcp_flight_begin(struct mcp_flight *flight);
void mcp_flight_end(struct mcp_flight *flight); /* one that was never begun is fine */
bool mcp_flight_is_cancelled(const struct mcp_flight *flight);

/* Interrupts the code of the one that is like `wanted`, if there is one. */
void mcp_flight_cancel(struct engine *engine, const struct engine_caller *caller,
                       const struct mcp_flight *wanted);

#endif
