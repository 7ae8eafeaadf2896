/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/service/measures.h"

#include "broker/service/broker.h"
#include "containers/containers.h"
#include "server/tls.h"
#include "sessions/engine.h"

#include <stdio.h>

static const double request_seconds[] = { 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
                                          1,     2.5,    5,     10,   30,    60,   300, 900,  0 };

static const char *const none[METRICS_LABELS] = { NULL };

static const struct metrics_family families[MEASURE_COUNT] = {
        [MEASURE_REQUESTS] = { "berth_serve_requests_total",
                               "Requests that were answered, by method, route and HTTP status; both are empty where no route was found.",
                               { "method", "route", "code" },
                               NULL,
                               METRICS_COUNTER },
        [MEASURE_REQUEST_SECONDS] = { "berth_serve_request_seconds",
                                      "From a request's head to its answer's: what the code takes that it waits for is in it, a stream's length is not.",
                                      { "method", "route" },
                                      request_seconds,
                                      METRICS_HISTOGRAM },
        [MEASURE_HANDSHAKES] = { "berth_serve_tls_handshakes_total",
                                 "Handshakes of TLS that ended, by result: made or failed.",
                                 { "result" },
                                 NULL,
                                 METRICS_COUNTER },
        [MEASURE_KEY_FETCHES] = { "berth_serve_key_fetches_total",
                                  "Fetches of an issuer's keys, by the client that they are for, and by result: fetched or failed.",
                                  { "client", "result" },
                                  NULL,
                                  METRICS_COUNTER },
        [MEASURE_CONNECTIONS] = { "berth_serve_connections",
                                  "Connections now: waiting for a request, or working on one.",
                                  { "state" },
                                  NULL,
                                  METRICS_GAUGE },
        [MEASURE_CERTIFICATE_EXPIRES] = { "berth_serve_certificate_expires_timestamp_seconds",
                                          "When the certificate that is served ends to be valid, since 1970.",
                                          { NULL },
                                          NULL,
                                          METRICS_GAUGE },
        [MEASURE_SESSIONS] = { "berth_serve_sessions",
                               "Sessions now, by status.",
                               { "status" },
                               NULL,
                               METRICS_GAUGE },
        [MEASURE_RUNNING] = { "berth_serve_executions_running",
                              "Executions that run now.",
                              { NULL },
                              NULL,
                              METRICS_GAUGE },
        [MEASURE_WAITING] = { "berth_serve_executions_waiting",
                              "Executions that wait now.",
                              { NULL },
                              NULL,
                              METRICS_GAUGE },
        [MEASURE_EXECUTIONS] = { "berth_serve_executions_total",
                                 "Executions that ended, by the status of their result.",
                                 { "status" },
                                 NULL,
                                 METRICS_COUNTER },
        [MEASURE_EXECUTION_SECONDS] = { "berth_serve_execution_seconds",
                                        "How long executions ran.",
                                        { NULL },
                                        request_seconds,
                                        METRICS_HISTOGRAM },
        [MEASURE_QUEUE_SECONDS] = { "berth_serve_queue_seconds",
                                    "How long executions waited before they ran, their sandbox's start included.",
                                    { NULL },
                                    request_seconds,
                                    METRICS_HISTOGRAM },
        [MEASURE_CONTAINERS] = { "berth_serve_containers",
                                 "Containers now, by status; those that have ended and are kept, too.",
                                 { "status" },
                                 NULL,
                                 METRICS_GAUGE },
        [MEASURE_CONTAINERS_ENDED] = { "berth_serve_containers_ended_total",
                                       "Commands of containers that ended, by reason.",
                                       { "reason" },
                                       NULL,
                                       METRICS_COUNTER },
        [MEASURE_CONTAINERS_CPU] = { "berth_serve_containers_cpu_seconds_total",
                                     "What containers have used of CPUs since the server began.",
                                     { NULL },
                                     NULL,
                                     METRICS_COUNTER },
        [MEASURE_CONTAINERS_MEMORY] = { "berth_serve_containers_memory_bytes",
                                        "What containers use of memory now, their files in memory included.",
                                        { NULL },
                                        NULL,
                                        METRICS_GAUGE },
        [MEASURE_FREE_BYTES] = { "berth_serve_workspaces_free_bytes",
                                 "Free space on the disk of the workspaces.",
                                 { NULL },
                                 NULL,
                                 METRICS_GAUGE },
        [MEASURE_READY] = { "berth_serve_ready",
                            "Whether each check of /readyz holds: state, sessions, records, place, disk.",
                            { "check" },
                            NULL,
                            METRICS_GAUGE },
};

/* The current figures, gathered when metrics are asked for. */
static void gather_sessions(struct broker *broker) {
        struct engine *engine = broker_sessions_engine(broker->sessions);
        struct engine_measures found;
        int64_t free_bytes;

        if (!engine)
                return;
        engine_measure(engine, &found);
        for (size_t i = 0; i < ENGINE_STATUSES; i++)
                metrics_set(broker->metrics, MEASURE_SESSIONS, (double)found.sessions[i],
                            (const char *const[METRICS_LABELS]){ engine_statuses[i] });
        metrics_set(broker->metrics, MEASURE_RUNNING, (double)found.running, none);
        metrics_set(broker->metrics, MEASURE_WAITING, (double)found.waiting, none);
        free_bytes = broker_sessions_free_bytes(broker->sessions);
        if (free_bytes >= 0)
                metrics_set(broker->metrics, MEASURE_FREE_BYTES, (double)free_bytes, none);
}

static void gather_containers(struct broker *broker) {
        struct containers *containers = broker_sessions_containers(broker->sessions);
        struct containers_measures found;

        if (!containers)
                return;
        containers_measure(containers, &found);
        for (size_t i = 0; i < CONTAINERS_STATUSES; i++)
                metrics_set(broker->metrics, MEASURE_CONTAINERS, (double)found.containers[i],
                            (const char *const[METRICS_LABELS]){ containers_statuses[i] });
        metrics_set(broker->metrics, MEASURE_CONTAINERS_CPU, (double)found.cpu_us / 1e6, none);
        metrics_set(broker->metrics, MEASURE_CONTAINERS_MEMORY, (double)found.memory_bytes, none);
}

static void gather_connections(struct broker *broker) {
        struct server *server = atomic_load(&broker->server);
        size_t waiting, working;

        if (!server)
                return;
        server_count_connections(server, &waiting, &working);
        metrics_set(broker->metrics, MEASURE_CONNECTIONS, (double)waiting,
                    (const char *const[METRICS_LABELS]){ "waiting" });
        metrics_set(broker->metrics, MEASURE_CONNECTIONS, (double)working,
                    (const char *const[METRICS_LABELS]){ "working" });
}

void measures_write(struct broker *broker, struct strbuf *ret) {
        gather_sessions(broker);
        gather_containers(broker);
        gather_connections(broker);
        if (broker->tls)
                metrics_set(broker->metrics, MEASURE_CERTIFICATE_EXPIRES, (double)tls_expires_s(broker->tls),
                            none);
        (void)!ready_ask(&broker->ready); /* where it does not come to an end: what was found before */
        for (enum ready_check check = 0; check < READY_CHECKS; check++)
                metrics_set(broker->metrics, MEASURE_READY, ready_is(&broker->ready, check),
                            (const char *const[METRICS_LABELS]){ ready_name(check) });
        metrics_write(broker->metrics, ret);
}

void measures_execution_ended(void *context, const char *status, int64_t queued_ms, int64_t wall_ms) {
        metrics_add(context, MEASURE_EXECUTIONS, 1, (const char *const[METRICS_LABELS]){ status });
        metrics_observe(context, MEASURE_EXECUTION_SECONDS, (double)wall_ms / 1000, none);
        metrics_observe(context, MEASURE_QUEUE_SECONDS, (double)queued_ms / 1000, none);
}

void measures_container_ended(void *context, const char *reason) {
        metrics_add(context, MEASURE_CONTAINERS_ENDED, 1, (const char *const[METRICS_LABELS]){ reason });
}

struct metrics *measures_new(void) {
        static const struct metrics_table table = { families, MEASURE_COUNT, "client" };

        return metrics_new(&table);
}

void measures_answered(struct server_request *request, unsigned status, int64_t took_us) {
        const struct broker *broker = request->context;
        const struct server_route *route = request->route;
        const char *method = route ? route->method : "", *path = route ? route->path : "";
        char code[16];

        snprintf(code, sizeof(code), "%u", status);
        metrics_add(broker->metrics, MEASURE_REQUESTS, 1, (const char *const[]){ method, path, code });
        if (route)
                metrics_observe(broker->metrics, MEASURE_REQUEST_SECONDS, (double)took_us / 1e6,
                                (const char *const[]){ method, path });
}

void measures_shook_hands(void *context, bool made) {
        const struct broker *broker = context;

        metrics_add(broker->metrics, MEASURE_HANDSHAKES, 1,
                    (const char *const[METRICS_LABELS]){ made ? "made" : "failed" });
}
