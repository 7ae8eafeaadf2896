/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP for those who look at the controller: /healthz, /readyz, /metrics, and /hooks/NAME, which wakes a source. By
 * libmicrohttpd: small, in every distribution, kept up since 2007, and made to be embedded. Limits on connections (128,
 * of one address 64), heads (16 KiB), bodies (25 MiB, hashed and never kept) and time. No TLS: it listens on loopback
 * unless told otherwise, and belongs behind a proxy that has the certificate. Answers nothing secret and changes nothing.
 */
#ifndef BERTH_GITOPS_SERVER_H
#define BERTH_GITOPS_SERVER_H

#include "base/error.h"
#include "gitops/controller_metrics.h"

#include <stdbool.h>
#include <stdint.h>

/* What the server asks of the loop. All are called on the server's threads. */
struct server_ops {
        void *context;
        /* Alive (NULL: yes): false where some source's thread has not been heard of for far too long; a line for people. */
        bool (*healthy)(void *context, char *reason, size_t size);
        /* (NULL: yes) Every source that is not suspended has once been reconciled to its end since the start or is Ready. */
        bool (*ready)(void *context, char *reason, size_t size);
        /* False where there is no such source. Returns at once. */
        bool (*wake)(void *context, const char *source);
        /* Brings gauges up to date, before /metrics is answered. May be NULL. */
        void (*refresh)(void *context);
};

struct server_config {
        const char *listen;         /* as listen_open() takes it */
        const char *webhook_secret; /* NULL: /hooks answers 404 */
        struct metrics *metrics;
        struct server_ops ops;
        int64_t request_ms; /* in which a request has to be there whole; 0 for 60 s */
};

struct server;
/* All of the config is copied but metrics and what ops.context is. Answers from then on, by threads of its own. */
int server_start(const struct server_config *config, struct server **ret, struct error *err) MUST_USE;
unsigned server_port(const struct server *server);
void server_stop(struct server *server); /* NULL is fine */

#endif
