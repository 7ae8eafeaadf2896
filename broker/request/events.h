/* SPDX-License-Identifier: Apache-2.0 */
/* Events as a client follows them: text/event-stream, each with its id, and something each 10 s in which nothing happens. */
#ifndef BERTH_BROKER_REQUEST_EVENTS_H
#define BERTH_BROKER_REQUEST_EVENTS_H

#include "base/strbuf.h"
#include "server/server.h"
#include "sessions/engine.h"

/* Takes over the follower. `finish`, or NULL, makes of the result, which it is given, the one that is told with `done`. */
void events_answer(struct server_request *request, struct engine_follower *follower,
                   json_t *(*finish)(void *context, struct server_request *request, json_t *result),
                   void *context);

/* Another form of telling them. Each appends what is sent then, which may be nothing. */
struct events_form {
        void *context;
        const char *type;  /* of the stream; NULL: text/event-stream */
        const char *first; /* sent at once: Firefox tells of an answer at its first byte alone; or NULL */
        /* Takes the event's data over. False: the stream breaks off. */
        bool (*write)(void *context, struct server_request *request, const struct engine_event *event,
                      struct strbuf *to);
        void (*quiet)(void *context, struct strbuf *to); /* nothing happened for quiet_ms */
        int quiet_ms;
        void (*stop)(void *context, struct strbuf *to); /* the server ends: the last that is sent; or NULL */
        void (*end)(void *context);                     /* however it ended; or NULL */
};
/* Takes over the follower; the form is copied. */
void events_answer_as(struct server_request *request, struct engine_follower *follower,
                      const struct events_form *form);

#endif
