/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP for those who look at the controller: /healthz, /readyz, /metrics, and /hooks/NAME, which wakes a source. By
 * libmicrohttpd, with limits on connections, request size and time. Answers nothing secret and changes nothing.
 */
#ifndef BERTH_GITOPS_SERVER_H
#define BERTH_GITOPS_SERVER_H

#include "base/error.h"
#include "gitops/metrics.h"

#include <stdbool.h>

/* What the server asks of the loop. All are called on the server's threads. */
struct server_ops {
        void *context;
        /* Alive: false where some source's thread has not been heard of for far too long; a line for people. */
        bool (*healthy)(void *context, char *reason, size_t size);
        /* Every source that is not suspended has once been reconciled to its end since the start or is Ready. */
        bool (*ready)(void *context, char *reason, size_t size);
        /* False where there is no such source. Returns at once. */
        bool (*wake)(void *context, const char *source);
        /* Brings gauges up to date, before /metrics is answered. May be NULL. */
        void (*refresh)(void *context);
};

struct server_config {
        const char *listen;         /* host:port; port 0: any free one */
        const char *webhook_secret; /* NULL: /hooks answers 404 */
        struct metrics *metrics;
        struct server_ops ops;
};

struct server;
int server_start(const struct server_config *config, struct server **ret, struct error *err) MUST_USE;
unsigned server_port(const struct server *server);
void server_stop(struct server *server); /* NULL is fine */

#endif
