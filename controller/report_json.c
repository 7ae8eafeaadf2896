/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The forms of docs/json.md. All texts go through json_from_text(): a name from a provider may hold bytes that are
 * not UTF-8, which Jansson would refuse, and the whole plan with them. A sensitive side is null here, not a hash:
 * plans are put into pipelines' logs.
 */
#include "controller/report.h"

#include "base/json.h"

json_t *report_time_json(int64_t wall_ms) {
        char text[32];

        clock_format(wall_ms, text, sizeof(text));
        return json_string(text);
}

static json_t *side_or_null(const struct value *value, bool sensitive) {
        return value && !sensitive ? value_to_json(value, NULL) : json_null();
}

static json_t *fields_json(const struct field_change *fields, size_t count) {
        json_t *list = json_array();

        for (size_t i = 0; i < count; i++) {
                json_t *field = json_object();

                json_put(field, "path", json_from_text(fields[i].path));
                json_put(field, "before", side_or_null(fields[i].before, fields[i].sensitive));
                json_put(field, "after", side_or_null(fields[i].after, fields[i].sensitive));
                json_put(field, "sensitive", json_boolean(fields[i].sensitive));
                if (fields[i].left)
                        json_put(field, "left", json_from_text(fields[i].left));
                json_add(list, field);
        }
        return list;
}

static json_t *refusals_json(const struct refusal *refusals, size_t count) {
        json_t *list = json_array();

        for (size_t i = 0; i < count; i++) {
                json_t *refusal = json_object();

                json_put(refusal, "id", json_from_text(refusals[i].id));
                json_put(refusal, "message", json_from_text(refusals[i].message));
                json_put(refusal, "remedy", json_from_text(refusals[i].remedy));
                json_put(refusal, "dependents",
                         json_from_texts(refusals[i].dependents, refusals[i].dependent_count));
                json_add(list, refusal);
        }
        return list;
}

static json_t *change_json(const struct change *change) {
        json_t *object = json_object();

        json_put(object, "address", json_from_text(change->address));
        json_put(object, "kind", json_string(change->kind->name));
        json_put(object, "name", json_from_text(change->name));
        json_put(object, "action", json_string(action_name(change->action)));
        json_put(object, "reason", json_from_text(change->reason));
        json_put(object, "fields", fields_json(change->fields, change->field_count));
        json_put(object, "dependsOn", json_from_texts(change->depends_on, change->depends_on_count));
        json_put(object, "refusals", refusals_json(change->refusals, change->refusal_count));
        return object;
}

static json_t *summary_json(const struct plan_summary *summary) {
        json_t *object = json_object();

        json_put(object, "create", json_integer((json_int_t)summary->create));
        json_put(object, "update", json_integer((json_int_t)summary->update));
        json_put(object, "replace", json_integer((json_int_t)summary->replace));
        json_put(object, "delete", json_integer((json_int_t)summary->delete));
        json_put(object, "adopt", json_integer((json_int_t)summary->adopt));
        json_put(object, "unchanged", json_integer((json_int_t)summary->unchanged));
        json_put(object, "refused", json_integer((json_int_t)summary->refused));
        return object;
}

/* Account and region are null if they were not asked for. */
static void put_stack(json_t *object, const struct plan *plan) {
        json_put(object, "stack", json_from_text(plan->stack_name));
        json_put(object, "provider", json_from_text(plan->provider_name));
        json_put(object, "account", json_from_text(plan->identity.account));
        json_put(object, "region", json_from_text(plan->identity.region));
}

/* `left_only`: those of which something stays whatever is applied. */
static json_t *drifts_json(const struct plan *plan, bool left_only) {
        json_t *list = json_array();

        for (size_t i = 0; i < plan->drift_count; i++) {
                json_t *entry;

                if (left_only && plan->drifts[i].left_count == 0)
                        continue;
                entry = json_object();
                json_put(entry, "address", json_from_text(plan->drifts[i].address));
                json_put(entry, "gone", json_boolean(plan->drifts[i].gone));
                json_put(entry, "fields", fields_json(plan->drifts[i].fields, plan->drifts[i].field_count));
                json_add(list, entry);
        }
        return list;
}

json_t *report_left_drift_json(const struct plan *plan) {
        return drifts_json(plan, true);
}

static void put_orphans(json_t *object, const struct plan *plan) {
        json_put(object, "orphans", json_from_texts(plan->orphans, plan->orphan_count));
        json_put(object, "orphansOfOthers", json_from_texts(plan->others_orphans, plan->others_orphan_count));
        json_put(object, "remnants", json_from_texts(plan->remnants, plan->remnant_count));
}

json_t *report_drift_json(const struct plan *plan) {
        json_t *object = json_object();

        json_put(object, "formatVersion", json_string("1"));
        put_stack(object, plan);
        json_put(object, "drift", drifts_json(plan, false));
        put_orphans(object, plan);
        return object;
}

json_t *report_plan_json(const struct plan *plan) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct cost cost = report_calls(plan, arena);
        json_t *object = json_object(), *changes = json_array(), *calls = json_object();

        for (size_t i = 0; i < plan->change_count; i++)
                json_add(changes, change_json(plan->changes[i]));
        for (size_t i = 0; i < cost.count; i++)
                json_put(calls, cost.calls[i].service, json_integer(cost.calls[i].count));
        json_put(object, "formatVersion", json_string("1"));
        put_stack(object, plan);
        json_put(object, "stateSerial", json_integer((json_int_t)plan->serial));
        json_put(object, "createdAt", report_time_json(plan->created_ms));
        json_put(object, "summary", summary_json(&plan->summary));
        json_put(object, "refusals", refusals_json(plan->refusals, plan->refusal_count));
        json_put(object, "changes", changes);
        json_put(object, "drift", drifts_json(plan, false));
        json_put(object, "calls", calls);
        put_orphans(object, plan);
        json_put(object, "warnings", json_from_texts(plan->warnings, plan->warning_count));
        return object;
}

static const char *outcome_text(const struct change_result *result) {
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

                json_put(change, "address", json_from_text(plan->changes[i]->address));
                json_put(change, "action", json_string(action_name(plan->changes[i]->action)));
                json_put(change, "outcome", json_string(outcome_text(&result->changes[i])));
                json_put(change, "durationMs", json_integer(result->changes[i].duration_ms));
                if (result->changes[i].outcome == JOB_FAILED)
                        json_put(change, "error", json_from_text(result->changes[i].error.message));
                json_add(changes, change);
        }
        json_put(summary, "done", json_integer((json_int_t)result->done));
        json_put(summary, "failed", json_integer((json_int_t)result->failed));
        json_put(summary, "skipped", json_integer((json_int_t)result->skipped));
        json_put(summary, "refused", json_integer((json_int_t)result->refused));
        json_put(summary, "unchanged", json_integer((json_int_t)plan->summary.unchanged));
        json_put(object, "formatVersion", json_string("1"));
        put_stack(object, plan);
        json_put(object, "run", json_integer((json_int_t)result->run));
        json_put(object, "interrupted", json_boolean(result->interrupted));
        json_put(object, "durationMs", json_integer(result->duration_ms));
        json_put(object, "summary", summary);
        json_put(object, "changes", changes);
        return object;
}
