/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters, gauges and histograms in Prometheus' text form. One table of metrics (names, help, labels) in metrics.c; any
 * thread may count. Label values are few (sources, results, refusal ids, services) and bounded whatever comes: a source
 * beyond the first METRICS_SOURCES is "other", and so are all labels of what is beyond a metric's METRICS_SERIES.
 */
#ifndef BERTH_GITOPS_METRICS_H
#define BERTH_GITOPS_METRICS_H

#include "base/strbuf.h"
#include "providers/provider.h"

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

#define METRICS_SOURCES 512
#define METRICS_SERIES 4096

struct metrics;
struct metrics *metrics_new(void);
void metrics_free(struct metrics *metrics); /* NULL is fine */

/* Label values in the metric's own order, as many as it has; they are copied. */
void metrics_add(struct metrics *metrics, enum metric metric, double amount, const char *const *labels);
void metrics_set(struct metrics *metrics, enum metric metric, double value, const char *const *labels);
void metrics_observe(struct metrics *metrics, enum metric metric, double seconds, const char *const *labels);

/* Counts a provider's calls, throttles and waits: for struct provider_config, alive as long as the metrics are. */
const struct provider_watch *metrics_provider_watch(const struct metrics *metrics);

/* The whole exposition (text format 0.0.4), with berth_build_info and the process's own (resident memory, start time, descriptors). */
void metrics_write(struct metrics *metrics, struct strbuf *ret);

#endif
