/* SPDX-License-Identifier: Apache-2.0 */
/* What the routes of `berth serve` share: the context of its HTTP server. */
#ifndef BERTH_BROKER_BROKER_H
#define BERTH_BROKER_BROKER_H

#include "broker/applied.h"
#include "broker/door.h"
#include "broker/load.h"
#include "broker/sessions.h"
#include "server/instance.h"
#include "server/metrics.h"
#include "server/server.h"

#include <stdatomic.h>

struct broker {
        struct metrics *metrics;
        struct door *door;
        struct load *load;
        struct applied *applied;
        struct broker_sessions *sessions; /* NULL: none are served */
        struct instance instance;
        atomic_bool ready; /* whether the state could be read when it was last looked at */
};

/* api.c: all that is answered. */
extern const struct server_route broker_routes[];
extern const size_t broker_route_count;

#endif
