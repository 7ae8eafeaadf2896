/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One commit on its way into force: load, compare with the pins, plan, tell what was found, then apply it, wait for
 * approval or report it, as the source's mode says. Each step that fails settles what the attempt came to, and says
 * whether another commit is needed (condemn_commit()) or trying again may help (attempt_give_up()).
 *
 * The lease is taken before the plan is made wherever it may be applied, so that nothing changes in between.
 *
 * The source's status is read and written under its lock, and never while anything waits. Only the source's own
 * thread is here.
 */
#include "gitops/attempt.h"

#include "base/interrupt.h"
#include "base/json.h"
#include "base/log.h"
#include "controller/report.h"
#include "controller/saved_plan.h"
#include "controller/stack_state.h"
#include "gitops/approval.h"
#include "gitops/attempt_text.h"
#include "gitops/carry_out.h"
#include "gitops/pins.h"
#include "gitops/plan_findings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HISTORY_LOOKED_AT 100 /* runs of people among them */

void attempt_fail(struct attempt *attempt, const char *reason, const char *message) {
        attempt->result = RECONCILE_FAILED;
        attempt->verdict.ready = false;
        snprintf(attempt->verdict.reason, sizeof(attempt->verdict.reason), "%s", reason);
        snprintf(attempt->verdict.message, sizeof(attempt->verdict.message), "%.1023s", message);
}

void attempt_settle(struct attempt *attempt, enum reconcile_result result, bool ready, const char *reason,
                    const char *message) {
        attempt_fail(attempt, reason, message);
        attempt->result = result;
        attempt->verdict.ready = ready;
}

int attempt_give_up(struct work *work, const char *reason, const struct error *err) {
        if (interrupt_level(work->following->clock->interrupt) > INTERRUPT_NONE) {
                work->attempt->interrupted = true;
                return -1;
        }
        work->attempt->transient = true;
        attempt_fail(work->attempt, reason, err->message);
        return -1;
}

/* Only another commit helps. `reason` is that of the condition. */
static int condemn_commit(struct work *work, const char *reason) {
        diagnostics_sort(&work->diagnostics);
        attempt_text_log(&work->diagnostics);
        work->attempt->bad = true;
        work->attempt->verdict.stalled = true;
        attempt_fail(work->attempt, reason, attempt_text_diagnostics(&work->diagnostics, work->arena));
        return -1;
}

static struct manifest_file *files_of(const struct git_answer *answer, struct arena *arena) {
        struct manifest_file *files = arena_array(arena, answer->file_count + 1, sizeof(*files));

        for (size_t i = 0; i < answer->file_count; i++)
                files[i] = (struct manifest_file){
                        .name = answer->files[i].name,
                        .bytes = answer->files[i].bytes,
                        .length = answer->files[i].length,
                        .path = answer->files[i].path,
                };
        return files;
}

/* What the Stack includes comes from the same commit, by the same process that reads what strangers wrote. */
static int read_included(void *context, const char *folder, struct arena *arena, struct manifest_file **ret,
                         size_t *ret_count, struct error *err) {
        struct work *work = context;
        struct git_answer answer;

        if (source_read_included(work->source, work->attempt->commit, folder, arena, &answer, err) < 0)
                return -1;
        *ret = files_of(&answer, arena);
        *ret_count = answer.file_count;
        return 0;
}

static int load_manifests(struct work *work) {
        const struct git_answer *answer = work->attempt->files;
        const struct manifest_tree tree = {
                .folder = work->config->path ? work->config->path : "",
                .read = read_included,
                .context = work,
        };
        struct load_options options = { .provider = work->following->args->provider,
                                        .missing_environments = true,
                                        .tree = &tree };
        const char *folder = arena_printf(work->arena, "%s@%.12s", work->source->url, work->attempt->commit);
        struct error err = { 0 };

        diagnostics_init(&work->diagnostics, work->arena);
        if (manifests_load_files(folder, files_of(answer, work->arena), answer->file_count, &options,
                                 work->arena, &work->manifests, &work->diagnostics, &err) == 0)
                return pins_hold(work->config, &work->manifests, &work->diagnostics)
                               ? 0
                               : condemn_commit(work, PINS_REASON);
        return err.kind == ERROR_DIAGNOSED ? condemn_commit(work, "InvalidManifests")
                                           : attempt_give_up(work, "InvalidManifests", &err);
}

/*
 * A stack's state in S3 is opened again for each attempt: others write to it meanwhile. The
 * source's own keeps the controller's status then, and must not hold another state of the stack.
 */
static int open_shared_state(struct work *work) {
        const char *declared = stack_state_declared(&work->manifests);
        const struct stack_state_args args = {
                .registry = work->following->args->registry,
                .manifests = &work->manifests,
                .place = work->config->state ? work->config->state : declared,
                .clock = work->following->clock,
        };
        struct error err = { 0 }, ignored;
        uint64_t serial;

        work->state = work->source->state;
        if (!args.place)
                return 0;
        if (state_serial(work->state, &serial, &err) < 0)
                return attempt_give_up(work, "StateFailed", &err);
        if (serial > 0 && state_check_lives(work->state, &ignored) == 0) {
                (void)error_set(
                        &err,
                        "the state is to lie in %s, but the source has one in %s already: move that first (berth state migrate "
                        "--state %s %s), or take it away",
                        args.place, work->source->folder, work->source->folder, args.place);
                return attempt_give_up(work, "StateFailed", &err);
        }
        if (stack_state_open(&args, STATE_CREATE, &work->shared, &err) < 0)
                return attempt_give_up(work, "StateFailed", &err);
        /* A state that has moved elsewhere must not begin again here. */
        if (state_is_unmade(work->shared) && state_check_lives(work->state, &err) < 0) {
                (void)error_context(&err, "there is no state in %s", args.place);
                return attempt_give_up(work, "StateFailed", &err);
        }
        work->state = work->shared;
        return 0;
}

/* What a controller put in force last, by the state's history; NULL where none did. */
static int find_commit_in_force(struct work *work, const char **ret, struct error *err) {
        struct history_entry *entries;
        size_t count;

        if (state_load_history(work->state, HISTORY_LOOKED_AT, work->arena, &entries, &count, err) < 0)
                return -1;
        *ret = NULL;
        for (size_t i = 0; i < count && !*ret; i++) {
                if (strcmp(entries[i].command, ATTEMPT_COMMAND) == 0)
                        *ret = entries[i].commit;
        }
        return 0;
}

/*
 * A controller that comes to another machine does not remember what it followed, and would take a rewritten history for a first
 * commit. The shared state knows. Git is asked again then, as if that one had been seen here. (Of a tag the name would be needed, too.)
 */
static int look_back(struct work *work) {
        struct source *source = work->source;
        const char *commit;
        struct error err = { 0 };
        json_t *seen;

        if (!work->shared || !source->new_here || source->parent || work->config->tag ||
            !work->config->fast_forward_only)
                return 0;
        if (find_commit_in_force(work, &commit, &err) < 0)
                return attempt_give_up(work, "StateFailed", &err);
        source->new_here = false;
        if (!commit || strlen(commit) != COMMIT_SIZE - 1 || strcmp(commit, work->attempt->commit) == 0)
                return 0;
        seen = json_object();
        json_set_text(seen, "id", commit);
        source_follow(source, seen);
        log_info("commit %.12s was in force when another machine followed", commit);
        work->attempt->ask_again = true;
        return -1;
}

/* A state belongs to one stack. A commit that names another one is wrong, and trying again does not mend it. */
static int check_stack_name(struct work *work) {
        const struct resource *stack = work->manifests.stack;
        const char *recorded, *source = work->config->name;
        struct error err = { 0 };

        if (state_load_meta(work->state, "stack", work->arena, &recorded, &err) < 0)
                return attempt_give_up(work, "StateFailed", &err);
        if (!recorded || strcmp(recorded, stack->name) == 0)
                return 0;
        diagnostics_add(
                &work->diagnostics,
                (struct diagnostic){
                        .severity = SEVERITY_ERROR,
                        .file = stack->line ? work->manifests.files[stack->file] : NULL,
                        .line = stack->line,
                        .column = stack->column,
                        .address = stack->address,
                        .span = 1,
                        .message = arena_printf(
                                work->arena,
                                "the stack is called \"%s\", and what source %s made so far belongs to \"%s\"",
                                stack->name, source, recorded),
                        .hint = "a stack cannot be renamed: give it its old name, or have another source of the Controller, with a state "
                                "of its own, follow the new one",
                });
        return condemn_commit(work, "InvalidManifests");
}

static int open_stack_provider(struct work *work) {
        const struct stack_provider_args args = {
                .registry = work->following->args->registry,
                .manifests = &work->manifests,
                .provider = work->following->args->provider,
                .folder = work->source->folder,
                .clock = work->following->clock,
                .watch = &work->following->watch,
        };
        struct error err = { 0 };

        if (stack_provider_open(&args, &work->ops, &work->provider, &err) < 0 ||
            stack_state_check_provider(state_folder(work->state), work->ops, &err) < 0)
                return attempt_give_up(work, "ProviderFailed", &err);
        return 0;
}

static int take_lease(struct work *work) {
        struct error err = { 0 };

        if (state_lease_acquire(work->state, ATTEMPT_COMMAND, &err) == 0)
                return 0;
        work->attempt->locked = err.kind == ERROR_LOCKED;
        return attempt_give_up(work, work->attempt->locked ? "Locked" : "StateFailed", &err);
}

/*
 * A plan that waits for approval is bound to its state by lineage and key. A shared state that was
 * not made yet would have others the next time: it is made for the plan, empty.
 */
static int make_for_approval(struct work *work) {
        if (work->config->mode != SOURCE_APPROVE || !state_is_unmade(work->state))
                return 0;
        if (take_lease(work) < 0)
                return -1;
        state_lease_release(work->state);
        return 0;
}

static struct plan_args planning_of(struct work *work, const struct manifests *manifests) {
        const struct source_config *config = work->config;
        struct plan_args planning = {
                .registry = work->following->args->registry,
                .manifests = manifests,
                .state = work->state,
                .provider_ops = work->ops,
                .provider = work->provider,
                .clock = work->following->clock,
                .refresh = work->attempt->full ? PLAN_REFRESH_FULL : PLAN_REFRESH_SWEEP,
                .leave_drift = !config->correct_drift,
        };
        json_t *allowed;

        /* What a person let through was meant for the newest commit, not for an older one. */
        pthread_mutex_lock(&work->source->lock);
        allowed = work->attempt->fallback ? NULL : json_deep_copy(work->source->status.allowed);
        pthread_mutex_unlock(&work->source->lock);
        planning.allowances = approval_join(config->allowances, config->allowance_count, allowed, work->arena,
                                            &planning.allowance_count);
        json_decref(allowed);
        return planning;
}

static int make_plan(struct work *work, const struct manifests *manifests) {
        struct error err = { 0 };

        work->planning = planning_of(work, manifests);
        if (plan_make(&work->planning, work->arena, &work->plan, &err) == 0)
                return 0;
        work->attempt->locked = err.kind == ERROR_LOCKED;
        if (err.kind != ERROR_DIAGNOSED)
                return attempt_give_up(work, work->attempt->locked ? "Locked" : "PlanFailed", &err);
        for (size_t i = 0; i < work->manifests.missing_count; i++)
                diagnostics_add(&work->diagnostics, work->manifests.missing[i].diagnostic);
        return condemn_commit(work, "InvalidManifests");
}

/* Approval */

static bool is_approved(const struct work *work) {
        const struct source_status *status = &work->source->status;
        const char *id = json_text(status->plan, "id"), *commit = json_text(status->plan, "commit");
        bool approved;

        pthread_mutex_lock(&work->source->lock);
        approved = status->approved[0] && id && commit && strcmp(id, status->approved) == 0 &&
                   strcmp(commit, work->attempt->commit) == 0;
        pthread_mutex_unlock(&work->source->lock);
        return work->config->mode == SOURCE_APPROVE && approved;
}

static void forget_approval(struct work *work, const char *why) {
        pthread_mutex_lock(&work->source->lock);
        work->source->status.approved[0] = '\0';
        json_decref(work->source->status.plan);
        work->source->status.plan = NULL;
        pthread_mutex_unlock(&work->source->lock);
        if (why)
                log_warning("the approved plan does not fit any more (plan-stale: %s): planning again", why);
        (void)unlink(work->source->plan_path);
}

static int open_saved(struct work *work, struct error *err) {
        struct state *state = work->state;

        if (saved_plan_read(work->source->plan_path, state, work->arena, &work->saved, err) < 0)
                return -1;
        return work->saved.needs_secrets
                       ? saved_plan_restore_secrets(&work->saved, &work->manifests, state, work->arena, err)
                       : 0;
}

/* Makes the very plan that was approved, and sets work->approved; where it does not fit any more, returns 0 without. -1: another failure. */
static int plan_approved(struct work *work) {
        struct error err = { 0 };

        if (open_saved(work, &err) < 0) {
                forget_approval(work, err.message);
                return 0;
        }
        if (make_plan(work, &work->saved.manifests) < 0)
                return -1;
        if (saved_plan_compare(&work->saved, &work->plan, work->arena, &err) < 0)
                return attempt_give_up(work, "PlanFailed", &err);
        for (size_t i = 0; i < work->plan.refusal_count; i++) {
                if (strcmp(work->plan.refusals[i].id, "plan-stale") == 0) {
                        forget_approval(work, work->plan.refusals[i].message);
                        return 0;
                }
        }
        work->approved = true;
        return 0;
}

static int make_any_plan(struct work *work) {
        if (work->apply_saved && plan_approved(work) < 0)
                return -1;
        return work->approved ? 0 : make_plan(work, &work->manifests);
}

/* From here on drift is measured against this commit, however many of its changes succeed: an older one would undo them. */
static void put_in_force(struct work *work) {
        struct source_status *status = &work->source->status;

        work->attempt->in_force = true;
        if (work->attempt->fallback)
                return;
        pthread_mutex_lock(&work->source->lock);
        json_decref(status->good);
        status->good = json_incref(status->seen);
        pthread_mutex_unlock(&work->source->lock);
}

/* Drift that is to stay is no failure, but it is mentioned as long as it is there. */
static void mention_left_drift(struct work *work) {
        struct attempt *attempt = work->attempt;
        char message[sizeof(attempt->verdict.message)];
        size_t left = 0;

        for (size_t i = 0; i < work->plan.drift_count; i++)
                left += !work->config->correct_drift || work->plan.drifts[i].left_count > 0;
        if (left == 0 || !attempt->verdict.ready)
                return;
        snprintf(message, sizeof(message), "%.800s; %zu drifted, left as found", attempt->verdict.message,
                 left);
        attempt_settle(attempt, attempt->result == RECONCILE_UNCHANGED ? RECONCILE_REPORTED : attempt->result,
                       true, "Applied", message);
}

static void wait_for_allowance(struct work *work) {
        json_t *refusals JSON_CLEANUP = approval_refusals_json(&work->plan);

        attempt_settle(work->attempt, RECONCILE_REFUSED, false, "Refused",
                       approval_refusals_text(refusals, work->arena));
        work->attempt->verdict.stalled = true;
}

static void set_plan(struct work *work, json_t *plan) {
        pthread_mutex_lock(&work->source->lock);
        json_decref(work->source->status.plan);
        work->source->status.plan = plan;
        pthread_mutex_unlock(&work->source->lock);
}

static void wait_for_approval(struct work *work) {
        const char *before = json_text(work->source->status.plan, "id"), *text;
        char id[PLAN_ID_SIZE];
        struct error err = { 0 };
        bool known;
        json_t *plan;

        approval_plan_id(&work->plan, work->attempt->commit, id);
        known = before && strcmp(before, id) == 0 && access(work->source->plan_path, F_OK) == 0;
        text = arena_printf(work->arena, "plan %s: %s", id, attempt_text_planned(&work->plan, work->arena));
        if (!known) {
                (void)unlink(work->source->plan_path);
                if (saved_plan_write(work->source->plan_path, &work->planning, &work->plan, &err) < 0) {
                        (void)attempt_give_up(work, "StateFailed", &err);
                        return;
                }
                plan = approval_plan_json(&work->plan, work->attempt->commit, id);
                source_tell(work->source, NOTIFY_APPROVAL, work->attempt->commit, "WaitingForApproval", text,
                            json_pack("{s:O}", "plan", plan));
                set_plan(work, plan);
        }
        attempt_settle(work->attempt, RECONCILE_WAITING, false, "WaitingForApproval", text);
}

static void report_plan(struct work *work) {
        char id[PLAN_ID_SIZE];

        approval_plan_id(&work->plan, work->attempt->commit, id);
        set_plan(work, plan_has_changes(&work->plan) || plan_has_refusals(&work->plan)
                               ? approval_plan_json(&work->plan, work->attempt->commit, id)
                               : NULL);
        put_in_force(work);
        attempt_settle(work->attempt,
                       plan_has_changes(&work->plan) ? RECONCILE_REPORTED : RECONCILE_UNCHANGED, true,
                       "Planned",
                       plan_has_changes(&work->plan) ? attempt_text_planned(&work->plan, work->arena)
                                                     : attempt_text_unchanged(&work->plan, work->arena));
}

static void decide_by_mode(struct work *work) {
        bool waits = work->config->mode == SOURCE_APPROVE && !work->approved &&
                     (plan_has_changes(&work->plan) || plan_has_refusals(&work->plan));

        if (work->config->mode == SOURCE_PLAN)
                report_plan(work);
        else if (waits)
                wait_for_approval(work);
        else if (plan_has_refusals(&work->plan))
                wait_for_allowance(work);
        else {
                put_in_force(work);
                carry_out_plan(work);
        }
        mention_left_drift(work);
}

static void plan_and_decide(struct work *work) {
        bool may_apply;

        /*
         * As on the command line: a run that may change something takes the lease before the plan
         * is made.
         */
        work->apply_saved = is_approved(work);
        may_apply = work->config->mode == SOURCE_APPLY || work->apply_saved;
        if (open_stack_provider(work) < 0 || make_for_approval(work) < 0 ||
            (may_apply && take_lease(work) < 0))
                return;
        if (make_any_plan(work) == 0) {
                plan_findings_tell(work);
                decide_by_mode(work);
                plan_findings_count(work);
        }
        if (may_apply)
                state_lease_release(work->state);
}

void attempt_run(struct attempt *attempt) {
        struct work work = {
                .attempt = attempt,
                .source = attempt->source,
                .following = attempt->source->following,
                .config = attempt->source->config,
                .arena = attempt->arena,
        };

        snprintf(attempt->verdict.commit, sizeof(attempt->verdict.commit), "%s", attempt->commit);
        if (load_manifests(&work) == 0 && open_shared_state(&work) == 0 && look_back(&work) == 0 &&
            check_stack_name(&work) == 0)
                plan_and_decide(&work);
        saved_plan_release(&work.saved);
        if (work.ops)
                work.ops->close(work.provider);
        state_close(work.shared);
}
