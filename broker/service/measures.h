/* SPDX-License-Identifier: Apache-2.0 */
/* What `berth serve` counts and measures. No label has a client's word: routes and methods are the tables', clients the manifest's. */
#ifndef BERTH_BROKER_SERVICE_MEASURES_H
#define BERTH_BROKER_SERVICE_MEASURES_H

#include "server/metrics.h"
#include "server/server.h"

struct broker;

enum measure {
        MEASURE_REQUESTS,
        MEASURE_REQUEST_SECONDS,
        MEASURE_CONNECTIONS,
        MEASURE_HANDSHAKES,
        MEASURE_CERTIFICATE_EXPIRES,
        MEASURE_KEY_FETCHES,
        MEASURE_SESSIONS,
        MEASURE_RUNNING,
        MEASURE_WAITING,
        MEASURE_EXECUTIONS,
        MEASURE_EXECUTION_SECONDS,
        MEASURE_QUEUE_SECONDS,
        MEASURE_CONTAINERS,
        MEASURE_CONTAINERS_ENDED,
        MEASURE_CONTAINERS_CPU,
        MEASURE_CONTAINERS_MEMORY,
        MEASURE_FREE_BYTES,
        MEASURE_READY,
        MEASURE_COUNT
};

struct metrics *measures_new(void);

/* All of it as Prometheus reads it, with what is as it is now. */
void measures_write(struct broker *broker, struct strbuf *ret);

/* For engine_watch.ended. */
void measures_execution_ended(void *context, const char *status, int64_t queued_ms, int64_t wall_ms);
/* For containers_config.ended. */
void measures_container_ended(void *context, const char *reason);
/* For server_config.answered and .shook_hands. */
void measures_answered(struct server_request *request, unsigned status, int64_t took_us);
void measures_shook_hands(void *context, bool made);

#endif
