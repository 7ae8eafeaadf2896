/* SPDX-License-Identifier: Apache-2.0 */
/* Plans and results, for people and for programs. Sensitive values never appear in either. */
#ifndef BERTH_CONTROLLER_REPORT_H
#define BERTH_CONTROLLER_REPORT_H

#include "controller/apply.h"
#include "controller/plan.h"

#include <jansson.h>
#include <stdio.h>

/* formatVersion "1", the stable form of docs/json.md; a new reference. */
json_t *report_plan_json(const struct plan *plan);
json_t *report_result_json(const struct plan *plan, const struct apply_result *result);
/* {stack, provider, drift [{address, gone, fields}]}. */
json_t *report_drift_json(const struct plan *plan);
/* The list `drift` of it, of what no apply puts back. */
json_t *report_left_drift_json(const struct plan *plan);
/* Wall time as "2026-01-31T12:00:00Z". */
json_t *report_time_json(int64_t wall_ms);

struct report_style {
        bool verbose; /* every field of what is created */
        bool quiet;   /* only refusals and the last line */
};

void report_plan_text(const struct plan *plan, const struct report_style *style, FILE *stream);
/* For a pull request's comment. */
void report_plan_markdown(const struct plan *plan, FILE *stream);
void report_drift_text(const struct plan *plan, FILE *stream);
void report_refusals_text(const struct plan *plan, FILE *stream);
/* One line as a change ends. */
void report_ended_text(const struct change *change, const struct change_result *result, FILE *stream);
/* The last lines of an apply: what happened, and how long it took. */
void report_result_text(const struct plan *plan, const struct apply_result *result, FILE *stream);

/* The calls by service alone: "lambda" and "lambda GetFunction", which have quotas of their own, are one service. */
struct cost report_calls(const struct plan *plan, struct arena *arena);

/* "0.4 s", "12 s", "3 min 20 s" into the buffer, which is returned. */
const char *report_duration(int64_t ms, char *buffer, size_t size);

#endif
