/* SPDX-License-Identifier: Apache-2.0 */
/* Events as a client follows them: text/event-stream, each with its id, and a comment each 10 s in which nothing happens. */
#ifndef BERTH_BROKER_EVENTS_H
#define BERTH_BROKER_EVENTS_H

#include "server/server.h"
#include "sessions/engine.h"

/* Takes over the follower. `finish`, or NULL, makes of the result, which it is given, the one that is told with `done`. */
void events_answer(struct server_request *request, struct engine_follower *follower,
                   json_t *(*finish)(void *context, struct server_request *request, json_t *result),
                   void *context);

#endif
