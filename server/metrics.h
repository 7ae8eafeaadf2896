/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters, gauges and histograms in Prometheus' text form. Each daemon has a table of its own families; any thread may count.
 * What a label's values can be is bounded, whatever comes: of the label that names owners (a source, a client) the values
 * beyond the first METRICS_OWNERS are "other", and so are all labels of what is beyond a family's METRICS_SERIES.
 */
#ifndef BERTH_SERVER_METRICS_H
#define BERTH_SERVER_METRICS_H

#include "base/strbuf.h"

#define METRICS_LABELS 3
#define METRICS_OWNERS 512
#define METRICS_SERIES 4096

enum metrics_type { METRICS_COUNTER, METRICS_GAUGE, METRICS_HISTOGRAM };

struct metrics_family {
        const char *name, *help;
        const char *labels[METRICS_LABELS]; /* fewer: ended by NULL */
        const double *buckets;              /* histograms: upper bounds, ended by 0 */
        enum metrics_type type;
};

struct metrics_table {
        const struct metrics_family *families;
        size_t count;
        const char *owner_label; /* or NULL */
};

struct metrics;
/* The table is borrowed for as long as they are. */
struct metrics *metrics_new(const struct metrics_table *table);
void metrics_free(struct metrics *metrics); /* NULL is fine */

/* `metric` is a family's place in the table; label values come in the family's own order, as many as it has, and are copied. */
void metrics_add(struct metrics *metrics, size_t metric, double amount, const char *const *labels);
void metrics_set(struct metrics *metrics, size_t metric, double value, const char *const *labels);
void metrics_observe(struct metrics *metrics, size_t metric, double seconds, const char *const *labels);

/* The whole exposition (text format 0.0.4), with berth_build_info and the process's own (resident memory, start time, descriptors). */
void metrics_write(struct metrics *metrics, struct strbuf *ret);

#endif
