/* SPDX-License-Identifier: Apache-2.0 */
/* What the routes of `berth serve` share: the context of its HTTP server. */
#ifndef BERTH_BROKER_SERVICE_BROKER_H
#define BERTH_BROKER_SERVICE_BROKER_H

#include "broker/auth/door.h"
#include "broker/auth/load.h"
#include "broker/auth/tickets.h"
#include "broker/service/applied.h"
#include "broker/service/ready.h"
#include "broker/service/sessions.h"
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
