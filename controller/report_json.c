/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/report.h"

#include "base/json.h"

#include <stdlib.h>

static void set(json_t *object, const char *name, json_t *member) {
        if (json_object_set_new(object, name, member) < 0)
                abort();
}

static void append(json_t *list, json_t *item) {
        if (json_array_append_new(list, item) < 0)
                abort();
}

json_t *report_time_json(int64_t wall_ms) {
        char text[32];

        clock_format(wall_ms, text, sizeof(text));
        return json_string(text);
}

static json_t *side(const struct value *value, bool sensitive) {
        return value && !sensitive ? value_to_json(value, NULL) : json_null();
}

static json_t *fields_json(const struct field_change *fields, size_t count) {
        json_t *list = json_array();

        for (size_t i = 0; i < count; i++) {
                json_t *field = json_object();

                set(field, "path", json_from_text(fields[i].path));
                set(field, "before", side(fields[i].before, fields[i].sensitive));
                set(field, "after", side(fields[i].after, fields[i].sensitive));
                set(field, "sensitive", json_boolean(fields[i].sensitive));
                append(list, field);
        }
        return list;
}

static json_t *texts_json(const char *const *texts, size_t count) {
        json_t *list = json_array();

        for (size_t i = 0; i < count; i++)
                append(list, json_from_text(texts[i]));
        return list;
}

static json_t *refusals_json(const struct refusal *refusals, size_t count) {
        json_t *list = json_array();

        for (size_t i = 0; i < count; i++) {
                json_t *refusal = json_object();

                set(refusal, "id", json_from_text(refusals[i].id));
                set(refusal, "message", json_from_text(refusals[i].message));
                set(refusal, "remedy", json_from_text(refusals[i].remedy));
                set(refusal, "dependents", texts_json(refusals[i].dependents, refusals[i].dependent_count));
                append(list, refusal);
        }
        return list;
}

static json_t *change_json(const struct change *change) {
        json_t *object = json_object();

        set(object, "address", json_from_text(change->address));
        set(object, "kind", json_string(change->kind->name));
        set(object, "name", json_from_text(change->name));
        set(object, "action", json_string(action_name(change->action)));
        set(object, "reason", json_from_text(change->reason));
        set(object, "fields", fields_json(change->fields, change->field_count));
        set(object, "dependsOn", texts_json(change->depends_on, change->depends_on_count));
        set(object, "refusals", refusals_json(change->refusals, change->refusal_count));
        return object;
}

static json_t *summary_json(const struct plan_summary *summary) {
        json_t *object = json_object();

        set(object, "create", json_integer((json_int_t)summary->create));
        set(object, "update", json_integer((json_int_t)summary->update));
        set(object, "replace", json_integer((json_int_t)summary->replace));
        set(object, "delete", json_integer((json_int_t)summary->delete));
        set(object, "adopt", json_integer((json_int_t)summary->adopt));
        set(object, "unchanged", json_integer((json_int_t)summary->unchanged));
        set(object, "refused", json_integer((json_int_t)summary->refused));
        return object;
}

static json_t *drifts_json(const struct plan *plan) {
        json_t *list = json_array();

        for (size_t i = 0; i < plan->drift_count; i++) {
                json_t *entry = json_object();

                set(entry, "address", json_from_text(plan->drifts[i].address));
                set(entry, "gone", json_boolean(plan->drifts[i].gone));
                set(entry, "fields", fields_json(plan->drifts[i].fields, plan->drifts[i].field_count));
                append(list, entry);
        }
        return list;
}

json_t *report_drift_json(const struct plan *plan) {
        json_t *object = json_object();

        set(object, "formatVersion", json_string("1"));
        set(object, "stack", json_from_text(plan->stack_name));
        set(object, "provider", json_from_text(plan->provider_name));
        set(object, "drift", drifts_json(plan));
        return object;
}

json_t *report_plan_json(const struct plan *plan) {
        struct cost cost = report_calls(plan);
        json_t *object = json_object(), *changes = json_array(), *calls = json_object();

        for (size_t i = 0; i < plan->change_count; i++)
                append(changes, change_json(plan->changes[i]));
        for (size_t i = 0; i < cost.count; i++)
                set(calls, cost.calls[i].service, json_integer(cost.calls[i].count));
        set(object, "formatVersion", json_string("1"));
        set(object, "stack", json_from_text(plan->stack_name));
        set(object, "provider", json_from_text(plan->provider_name));
        set(object, "stateSerial", json_integer((json_int_t)plan->serial));
        set(object, "createdAt", report_time_json(plan->created_ms));
        set(object, "summary", summary_json(&plan->summary));
        set(object, "refusals", refusals_json(plan->refusals, plan->refusal_count));
        set(object, "changes", changes);
        set(object, "drift", drifts_json(plan));
        set(object, "calls", calls);
        set(object, "warnings", texts_json(plan->warnings, plan->warning_count));
        return object;
}

static const char *outcome_json(const struct change_result *result) {
        static const char *const names[] = {
                [JOB_DONE] = "done",        [JOB_FAILED] = "failed",
                [JOB_SKIPPED] = "skipped",  [JOB_NOT_STARTED] = "notStarted",
                [JOB_LEFT] = "interrupted",
        };

        return result->refused ? "refused" : names[result->outcome];
}

json_t *report_result_json(const struct plan *plan, const struct apply_result *result) {
        json_t *object = json_object(), *changes = json_array(), *summary = json_object();

        for (size_t i = 0; i < plan->change_count; i++) {
                json_t *change = json_object();

                set(change, "address", json_from_text(plan->changes[i]->address));
                set(change, "action", json_string(action_name(plan->changes[i]->action)));
                set(change, "outcome", json_string(outcome_json(&result->changes[i])));
                set(change, "durationMs", json_integer(result->changes[i].duration_ms));
                if (result->changes[i].outcome == JOB_FAILED)
                        set(change, "error", json_from_text(result->changes[i].error.message));
                append(changes, change);
        }
        set(summary, "done", json_integer((json_int_t)result->done));
        set(summary, "failed", json_integer((json_int_t)result->failed));
        set(summary, "skipped", json_integer((json_int_t)result->skipped));
        set(summary, "refused", json_integer((json_int_t)result->refused));
        set(summary, "unchanged", json_integer((json_int_t)plan->summary.unchanged));
        set(object, "formatVersion", json_string("1"));
        set(object, "stack", json_from_text(plan->stack_name));
        set(object, "provider", json_from_text(plan->provider_name));
        set(object, "run", json_integer((json_int_t)result->run));
        set(object, "interrupted", json_boolean(result->interrupted));
        set(object, "durationMs", json_integer(result->duration_ms));
        set(object, "summary", summary);
        set(object, "changes", changes);
        return object;
}
