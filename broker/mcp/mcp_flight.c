/* SPDX-License-Identifier: Apache-2.0 */
/* There are never more than there are requests under way, which seats bound: a list is enough. */
#include "broker/mcp/mcp_flight.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all below */
static struct mcp_flight *first;

void mcp_flight_begin(struct mcp_flight *flight) {
        pthread_mutex_lock(&lock);
        flight->added = true;
        flight->next = first;
        first = flight;
        pthread_mutex_unlock(&lock);
}

void mcp_flight_end(struct mcp_flight *flight) {
        pthread_mutex_lock(&lock);
        for (struct mcp_flight **link = &first; flight->added && *link; link = &(*link)->next) {
                if (*link != flight)
                        continue;
                *link = flight->next;
                flight->added = false;
                break;
        }
        pthread_mutex_unlock(&lock);
}

bool mcp_flight_is_cancelled(const struct mcp_flight *flight) {
        bool cancelled;

        pthread_mutex_lock(&lock);
        cancelled = flight->cancelled;
        pthread_mutex_unlock(&lock);
        return cancelled;
}

static bool is_same(const struct mcp_flight *one, const struct mcp_flight *other) {
        return strcmp(one->client, other->client) == 0 && strcmp(one->owner, other->owner) == 0 &&
               strcmp(one->mcp_session, other->mcp_session) == 0 && json_equal(one->id, other->id);
}

/* The engine is asked without the lock, which is why what it needs is copied: the flight may end meanwhile. */
void mcp_flight_cancel(struct engine *engine, const struct engine_caller *caller,
                       const struct mcp_flight *wanted) {
        char session[ENGINE_ID_SIZE] = "";
        struct problem ignored;
        int64_t n = 0;

        pthread_mutex_lock(&lock);
        for (struct mcp_flight *flight = first; flight && !*session; flight = flight->next) {
                if (!is_same(flight, wanted))
                        continue;
                flight->cancelled = true;
                snprintf(session, sizeof(session), "%s", flight->session);
                n = flight->n;
        }
        pthread_mutex_unlock(&lock);
        if (*session)
                (void)!engine_interrupt(engine, caller, session, n, &ignored);
}
