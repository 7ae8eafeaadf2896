/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a plan found is kept in the source's status, counted, and told to people once. "Once" is by comparison with
 * what the status had before: drift by address, refusals by their whole text and commit, warnings by a hash.
 */
#include "gitops/plan_findings.h"

#include "base/digest.h"
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
        json_t *before JSON_CLEANUP = NULL, *now JSON_CLEANUP = drift_list(plan), *kept = json_deep_copy(now);
        size_t news = 0;

        pthread_mutex_lock(&source->lock);
        before = source->status.drift;
        source->status.drift = kept;
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
}

static bool same_refusals(const json_t *before, const json_t *now) {
        return before ? json_equal(before, now) : json_array_size(now) == 0;
}

/* Told once, and again when it is another commit or something else that is refused. */
static void note_refusals(struct work *work) {
        struct source *source = work->source;
        struct source_status *status = &source->status;
        json_t *before JSON_CLEANUP = NULL, *now JSON_CLEANUP = approval_refusals_json(&work->plan);
        json_t *kept = json_deep_copy(now), *refusal;
        bool news;
        size_t i;

        pthread_mutex_lock(&source->lock);
        before = status->refusals;
        status->refusals = kept;
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

/* Every plan of a commit gives the same warnings: they are logged again only when they differ. */
static void log_new_warnings(struct work *work) {
        const struct plan *plan = &work->plan;
        struct digest_stream *stream = digest_stream_new();
        char hex[SHA256_HEX_SIZE];

        for (size_t i = 0; i < plan->warning_count; i++)
                digest_stream_add(stream, plan->warnings[i], strlen(plan->warnings[i]) + 1);
        digest_stream_end(stream, hex);
        if (strcmp(hex, work->source->warned) == 0)
                return;
        memcpy(work->source->warned, hex, sizeof(hex));
        for (size_t i = 0; i < plan->warning_count; i++)
                log_warning("%.*s", (int)strcspn(plan->warnings[i], "\n"), plan->warnings[i]);
}

void plan_findings_tell(struct work *work) {
        log_new_warnings(work);
        note_drift(work);
        if (!work->attempt->fallback)
                note_refusals(work);
}

void plan_findings_count(struct work *work) {
        size_t *counts = arena_array(work->arena, kind_count, sizeof(*counts)), count;
        json_t *resources = json_object();
        struct record *records;
        struct error err;

        if (state_load_records(work->state, work->arena, &records, &count, &err) < 0)
                count = 0;
        for (size_t i = 0; i < count; i++) {
                const struct kind *kind;
                const char *name;

                if (address_parse(records[i].address, &kind, &name, &err) == 0)
                        counts[kind->id]++;
        }
        for (size_t kind = 0; kind < kind_count; kind++) {
                if (!kinds[kind]->managed)
                        continue;
                if (counts[kind])
                        json_object_set_new(resources, kinds[kind]->name,
                                            json_integer((json_int_t)counts[kind]));
                metrics_set(work->following->metrics, METRIC_RESOURCES, (double)counts[kind],
                            (const char *const[]){ work->config->name, kinds[kind]->name });
        }
        pthread_mutex_lock(&work->source->lock);
        json_decref(work->source->status.resources);
        work->source->status.resources = resources;
        pthread_mutex_unlock(&work->source->lock);
}
