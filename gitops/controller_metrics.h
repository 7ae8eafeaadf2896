/* SPDX-License-Identifier: Apache-2.0 */
/* What the controller counts. Label values are few: sources, results, ids of refusals, services. */
#ifndef BERTH_GITOPS_CONTROLLER_METRICS_H
#define BERTH_GITOPS_CONTROLLER_METRICS_H

#include "providers/provider.h"
#include "server/metrics.h"

enum metric {
        METRIC_RECONCILES,         /* berth_reconciles_total{source,result} */
        METRIC_RECONCILE_SECONDS,  /* berth_reconcile_duration_seconds{source} histogram */
        METRIC_POLLS,              /* berth_git_polls_total{source,result}: unchanged, fetched, failed */
        METRIC_POLL_SECONDS,       /* berth_git_poll_duration_seconds{source} histogram */
        METRIC_DRIFT,              /* berth_drift_found_total{source,kind} */
        METRIC_REFUSALS,           /* berth_refusals_total{source,id} */
        METRIC_CALLS,              /* berth_provider_calls_total{service,operation,code} */
        METRIC_THROTTLES,          /* berth_provider_throttles_total{service} */
        METRIC_QUOTA_WAIT_SECONDS, /* berth_provider_quota_wait_seconds_total{service} */
        METRIC_LAST_SUCCESS,       /* berth_last_success_timestamp_seconds{source} gauge */
        METRIC_RESOURCES,          /* berth_resources{source,kind} gauge */
        METRIC_CONDITION,          /* berth_source_condition{source,type} gauge 0/1 */
        METRIC_SUSPENDED,          /* berth_source_suspended{source} gauge */
        METRIC_NOTIFICATIONS,      /* berth_notifications_total{result}: sent, retried, dropped */
        METRIC_HOOKS,              /* berth_webhooks_total{source,code} */
        METRIC_COUNT
};

struct metrics *controller_metrics_new(void);

/* Counts a provider's calls, throttles and waits: for struct provider_config. */
struct provider_watch controller_metrics_watch(struct metrics *metrics);

#endif
