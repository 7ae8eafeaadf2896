/* SPDX-License-Identifier: Apache-2.0 */
/* Events as a client follows them: text/event-stream, each with its id, and a comment each 10 s in which nothing happens. */
#ifndef BERTH_BROKER_EVENTS_H
#define BERTH_BROKER_EVENTS_H

#include "server/server.h"
#include "sessions/engine.h"

/* Takes over the follower. */
void events_answer(struct server_request *request, struct engine_follower *follower);

#endif
