/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of what is counted, in Prometheus' form. Label values come from configuration and from small sets of our
 * own (results, ids of guards, services), and, for a pattern's folders, from their paths, which are checked and counted
 * (folders.h): the number of series is bounded.
 */
#include "gitops/controller_metrics.h"

#include <stdio.h>

/* A reconciliation is a poll that found nothing, or an apply that waits for a thousand functions. */
static const double reconcile_buckets[] = { 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 0 };
static const double poll_buckets[] = { 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 0 };

static const struct metrics_family families[METRIC_COUNT] = {
        [METRIC_RECONCILES] = { "berth_reconciles_total",
                                "Reconciliations that came to their end, by how.",
                                { "source", "result" },
                                NULL,
                                METRICS_COUNTER },
        [METRIC_RECONCILE_SECONDS] = { "berth_reconcile_duration_seconds",
                                       "How long a reconciliation took, fetching and applying included.",
                                       { "source" },
                                       reconcile_buckets,
                                       METRICS_HISTOGRAM },
        [METRIC_POLLS] = { "berth_git_polls_total",
                           "Looks at a repository, by result: unchanged, fetched or failed.",
                           { "source", "result" },
                           NULL,
                           METRICS_COUNTER },
        [METRIC_POLL_SECONDS] = { "berth_git_poll_duration_seconds",
                                  "How long a look at a repository took.",
                                  { "source" },
                                  poll_buckets,
                                  METRICS_HISTOGRAM },
        [METRIC_DRIFT] = { "berth_drift_found_total",
                           "Resources found changed outside of Berth.",
                           { "source", "kind" },
                           NULL,
                           METRICS_COUNTER },
        [METRIC_REFUSALS] = { "berth_refusals_total",
                              "Changes that a guard refused, by its id.",
                              { "source", "id" },
                              NULL,
                              METRICS_COUNTER },
        [METRIC_CALLS] = { "berth_provider_calls_total",
                           "Tries of calls to a provider's services, by HTTP status (0: no answer came).",
                           { "service", "operation", "code" },
                           NULL,
                           METRICS_COUNTER },
        [METRIC_THROTTLES] = { "berth_provider_throttles_total",
                               "Calls that the provider throttled.",
                               { "service" },
                               NULL,
                               METRICS_COUNTER },
        [METRIC_QUOTA_WAIT_SECONDS] = { "berth_provider_quota_wait_seconds_total",
                                        "Time that calls waited for their turn within the provider's quota.",
                                        { "service" },
                                        NULL,
                                        METRICS_COUNTER },
        [METRIC_LAST_SUCCESS] = { "berth_last_success_timestamp_seconds",
                                  "When a source was last reconciled without a failure, since 1970.",
                                  { "source" },
                                  NULL,
                                  METRICS_GAUGE },
        [METRIC_RESOURCES] = { "berth_resources",
                               "Resources that a source's stack holds.",
                               { "source", "kind" },
                               NULL,
                               METRICS_GAUGE },
        [METRIC_CONDITION] = { "berth_source_condition",
                               "Whether a source's condition (Ready, Reconciling, Stalled) holds.",
                               { "source", "type" },
                               NULL,
                               METRICS_GAUGE },
        [METRIC_SUSPENDED] = { "berth_source_suspended",
                               "Whether a source is suspended.",
                               { "source" },
                               NULL,
                               METRICS_GAUGE },
        [METRIC_NOTIFICATIONS] = { "berth_notifications_total",
                                   "Notifications, by result: sent, retried or dropped.",
                                   { "result" },
                                   NULL,
                                   METRICS_COUNTER },
        [METRIC_HOOKS] = { "berth_webhooks_total",
                           "Webhooks received, by HTTP status of the answer; source \"\" where it was not vouched for.",
                           { "source", "code" },
                           NULL,
                           METRICS_COUNTER },
};

struct metrics *controller_metrics_new(void) {
        static const struct metrics_table of_controller = { families, METRIC_COUNT, "source" };

        return metrics_new(&of_controller);
}

static void on_called(void *context, const char *service, const char *operation, int status, bool throttled) {
        struct metrics *metrics = context;
        char code[16];

        snprintf(code, sizeof(code), "%d", status);
        metrics_add(metrics, METRIC_CALLS, 1, (const char *const[]){ service, operation, code });
        if (throttled)
                metrics_add(metrics, METRIC_THROTTLES, 1, (const char *const[METRICS_LABELS]){ service });
}

static void on_waited(void *context, const char *service, int64_t wait_ms) {
        metrics_add(context, METRIC_QUOTA_WAIT_SECONDS, (double)wait_ms / 1000,
                    (const char *const[METRICS_LABELS]){ service });
}

struct provider_watch controller_metrics_watch(struct metrics *metrics) {
        return (struct provider_watch){ metrics, on_called, on_waited };
}
