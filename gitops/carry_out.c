/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan applied by the controller. The result decides what happens to decisions: those that let
 * this plan through were for one apply and are used up, unless an interrupt left part of it undone.
 */
#include "gitops/carry_out.h"

#include "base/json.h"
#include "base/log.h"
#include "controller/apply.h"
#include "controller/record.h"
#include "controller/report.h"
#include "gitops/approval.h"
#include "gitops/attempt_text.h"

#include <string.h>
#include <unistd.h>

/* The log's context belongs to the thread: it is set for this line and taken away again. */
static void on_ended(void *context, const struct change *change, const struct change_result *result) {
        struct work *work = context;

        log_context_set("source", work->config->name);
        log_context_set("commit", work->attempt->commit);
        log_context_set("change", change->address);
        if (result->outcome == JOB_FAILED)
                log_error("%s %s failed: %s", action_name(change->action), change->address,
                          result->error.message);
        else if (result->outcome == JOB_DONE)
                log_info("%s %s done", action_name(change->action), change->address);
        log_context_set("change", NULL);
}

static void on_executor_progress(void *context, const struct executor_stats *stats, int64_t elapsed_ms) {
        struct work *work = context;

        (void)stats;
        (void)elapsed_ms;
        source_hear(work->source);
}

static bool has_news_for_state(const struct plan *plan) {
        for (size_t i = 0; i < plan->subject_count; i++) {
                if (record_is_stale(&plan->subjects[i]))
                        return true;
        }
        return false;
}

/* Approvals and allowances are for one apply. After it no plan waits any more. */
static void consume_decisions(struct work *work) {
        struct source_status *status = &work->source->status;

        pthread_mutex_lock(&work->source->lock);
        if (!work->attempt->fallback) {
                json_decref(status->allowed);
                status->allowed = NULL;
        }
        if (strcmp(status->accepted_rewrite, work->attempt->commit) == 0)
                status->accepted_rewrite[0] = '\0';
        status->approved[0] = '\0';
        json_decref(status->plan);
        status->plan = NULL;
        pthread_mutex_unlock(&work->source->lock);
        (void)unlink(work->source->plan_path);
}

/* Told to others: what was done, not a thousand lines of it. */
static json_t *result_json(const struct work *work, const struct apply_result *result) {
        json_t *document = report_result_json(&work->plan, result),
               *changes = json_object_get(document, "changes");

        while (json_array_size(changes) > APPROVAL_LIST_MAX)
                json_array_remove(changes, json_array_size(changes) - 1);
        return document;
}

static void note_applied(struct work *work, const struct apply_result *result) {
        const char *text = attempt_text_applied(&work->plan, result, work->arena);

        if (!result->interrupted || !result->skipped)
                consume_decisions(work);
        pthread_mutex_lock(&work->source->lock);
        if (result->done)
                work->source->status.applied_ms = work->following->clock->wall_ms(work->following->clock);
        if (!result->failed && !result->skipped && work->config->correct_drift) {
                json_decref(work->source->status.drift);
                work->source->status.drift = report_left_drift_json(&work->plan);
                while (json_array_size(work->source->status.drift) > APPROVAL_LIST_MAX)
                        json_array_remove(work->source->status.drift, APPROVAL_LIST_MAX);
        }
        pthread_mutex_unlock(&work->source->lock);
        if (result->done)
                source_tell(work->source, NOTIFY_APPLIED, work->attempt->commit, "Applied", text,
                            json_pack("{s:o}", "result", result_json(work, result)));
        if (result->failed) {
                work->attempt->transient = true;
                attempt_fail(work->attempt, "ApplyFailed",
                             attempt_text_failed(&work->plan, result, work->arena));
                return;
        }
        if (result->interrupted && result->skipped) {
                work->attempt->interrupted = true;
                return;
        }
        attempt_settle(work->attempt, result->done ? RECONCILE_APPLIED : RECONCILE_UNCHANGED, true, "Applied",
                       result->done ? text : attempt_text_unchanged(&work->plan, work->arena));
}

/* Whose decision lets this plan, or its commit, through; NULL: it needed none. */
static const char *approver_of(struct work *work) {
        const struct source_status *status = &work->source->status;
        const char *approver = NULL;

        pthread_mutex_lock(&work->source->lock);
        if (!work->attempt->fallback && (work->approved || json_array_size(status->allowed) ||
                                         strcmp(status->accepted_rewrite, work->attempt->commit) == 0))
                approver = arena_strdup(work->arena, status->approver);
        pthread_mutex_unlock(&work->source->lock);
        return approver && *approver ? approver : NULL;
}

void carry_out_plan(struct work *work) {
        struct apply_watcher watcher = { .context = work,
                                         .ended = on_ended,
                                         .progress = on_executor_progress };
        struct apply_args args = {
                .planning = &work->planning,
                .plan = &work->plan,
                .command = ATTEMPT_COMMAND,
                .commit = work->attempt->commit,
                .approved_by = approver_of(work),
                .parallel = work->following->args->parallel,
                .interrupt = work->following->clock->interrupt,
                .watcher = &watcher,
        };
        struct apply_result result = { 0 };
        struct error err = { 0 };
        bool needed = plan_has_changes(&work->plan) || has_news_for_state(&work->plan);

        if (needed && apply_plan(&args, work->arena, &result, &err) < 0)
                (void)attempt_give_up(work, "StateFailed", &err);
        else
                note_applied(work, &result);
}
