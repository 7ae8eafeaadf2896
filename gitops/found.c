/* SPDX-License-Identifier: Apache-2.0 */
#include "gitops/found.h"

#include "base/json.h"
#include "base/log.h"
#include "controller/report.h"
#include "gitops/approval.h"
#include "gitops/attempt_text.h"

#include <string.h>

static bool names_drift(const json_t *list, const char *address) {
        json_t *entry;
        size_t i;

        json_array_foreach (list, i, entry) {
                const char *other = json_text(entry, "address");

                if (other && strcmp(other, address) == 0)
                        return true;
        }
        return false;
}

static json_t *drift_list(const struct plan *plan) {
        json_t *document JSON_CLEANUP = report_drift_json(plan), *list = json_object_get(document, "drift");

        while (json_array_size(list) > APPROVAL_LIST_MAX)
                json_array_remove(list, json_array_size(list) - 1);
        return json_incref(list);
}

static void note_drift(struct work *work) {
        struct source *source = work->source;
        const struct plan *plan = &work->plan;
        json_t *before JSON_CLEANUP = NULL, *now = drift_list(plan);
        size_t news = 0;

        pthread_mutex_lock(&source->lock);
        before = source->status.drift;
        source->status.drift = json_incref(now);
        pthread_mutex_unlock(&source->lock);
        for (size_t i = 0; i < plan->drift_count; i++) {
                const char *address = plan->drifts[i].address, *slash = strchr(address, '/');

                if (names_drift(before, address))
                        continue;
                news++;
                metrics_add(work->following->metrics, METRIC_DRIFT, 1,
                            (const char *const[]){
                                    source->config->name,
                                    arena_strndup(work->arena, address, (size_t)(slash - address)) });
        }
        if (news)
                source_tell(source, NOTIFY_DRIFT, work->attempt->commit, "Drift",
                            attempt_text_drift(plan, work->config->correct_drift, work->arena),
                            json_pack("{s:O}", "drift", now));
        json_decref(now);
}

static bool same_refusals(const json_t *before, const json_t *now) {
        return before ? json_equal(before, now) : json_array_size(now) == 0;
}

/* Told once, and again when it is another commit or something else that is refused. */
static void note_refusals(struct work *work) {
        struct source *source = work->source;
        struct source_status *status = &source->status;
        json_t *before JSON_CLEANUP = NULL, *now = approval_refusals_json(&work->plan), *refusal;
        bool news;
        size_t i;

        pthread_mutex_lock(&source->lock);
        before = status->refusals;
        status->refusals = now;
        news = !same_refusals(before, now) ||
               strcmp(status->conditions[CONDITION_READY].commit, work->attempt->commit) != 0;
        pthread_mutex_unlock(&source->lock);
        work->attempt->refused = json_array_size(now) > 0;
        if (!news || json_array_size(now) == 0)
                return;
        json_array_foreach (now, i, refusal)
                metrics_add(work->following->metrics, METRIC_REFUSALS, 1,
                            (const char *const[]){ source->config->name, json_text(refusal, "id") });
        source_tell(source, NOTIFY_REFUSED, work->attempt->commit, "Refused",
                    approval_refusals_text(now, work->arena), json_pack("{s:O}", "refusals", now));
}

void found_plan(struct work *work) {
        for (size_t i = 0; i < work->plan.warning_count; i++)
                log_warning("%s", work->plan.warnings[i]);
        note_drift(work);
        if (!work->attempt->fallback)
                note_refusals(work);
}

void found_resources(struct work *work) {
        size_t counts[KIND_COUNT] = { 0 }, count;
        json_t *resources = json_object();
        struct record *records;
        struct error err;

        if (state_load_records(work->source->state, work->arena, &records, &count, &err) < 0)
                count = 0;
        for (size_t i = 0; i < count; i++) {
                const struct kind *kind;
                const char *name;

                if (address_parse(records[i].address, &kind, &name, &err) == 0)
                        counts[kind->id]++;
        }
        for (size_t kind = 0; kind < KIND_COUNT; kind++) {
                if (!kinds[kind].managed)
                        continue;
                if (counts[kind])
                        json_object_set_new(resources, kinds[kind].name,
                                            json_integer((json_int_t)counts[kind]));
                metrics_set(work->following->metrics, METRIC_RESOURCES, (double)counts[kind],
                            (const char *const[]){ work->config->name, kinds[kind].name });
        }
        pthread_mutex_lock(&work->source->lock);
        json_decref(work->source->status.resources);
        work->source->status.resources = resources;
        pthread_mutex_unlock(&work->source->lock);
}
