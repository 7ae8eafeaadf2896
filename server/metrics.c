/* SPDX-License-Identifier: Apache-2.0 */
#include "server/metrics.h"

#include "base/array.h"
#include "base/sorted.h"
#include "base/text_utf8.h"
#include "server/self.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VALUE_MAX 128 /* bytes of a label's value */

struct series {
        const char *labels[METRICS_LABELS];
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
        const struct metrics_table *table;
        struct family *families; /* as many as the table has */
        const char *owners
                [METRICS_OWNERS]; /* values of the table's owner label, in the order in which they came */
        size_t owner_count;
        double start_seconds; /* of the process: asked once, since clocks that are corrected would move it */
};

static size_t label_count(const struct metrics_family *facts) {
        size_t count = 0;

        while (count < METRICS_LABELS && facts->labels[count])
                count++;
        return count;
}

static size_t bucket_count(const struct metrics_family *facts) {
        size_t count = 0;

        while (facts->buckets && facts->buckets[count] > 0)
                count++;
        return count;
}

static const char *copy_value(const struct metrics *metrics, const char *value) {
        return arena_strndup(metrics->arena, value, strnlen(value, VALUE_MAX));
}

static bool owner_has_a_place(struct metrics *metrics, const char *owner) {
        for (size_t i = 0; i < metrics->owner_count; i++) {
                if (strncmp(metrics->owners[i], owner, VALUE_MAX) == 0)
                        return true;
        }
        if (metrics->owner_count == METRICS_OWNERS)
                return false;
        metrics->owners[metrics->owner_count++] = copy_value(metrics, owner);
        return true;
}

struct labels {
        const char *const *values;
        size_t count;
};

static int compare_to_series(const void *sought, const void *item) {
        const struct labels *labels = sought;
        const struct series *series = item;
        int order = 0;

        for (size_t i = 0; i < labels->count && order == 0; i++)
                order = strncmp(labels->values[i], series->labels[i], VALUE_MAX);
        return order;
}

/* The place where the labels stand, or belong. */
static size_t series_position(const struct family *family, const char *const *labels, size_t count,
                              bool *ret_found) {
        const struct labels sought = { labels, count };
        size_t at = sorted_first(family->series, family->count, sizeof(*family->series), &sought,
                                 compare_to_series);

        *ret_found = at < family->count && compare_to_series(&sought, &family->series[at]) == 0;
        return at;
}

static struct series *insert(struct metrics *metrics, size_t metric, size_t at, const char *const *labels) {
        const struct metrics_family *facts = &metrics->table->families[metric];
        struct family *family = &metrics->families[metric];
        struct series made = { .buckets = arena_array(metrics->arena, bucket_count(facts),
                                                      sizeof(made.buckets[0])) };

        family->series = array_grow(metrics->arena, family->series, family->count, sizeof(family->series[0]));
        for (size_t i = 0; i < label_count(facts); i++)
                made.labels[i] = copy_value(metrics, labels[i]);
        memmove(&family->series[at + 1], &family->series[at],
                (family->count - at) * sizeof(family->series[0]));
        family->count++;
        family->series[at] = made;
        return &family->series[at];
}

/* With the lock held. */
static struct series *find_series(struct metrics *metrics, size_t metric, const char *const *labels) {
        const struct metrics_family *facts = &metrics->table->families[metric];
        struct family *family = &metrics->families[metric];
        size_t count = label_count(facts), at;
        const char *wanted[METRICS_LABELS] = { "", "", "" };
        bool found;

        for (size_t i = 0; i < count; i++) {
                bool is_owner = metrics->table->owner_label &&
                                strcmp(facts->labels[i], metrics->table->owner_label) == 0;

                wanted[i] = !is_owner || owner_has_a_place(metrics, labels[i]) ? labels[i] : "other";
        }
        at = series_position(family, wanted, count, &found);
        if (!found && family->count >= METRICS_SERIES) {
                for (size_t i = 0; i < count; i++)
                        wanted[i] = "other";
                at = series_position(family, wanted, count, &found);
        }
        return found ? &family->series[at] : insert(metrics, metric, at, wanted);
}

void metrics_add(struct metrics *metrics, size_t metric, double amount, const char *const *labels) {
        pthread_mutex_lock(&metrics->lock);
        find_series(metrics, metric, labels)->value += amount;
        pthread_mutex_unlock(&metrics->lock);
}

void metrics_set(struct metrics *metrics, size_t metric, double value, const char *const *labels) {
        pthread_mutex_lock(&metrics->lock);
        find_series(metrics, metric, labels)->value = value;
        pthread_mutex_unlock(&metrics->lock);
}

void metrics_observe(struct metrics *metrics, size_t metric, double seconds, const char *const *labels) {
        const struct metrics_family *facts = &metrics->table->families[metric];
        struct series *series;

        pthread_mutex_lock(&metrics->lock);
        series = find_series(metrics, metric, labels);
        series->value += seconds;
        series->count++;
        for (size_t i = 0; i < bucket_count(facts); i++)
                series->buckets[i] += seconds <= facts->buckets[i];
        pthread_mutex_unlock(&metrics->lock);
}

struct metrics *metrics_new(const struct metrics_table *table) {
        struct metrics *metrics = calloc(1, sizeof(*metrics));
        struct self_facts process;

        if (!metrics || pthread_mutex_init(&metrics->lock, NULL) != 0)
                abort();
        metrics->arena = arena_new();
        metrics->table = table;
        metrics->families = arena_array(metrics->arena, table->count, sizeof(metrics->families[0]));
        self_measure(&process);
        metrics->start_seconds = process.start_seconds;
        return metrics;
}

void metrics_free(struct metrics *metrics) {
        if (!metrics)
                return;
        arena_free(metrics->arena);
        pthread_mutex_destroy(&metrics->lock);
        free(metrics);
}

static void write_family_head(const char *name, const char *help, const char *type, struct strbuf *ret) {
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

static void write_name(const struct metrics_family *facts, const char *suffix, const struct series *series,
                       const char *bound, struct strbuf *ret) {
        size_t count = label_count(facts);

        strbuf_printf(ret, "%s%s{", facts->name, suffix);
        for (size_t i = 0; i < count; i++)
                write_label(facts->labels[i], series->labels[i], i == 0, ret);
        if (bound)
                write_label("le", bound, count == 0, ret);
        strbuf_append(ret, "} ");
}

static void write_histogram(const struct metrics_family *facts, const struct series *series,
                            struct strbuf *ret) {
        for (size_t i = 0; i < bucket_count(facts); i++) {
                struct strbuf bound STRBUF_CLEANUP = STRBUF_INIT;

                write_number(facts->buckets[i], &bound);
                write_name(facts, "_bucket", series, strbuf_text(&bound), ret);
                strbuf_printf(ret, "%llu\n", series->buckets[i]);
        }
        write_name(facts, "_bucket", series, "+Inf", ret);
        strbuf_printf(ret, "%llu\n", series->count);
        write_name(facts, "_sum", series, NULL, ret);
        write_number(series->value, ret);
        strbuf_append_char(ret, '\n');
        write_name(facts, "_count", series, NULL, ret);
        strbuf_printf(ret, "%llu\n", series->count);
}

static void write_family(const struct family *family, const struct metrics_family *facts,
                         struct strbuf *ret) {
        static const char *const types[] = { "counter", "gauge", "histogram" };

        if (family->count == 0)
                return;
        write_family_head(facts->name, facts->help, types[facts->type], ret);
        for (size_t i = 0; i < family->count; i++) {
                if (facts->type == METRICS_HISTOGRAM) {
                        write_histogram(facts, &family->series[i], ret);
                        continue;
                }
                write_name(facts, "", &family->series[i], NULL, ret);
                write_number(family->series[i].value, ret);
                strbuf_append_char(ret, '\n');
        }
}

/* What could not be found out is left out. */
static void write_process(const char *name, const char *help, const char *type, double value,
                          struct strbuf *ret) {
        if (value < 0)
                return;
        write_family_head(name, help, type, ret);
        strbuf_printf(ret, "%s ", name);
        write_number(value, ret);
        strbuf_append_char(ret, '\n');
}

void metrics_write(struct metrics *metrics, struct strbuf *ret) {
        struct self_facts process;

        write_family_head("berth_build_info", "The version that runs.", "gauge", ret);
        strbuf_append(ret, "berth_build_info{version=\"" BERTH_VERSION "\"} 1\n");
        pthread_mutex_lock(&metrics->lock);
        for (size_t metric = 0; metric < metrics->table->count; metric++)
                write_family(&metrics->families[metric], &metrics->table->families[metric], ret);
        pthread_mutex_unlock(&metrics->lock);
        self_measure(&process);
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
