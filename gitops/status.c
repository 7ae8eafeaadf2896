/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source's status in three forms: the struct, the JSON that people and programs see, and the same
 * JSON with a member "internal" that the state keeps and status_restore() reads back. The stored
 * form may come from another version: each member is checked for its type, and one that does not
 * fit is left out.
 *
 * Two verdicts are kept: of the repository (`problem`) and of the commit (`verdict`). The first, where there is one,
 * is what the conditions say.
 */
#include "gitops/status.h"

#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *status_condition_name(enum condition_type type) {
        static const char *const names[CONDITION_COUNT] = {
                [CONDITION_READY] = "Ready",
                [CONDITION_RECONCILING] = "Reconciling",
                [CONDITION_STALLED] = "Stalled",
        };

        return names[type];
}

const char *status_result_name(enum reconcile_result result) {
        static const char *const names[RECONCILE_RESULT_COUNT] = {
                [RECONCILE_UNCHANGED] = "unchanged", [RECONCILE_APPLIED] = "applied",
                [RECONCILE_REFUSED] = "refused",     [RECONCILE_WAITING] = "waiting",
                [RECONCILE_REPORTED] = "reported",   [RECONCILE_FAILED] = "failed",
        };

        return names[result];
}

static const char *mode_name(enum source_mode mode) {
        return mode == SOURCE_APPLY ? "apply" : mode == SOURCE_APPROVE ? "approve" : "plan";
}

static void swap_bytes(void *a, void *b, void *room, size_t size) {
        memcpy(room, a, size);
        memcpy(a, b, size);
        memcpy(b, room, size);
}

void status_exchange_decision(struct source_status *status, struct decision *decision) {
        struct decision room;

        swap_bytes(&status->allowed, &decision->allowed, &room, sizeof(status->allowed));
        swap_bytes(status->approved, decision->approved, &room, sizeof(status->approved));
        swap_bytes(status->approver, decision->approver, &room, sizeof(status->approver));
        swap_bytes(status->accepted_rewrite, decision->accepted_rewrite, &room,
                   sizeof(status->accepted_rewrite));
}

void status_init(struct source_status *status) {
        *status = (struct source_status){ .result = -1, .suspended = -1 };
}

void status_release(struct source_status *status) {
        json_decref(status->seen);
        json_decref(status->good);
        json_decref(status->refusals);
        json_decref(status->plan);
        json_decref(status->drift);
        json_decref(status->resources);
        json_decref(status->folders);
        json_decref(status->allowed);
        status_init(status);
}

const char *status_commit(const json_t *commit) {
        const char *id = json_text(commit, "id");

        return id ? id : "";
}

bool status_suspended(const struct source_status *status, const struct source_config *config) {
        return status->suspended < 0 ? config->suspended : status->suspended > 0;
}

bool status_is_rewritten(const struct source_status *status) {
        return strcmp(status->problem.reason, git_failure_reason(GIT_REWRITTEN)) == 0;
}

/* Cut at a whole character: what is cut here is shown and sent as UTF-8. */
static void copy_cut(char *to, size_t size, const char *text) {
        size_t length = strlen(text);

        if (length >= size) {
                length = size - 1;
                while (length > 0 && ((unsigned char)text[length] & 0xC0) == 0x80)
                        length--;
        }
        memmove(to, text, length);
        to[length] = '\0';
}

bool status_set(struct source_status *status, enum condition_type type, bool value, const char *reason,
                const char *message, const char *commit, int64_t now_ms) {
        struct condition *condition = &status->conditions[type];
        bool changed = condition->since_ms == 0 || condition->status != value ||
                       strcmp(condition->reason, reason) != 0;

        condition->status = value;
        copy_cut(condition->reason, sizeof(condition->reason), reason);
        copy_cut(condition->message, sizeof(condition->message), message);
        copy_cut(condition->commit, sizeof(condition->commit), commit ? commit : "");
        if (changed)
                condition->since_ms = now_ms;
        return changed;
}

bool status_conclude(struct source_status *status, int64_t now_ms) {
        const struct verdict *verdict = status->problem.reason[0] ? &status->problem : &status->verdict;

        if (!verdict->reason[0])
                return false;
        if (verdict->stalled)
                status_set(status, CONDITION_STALLED, true, verdict->reason, verdict->message,
                           verdict->commit, now_ms);
        else
                status_set(status, CONDITION_STALLED, false, "Progressing", "", verdict->commit, now_ms);
        return status_set(status, CONDITION_READY, verdict->ready, verdict->reason, verdict->message,
                          verdict->commit, now_ms);
}

/* JSON */

/* Copies: the source's own thread counts references to these without the lock under which others read them. */
static json_t *or_null(const json_t *borrowed) {
        return borrowed ? json_deep_copy(borrowed) : json_null();
}

static json_t *or_empty(const json_t *borrowed, json_t *empty) {
        if (!borrowed)
                return empty;
        json_decref(empty);
        return json_deep_copy(borrowed);
}

static json_t *condition_json(const struct condition *condition, enum condition_type type) {
        json_t *object = json_object();

        json_put(object, "type", json_string(status_condition_name(type)));
        json_put(object, "status", json_boolean(condition->status));
        json_put(object, "reason", json_string(condition->reason));
        json_put(object, "message", json_from_text(condition->message));
        json_put(object, "commit", condition->commit[0] ? json_string(condition->commit) : json_null());
        json_put(object, "since", json_from_time(condition->since_ms));
        return object;
}

json_t *status_json(const struct source_status *status, const struct source_config *config, const char *url) {
        json_t *object = json_object(), *conditions = json_array();
        bool suspended = status_suspended(status, config);

        for (int type = 0; type < CONDITION_COUNT; type++) {
                if (status->conditions[type].since_ms > 0 &&
                    json_array_append_new(conditions, condition_json(&status->conditions[type],
                                                                     (enum condition_type)type)) < 0)
                        abort();
        }
        json_put(object, "name", json_string(config->name));
        json_put(object, "parent", config->parent ? json_string(config->parent) : json_null());
        json_put(object, "url", json_from_text(url));
        json_put(object, "ref",
                 config->branch ? json_sprintf("refs/heads/%s", config->branch)
                                : json_sprintf("refs/tags/%s", config->tag));
        json_put(object, "path", config->path ? json_from_text(config->path) : json_string(""));
        json_put(object, "mode", json_string(mode_name(config->mode)));
        json_put(object, "suspended", json_boolean(suspended));
        json_put(object, "commit", or_null(status->seen));
        json_put(object, "appliedCommit", or_null(status->good));
        json_put(object, "result",
                 status->result < 0 ? json_null()
                                    : json_string(status_result_name((enum reconcile_result)status->result)));
        json_put(object, "lastPoll", json_from_time(status->polled_ms));
        json_put(object, "lastReconciled", json_from_time(status->reconciled_ms));
        json_put(object, "lastApplied", json_from_time(status->applied_ms));
        json_put(object, "lastSuccess", json_from_time(status->success_ms));
        json_put(object, "conditions", conditions);
        json_put(object, "refusals", or_empty(status->refusals, json_array()));
        json_put(object, "plan", or_null(status->plan));
        json_put(object, "drift", or_empty(status->drift, json_array()));
        json_put(object, "resources", or_empty(status->resources, json_object()));
        json_put(object, "folders", or_empty(status->folders, json_array()));
        return object;
}

static json_t *verdict_json(const struct verdict *verdict) {
        json_t *object = json_object();

        json_put(object, "ready", json_boolean(verdict->ready));
        json_put(object, "stalled", json_boolean(verdict->stalled));
        json_put(object, "reason", json_string(verdict->reason));
        json_put(object, "message", json_from_text(verdict->message));
        json_put(object, "commit", json_string(verdict->commit));
        return object;
}

static json_t *since_json(const struct source_status *status) {
        json_t *list = json_array();

        for (int type = 0; type < CONDITION_COUNT; type++) {
                if (json_array_append_new(list, json_integer(status->conditions[type].since_ms)) < 0)
                        abort();
        }
        return list;
}

json_t *status_store(const struct source_status *status, const struct source_config *config,
                     const char *url) {
        json_t *object = status_json(status, config, url), *internal = json_object();

        json_put(internal, "problem", verdict_json(&status->problem));
        json_put(internal, "verdict", verdict_json(&status->verdict));
        json_put(internal, "since", since_json(status));
        json_put(internal, "bad", json_boolean(status->bad));
        json_put(internal, "suspended", json_integer(status->suspended));
        json_put(internal, "reconciled", json_integer(status->reconciled_ms));
        json_put(internal, "applied", json_integer(status->applied_ms));
        json_put(internal, "success", json_integer(status->success_ms));
        json_put(internal, "approved", json_string(status->approved));
        json_put(internal, "approver", json_from_text(status->approver));
        json_put(internal, "acceptedRewrite", json_string(status->accepted_rewrite));
        json_put(internal, "allowed", or_empty(status->allowed, json_array()));
        json_put(object, "internal", internal);
        return object;
}

static void read_cut_text(char *to, size_t size, const json_t *object, const char *name) {
        const char *text = json_text(object, name);

        copy_cut(to, size, text ? text : "");
}

static void restore_verdict(struct verdict *verdict, const json_t *stored) {
        verdict->ready = json_is_true(json_object_get(stored, "ready"));
        verdict->stalled = json_is_true(json_object_get(stored, "stalled"));
        read_cut_text(verdict->reason, sizeof(verdict->reason), stored, "reason");
        read_cut_text(verdict->message, sizeof(verdict->message), stored, "message");
        read_cut_text(verdict->commit, sizeof(verdict->commit), stored, "commit");
}

static json_t *restore_member(const json_t *stored, const char *name, json_type type) {
        json_t *member = json_object_get(stored, name);

        return member && json_typeof(member) == type ? json_incref(member) : NULL;
}

static json_t *restore_commit(const json_t *stored, const char *name) {
        json_t *commit = restore_member(stored, name, JSON_OBJECT);

        if (strlen(status_commit(commit)) == COMMIT_SIZE - 1)
                return commit;
        json_decref(commit);
        return NULL;
}

static int restore_result(const char *name) {
        for (int result = 0; name && result < RECONCILE_RESULT_COUNT; result++) {
                if (strcmp(status_result_name((enum reconcile_result)result), name) == 0)
                        return result;
        }
        return -1;
}

static void restore_since(struct source_status *status, const json_t *list) {
        for (size_t type = 0; type < CONDITION_COUNT; type++) {
                json_int_t since = json_integer_value(json_array_get(list, type));

                if (status->conditions[type].since_ms > 0 && since > 0)
                        status->conditions[type].since_ms = since;
        }
}

void status_restore(struct source_status *status, const json_t *stored) {
        const json_t *internal = json_object_get(stored, "internal");

        status_release(status);
        if (!json_is_object(internal))
                return;
        restore_verdict(&status->problem, json_object_get(internal, "problem"));
        restore_verdict(&status->verdict, json_object_get(internal, "verdict"));
        status->seen = restore_commit(stored, "commit");
        status->good = restore_commit(stored, "appliedCommit");
        status->refusals = restore_member(stored, "refusals", JSON_ARRAY);
        status->plan = restore_member(stored, "plan", JSON_OBJECT);
        status->drift = restore_member(stored, "drift", JSON_ARRAY);
        status->resources = restore_member(stored, "resources", JSON_OBJECT);
        status->folders = restore_member(stored, "folders", JSON_ARRAY);
        status->allowed = restore_member(internal, "allowed", JSON_ARRAY);
        status->bad = json_is_true(json_object_get(internal, "bad"));
        status->suspended = (int)json_integer_or(internal, "suspended", -1);
        status->reconciled_ms = json_integer_or(internal, "reconciled", 0);
        status->applied_ms = json_integer_or(internal, "applied", 0);
        status->success_ms = json_integer_or(internal, "success", 0);
        status->result = restore_result(json_text(stored, "result"));
        read_cut_text(status->approved, sizeof(status->approved), internal, "approved");
        read_cut_text(status->approver, sizeof(status->approver), internal, "approver");
        read_cut_text(status->accepted_rewrite, sizeof(status->accepted_rewrite), internal,
                      "acceptedRewrite");
        if (strlen(status->accepted_rewrite) != COMMIT_SIZE - 1)
                status->accepted_rewrite[0] = '\0';
        if (status_conclude(status, 1))
                restore_since(status, json_object_get(internal, "since"));
}
