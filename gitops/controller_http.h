/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP for those who look at the controller: /healthz, /readyz, /metrics, and /hooks/NAME, which wakes a source. Bodies of hooks
 * (25 MiB at most) are hashed and never kept. Answers nothing secret and changes nothing.
 */
#ifndef BERTH_GITOPS_CONTROLLER_HTTP_H
#define BERTH_GITOPS_CONTROLLER_HTTP_H

#include "base/error.h"
#include "gitops/controller_metrics.h"

#include <stdbool.h>
#include <stdint.h>

/* Questions to the loop. All are called on threads of the server's. */
struct controller_http_ops {
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

struct controller_http_config {
        const char *listen;         /* as listen_open() takes it */
        const char *const *hosts;   /* names that clients may call it by */
        size_t host_count;          /* 0, and it listens beyond loopback: by any */
        const char *webhook_secret; /* NULL: /hooks answers 404 */
        struct metrics *metrics;
        struct controller_http_ops ops;
        int64_t patience_ms; /* in which a head, then a body has to be there; 0 for 60 s */
};

struct controller_http;
/* All of the config is copied but metrics and what ops.context is. Answers from then on, by threads of its own. */
int controller_http_start(const struct controller_http_config *config, struct controller_http **ret,
                          struct error *err) MUST_USE;
unsigned controller_http_port(const struct controller_http *http);
void controller_http_stop(struct controller_http *http); /* NULL is fine */

#endif
