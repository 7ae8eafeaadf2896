/* SPDX-License-Identifier: Apache-2.0 */
#include "gitops/metrics.h"

#include "base/array.h"
#include "base/terminal.h"
#include "gitops/process.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LABELS_MAX 3
#define BUCKETS_MAX 12
#define VALUE_MAX 128 /* bytes of a label's value */

enum metric_type { TYPE_COUNTER, TYPE_GAUGE, TYPE_HISTOGRAM };

struct metric_facts {
        const char *name, *help;
        const char *labels[LABELS_MAX]; /* fewer: ended by NULL */
        const double *buckets;          /* histograms: upper bounds, ended by 0 */
        enum metric_type type;
};

/* A reconciliation is a poll that found nothing, or an apply that waits for a thousand functions. */
static const double reconcile_buckets[] = { 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 0 };
static const double poll_buckets[] = { 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 0 };

static const struct metric_facts facts[METRIC_COUNT] = {
        [METRIC_RECONCILES] = { "berth_reconciles_total",
                                "Reconciliations that came to their end, by how.",
                                { "source", "result" },
                                NULL,
                                TYPE_COUNTER },
        [METRIC_RECONCILE_SECONDS] = { "berth_reconcile_duration_seconds",
                                       "How long a reconciliation took, fetching and applying included.",
                                       { "source" },
                                       reconcile_buckets,
                                       TYPE_HISTOGRAM },
        [METRIC_POLLS] = { "berth_git_polls_total",
                           "Looks at a repository, by result: unchanged, fetched or failed.",
                           { "source", "result" },
                           NULL,
                           TYPE_COUNTER },
        [METRIC_POLL_SECONDS] = { "berth_git_poll_duration_seconds",
                                  "How long a look at a repository took.",
                                  { "source" },
                                  poll_buckets,
                                  TYPE_HISTOGRAM },
        [METRIC_DRIFT] = { "berth_drift_found_total",
                           "Resources found changed by somebody else.",
                           { "source", "kind" },
                           NULL,
                           TYPE_COUNTER },
        [METRIC_REFUSALS] = { "berth_refusals_total",
                              "Changes that a guard refused, by its id.",
                              { "source", "id" },
                              NULL,
                              TYPE_COUNTER },
        [METRIC_CALLS] = { "berth_provider_calls_total",
                           "Tries of calls to a provider's services, by HTTP status (0: no answer came).",
                           { "service", "operation", "code" },
                           NULL,
                           TYPE_COUNTER },
        [METRIC_THROTTLES] = { "berth_provider_throttles_total",
                               "Calls that the provider throttled.",
                               { "service" },
                               NULL,
                               TYPE_COUNTER },
        [METRIC_QUOTA_WAIT_SECONDS] = { "berth_provider_quota_wait_seconds_total",
                                        "Time that calls waited for their turn within the provider's quota.",
                                        { "service" },
                                        NULL,
                                        TYPE_COUNTER },
        [METRIC_LAST_SUCCESS] = { "berth_last_success_timestamp_seconds",
                                  "When a source was last reconciled without a failure, since 1970.",
                                  { "source" },
                                  NULL,
                                  TYPE_GAUGE },
        [METRIC_RESOURCES] = { "berth_resources",
                               "Resources that a source's stack holds.",
                               { "source", "kind" },
                               NULL,
                               TYPE_GAUGE },
        [METRIC_CONDITION] = { "berth_source_condition",
                               "Whether a source's condition (Ready, Reconciling, Stalled) holds.",
                               { "source", "type" },
                               NULL,
                               TYPE_GAUGE },
        [METRIC_SUSPENDED] = { "berth_source_suspended",
                               "Whether a source is suspended.",
                               { "source" },
                               NULL,
                               TYPE_GAUGE },
        [METRIC_NOTIFICATIONS] = { "berth_notifications_total",
                                   "Notifications, by result: sent, retried or dropped.",
                                   { "result" },
                                   NULL,
                                   TYPE_COUNTER },
        [METRIC_HOOKS] = { "berth_webhooks_total",
                           "Webhooks received, by HTTP status of the answer; source \"\" where it was not vouched for.",
                           { "source", "code" },
                           NULL,
                           TYPE_COUNTER },
};

struct series {
        const char *labels[LABELS_MAX];
        double value; /* a histogram's sum */
        unsigned long long count, *buckets;
};

struct family {
        struct series *series; /* by labels in byte order */
        size_t count;
};

struct metrics {
        pthread_mutex_t lock;
        struct arena *arena; /* with the lock held: series and their labels, which stay to the end */
        struct family families[METRIC_COUNT];
        const char *sources[METRICS_SOURCES]; /* in the order in which they came */
        size_t source_count;
        struct provider_watch watch;
        double start_seconds; /* of the process: asked once, since clocks that are corrected would move it */
};

static size_t label_count(enum metric metric) {
        size_t count = 0;

        while (count < LABELS_MAX && facts[metric].labels[count])
                count++;
        return count;
}

static size_t bucket_count(enum metric metric) {
        size_t count = 0;

        while (facts[metric].buckets && facts[metric].buckets[count] > 0)
                count++;
        return count;
}

static const char *copy_value(const struct metrics *metrics, const char *value) {
        return arena_strndup(metrics->arena, value, strnlen(value, VALUE_MAX));
}

static bool source_has_a_place(struct metrics *metrics, const char *source) {
        for (size_t i = 0; i < metrics->source_count; i++) {
                if (strncmp(metrics->sources[i], source, VALUE_MAX) == 0)
                        return true;
        }
        if (metrics->source_count == METRICS_SOURCES)
                return false;
        metrics->sources[metrics->source_count++] = copy_value(metrics, source);
        return true;
}

static int compare_labels(const struct series *series, const char *const *labels, size_t count) {
        int order = 0;

        for (size_t i = 0; i < count && order == 0; i++)
                order = strncmp(series->labels[i], labels[i], VALUE_MAX);
        return order;
}

/* The place where the labels stand, or belong. */
static size_t place_of(const struct family *family, const char *const *labels, size_t count,
                       bool *ret_found) {
        size_t low = 0, high = family->count;

        *ret_found = false;
        while (low < high) {
                size_t middle = low + (high - low) / 2;
                int order = compare_labels(&family->series[middle], labels, count);

                if (order == 0)
                        *ret_found = true;
                if (order < 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

static struct series *insert(struct metrics *metrics, enum metric metric, size_t at,
                             const char *const *labels) {
        struct family *family = &metrics->families[metric];
        struct series made = { .buckets = arena_array(metrics->arena, bucket_count(metric),
                                                      sizeof(made.buckets[0])) };

        family->series = array_grow(metrics->arena, family->series, family->count, sizeof(family->series[0]));
        for (size_t i = 0; i < label_count(metric); i++)
                made.labels[i] = copy_value(metrics, labels[i]);
        memmove(&family->series[at + 1], &family->series[at],
                (family->count - at) * sizeof(family->series[0]));
        family->count++;
        family->series[at] = made;
        return &family->series[at];
}

/* With the lock held. */
static struct series *find(struct metrics *metrics, enum metric metric, const char *const *labels) {
        struct family *family = &metrics->families[metric];
        size_t count = label_count(metric), at;
        const char *wanted[LABELS_MAX] = { "", "", "" };
        bool found;

        for (size_t i = 0; i < count; i++) {
                bool is_source = strcmp(facts[metric].labels[i], "source") == 0;

                wanted[i] = !is_source || source_has_a_place(metrics, labels[i]) ? labels[i] : "other";
        }
        at = place_of(family, wanted, count, &found);
        if (!found && family->count >= METRICS_SERIES) {
                for (size_t i = 0; i < count; i++)
                        wanted[i] = "other";
                at = place_of(family, wanted, count, &found);
        }
        return found ? &family->series[at] : insert(metrics, metric, at, wanted);
}

void metrics_add(struct metrics *metrics, enum metric metric, double amount, const char *const *labels) {
        pthread_mutex_lock(&metrics->lock);
        find(metrics, metric, labels)->value += amount;
        pthread_mutex_unlock(&metrics->lock);
}

void metrics_set(struct metrics *metrics, enum metric metric, double value, const char *const *labels) {
        pthread_mutex_lock(&metrics->lock);
        find(metrics, metric, labels)->value = value;
        pthread_mutex_unlock(&metrics->lock);
}

void metrics_observe(struct metrics *metrics, enum metric metric, double seconds, const char *const *labels) {
        struct series *series;

        pthread_mutex_lock(&metrics->lock);
        series = find(metrics, metric, labels);
        series->value += seconds;
        series->count++;
        for (size_t i = 0; i < bucket_count(metric); i++)
                series->buckets[i] += seconds <= facts[metric].buckets[i];
        pthread_mutex_unlock(&metrics->lock);
}

static void on_called(void *context, const char *service, const char *operation, int status, bool throttled) {
        struct metrics *metrics = context;
        char code[16];

        snprintf(code, sizeof(code), "%d", status);
        metrics_add(metrics, METRIC_CALLS, 1, (const char *const[]){ service, operation, code });
        if (throttled)
                metrics_add(metrics, METRIC_THROTTLES, 1, (const char *const[LABELS_MAX]){ service });
}

static void on_waited(void *context, const char *service, int64_t wait_ms) {
        metrics_add(context, METRIC_QUOTA_WAIT_SECONDS, (double)wait_ms / 1000,
                    (const char *const[LABELS_MAX]){ service });
}

const struct provider_watch *metrics_provider_watch(const struct metrics *metrics) {
        return &metrics->watch;
}

struct metrics *metrics_new(void) {
        struct metrics *metrics = calloc(1, sizeof(*metrics));
        struct process_facts process;

        if (!metrics || pthread_mutex_init(&metrics->lock, NULL) != 0)
                abort();
        metrics->arena = arena_new();
        process_look(&process);
        metrics->start_seconds = process.start_seconds;
        metrics->watch = (struct provider_watch){ metrics, on_called, on_waited };
        return metrics;
}

void metrics_free(struct metrics *metrics) {
        if (!metrics)
                return;
        arena_free(metrics->arena);
        pthread_mutex_destroy(&metrics->lock);
        free(metrics);
}

static void write_head(const char *name, const char *help, const char *type, struct strbuf *ret) {
        strbuf_printf(ret, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* The shortest form that reads back as the same number. */
static void write_number(double number, struct strbuf *ret) {
        char text[32];

        if (isinf(number) || isnan(number)) {
                strbuf_append(ret, isnan(number) ? "NaN" : number > 0 ? "+Inf" : "-Inf");
                return;
        }
        for (int digits = 15; digits <= 17; digits += 2) {
                snprintf(text, sizeof(text), "%.*g", digits, number);
                if (!(strtod(text, NULL) < number) && !(strtod(text, NULL) > number))
                        break;
        }
        strbuf_append(ret, text);
}

static void write_label(const char *name, const char *value, bool first, struct strbuf *ret) {
        struct strbuf valid STRBUF_CLEANUP = STRBUF_INIT;

        text_append_utf8(&valid, value);
        strbuf_printf(ret, "%s%s=\"", first ? "" : ",", name);
        for (const char *at = strbuf_text(&valid); *at; at++) {
                if (*at == '\n')
                        strbuf_append(ret, "\\n");
                else if (*at == '"' || *at == '\\')
                        strbuf_printf(ret, "\\%c", *at);
                else
                        strbuf_append_char(ret, *at);
        }
        strbuf_append_char(ret, '"');
}

static void write_name(enum metric metric, const char *suffix, const struct series *series, const char *bound,
                       struct strbuf *ret) {
        size_t count = label_count(metric);

        strbuf_printf(ret, "%s%s{", facts[metric].name, suffix);
        for (size_t i = 0; i < count; i++)
                write_label(facts[metric].labels[i], series->labels[i], i == 0, ret);
        if (bound)
                write_label("le", bound, count == 0, ret);
        strbuf_append(ret, "} ");
}

static void write_histogram(enum metric metric, const struct series *series, struct strbuf *ret) {
        for (size_t i = 0; i < bucket_count(metric); i++) {
                struct strbuf bound STRBUF_CLEANUP = STRBUF_INIT;

                write_number(facts[metric].buckets[i], &bound);
                write_name(metric, "_bucket", series, strbuf_text(&bound), ret);
                strbuf_printf(ret, "%llu\n", series->buckets[i]);
        }
        write_name(metric, "_bucket", series, "+Inf", ret);
        strbuf_printf(ret, "%llu\n", series->count);
        write_name(metric, "_sum", series, NULL, ret);
        write_number(series->value, ret);
        strbuf_append_char(ret, '\n');
        write_name(metric, "_count", series, NULL, ret);
        strbuf_printf(ret, "%llu\n", series->count);
}

static void write_family(const struct family *family, enum metric metric, struct strbuf *ret) {
        static const char *const types[] = { "counter", "gauge", "histogram" };

        if (family->count == 0)
                return;
        write_head(facts[metric].name, facts[metric].help, types[facts[metric].type], ret);
        for (size_t i = 0; i < family->count; i++) {
                if (facts[metric].type == TYPE_HISTOGRAM) {
                        write_histogram(metric, &family->series[i], ret);
                        continue;
                }
                write_name(metric, "", &family->series[i], NULL, ret);
                write_number(family->series[i].value, ret);
                strbuf_append_char(ret, '\n');
        }
}

/* What could not be found out is left out. */
static void write_process(const char *name, const char *help, const char *type, double value,
                          struct strbuf *ret) {
        if (value < 0)
                return;
        write_head(name, help, type, ret);
        strbuf_printf(ret, "%s ", name);
        write_number(value, ret);
        strbuf_append_char(ret, '\n');
}

void metrics_write(struct metrics *metrics, struct strbuf *ret) {
        struct process_facts process;

        write_head("berth_build_info", "The version that runs.", "gauge", ret);
        strbuf_append(ret, "berth_build_info{version=\"" BERTH_VERSION "\"} 1\n");
        pthread_mutex_lock(&metrics->lock);
        for (size_t metric = 0; metric < METRIC_COUNT; metric++)
                write_family(&metrics->families[metric], (enum metric)metric, ret);
        pthread_mutex_unlock(&metrics->lock);
        process_look(&process);
        write_process("process_cpu_seconds_total", "Processor time used, by the user and the system.",
                      "counter", process.cpu_seconds, ret);
        write_process("process_resident_memory_bytes", "Resident memory.", "gauge", process.resident_bytes,
                      ret);
        write_process("process_start_time_seconds", "When the process started, since 1970.", "gauge",
                      metrics->start_seconds, ret);
        write_process("process_open_fds", "Open file descriptors.", "gauge", process.open_fds, ret);
        write_process("process_max_fds", "File descriptors that may be open at once.", "gauge",
                      process.max_fds, ret);
}
