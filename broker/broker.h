/* SPDX-License-Identifier: Apache-2.0 */
/* What the routes of `berth serve` share: the context of its HTTP server. */
#ifndef BERTH_BROKER_BROKER_H
#define BERTH_BROKER_BROKER_H

#include "broker/applied.h"
#include "broker/door.h"
#include "broker/load.h"
#include "broker/ready.h"
#include "broker/sessions.h"
#include "broker/tickets.h"
#include "server/instance.h"
#include "server/metrics.h"
#include "server/server.h"

#include <stdatomic.h>

struct answers_form;
struct e2b;

struct broker {
        struct metrics *metrics;
        struct door *door;
        struct load *load;
        struct tickets *tickets;
        struct e2b *e2b; /* NULL: its clients are not answered */
        struct applied *applied;
        struct approvals *approvals;      /* NULL: no commands on the host */
        struct broker_sessions *sessions; /* NULL: none are served */
        struct instance instance;
        const struct server_route *routes; /* all that are served */
        size_t route_count;
        const struct answers_form *const *forms; /* of errors, ended by NULL; NULL: the API's alone */
        struct ready ready;
        struct tls *tls;                 /* NULL: none is spoken */
        _Atomic(struct server *) server; /* once it has started */
};

#endif
