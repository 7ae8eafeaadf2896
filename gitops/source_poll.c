/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is there a new commit? One look at the repository, and what it means to the source.
 *
 * A new commit takes with it all that was decided about the one before: plan, approval, allowances. A poll that fails is a
 * condition of the source and nothing more; the last good commit stays in force and drift is still looked for. Polls after a
 * failure come later and later, up to a limit; the next commit is never waited for longer than that.
 */
#include "base/clock.h"
#include "base/digest.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/log.h"
#include "gitops/backoff.h"
#include "gitops/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct git_request source_request(const struct source *source) {
        const struct source_config *config = source->config;

        return (struct git_request){
                .url = config->url,
                .branch = config->branch,
                .tag = config->tag,
                .path = config->path,
                .pattern = config->pattern,
                .credentials = config->credentials,
                .gpg_keys = config->gpg_keys,
                .gpg_key_count = config->gpg_key_count,
                .ssh_allowed_signers = config->ssh_allowed_signers,
                .fast_forward_only = config->fast_forward_only,
                .folder = source->git_folder,
        };
}

/*
 * One worker at a time in a repository, which all children of a source share. A thread that waits
 * for it gives up its slot: a server that hangs for one source must not keep all others from
 * reconciling. And a thread that waits for a slot does not hold the repository: applies take long,
 * and a parent has to poll meanwhile.
 */
static int ask_git(struct source *source, const struct git_request *request, struct arena *arena,
                   struct git_answer *ret, enum git_failure *ret_failure, struct error *err) {
        pthread_mutex_t *repository = &(source->parent ? source->parent : source)->repository;
        bool had_slot = source->has_slot;
        int result;

        while (pthread_mutex_trylock(repository) != 0) {
                if (had_slot)
                        source_give_slot(source);
                pthread_mutex_lock(repository);
                if (!had_slot)
                        break;
                pthread_mutex_unlock(repository);
                if (!source_take_slot(source)) {
                        *ret_failure = GIT_LOCAL;
                        return error_set_kind(err, ERROR_INTERRUPTED, "the controller ends");
                }
        }
        source_hear(source);
        result = git_check(request, arena, ret, ret_failure, err);
        pthread_mutex_unlock(repository);
        source_hear(source);
        return result;
}

json_t *commit_json(const struct git_answer *answer, const char *ref) {
        json_t *object = json_object();
        char time[32];

        clock_format(answer->committed_ms, time, sizeof(time));
        json_set_text(object, "id", answer->commit);
        json_set_text(object, "ref", ref);
        json_set_text(object, "subject", answer->subject ? answer->subject : "");
        json_set_text(object, "author", answer->author ? answer->author : "");
        json_object_set_new(object, "signer", json_from_text(answer->signer));
        json_set_text(object, "committedAt", time);
        return object;
}

void source_follow(struct source *source, json_t *commit) {
        struct source_status *status = &source->status;

        log_context_set("commit", status_commit(commit));
        pthread_mutex_lock(&source->lock);
        json_decref(status->seen);
        status->seen = commit;
        status->bad = false;
        json_decref(status->plan);
        status->plan = NULL;
        json_decref(status->refusals);
        status->refusals = NULL;
        status->approved[0] = '\0';
        json_decref(status->allowed);
        status->allowed = NULL;
        source->next_retry_ms = 0;
        pthread_mutex_unlock(&source->lock);
        source->failures = 0;
}

static void note_moved(struct source *source, const struct git_answer *answer) {
        source_follow(source, commit_json(answer, answer->ref));
        log_info("commit %.12s by %s: %s%s%s", answer->commit, answer->author ? answer->author : "nobody",
                 answer->subject ? answer->subject : "", answer->signer ? ", signed by " : "",
                 answer->signer ? answer->signer : "");
}

/* The same commit under another name: the next tag that was put to it. */
static void note_ref(struct source *source, const char *ref) {
        const char *before = json_text(source->status.seen, "ref");
        json_t *commit;

        if (!ref || (before && strcmp(before, ref) == 0))
                return;
        commit = json_copy(source->status.seen);
        json_set_text(commit, "ref", ref);
        pthread_mutex_lock(&source->lock);
        json_decref(source->status.seen);
        source->status.seen = commit;
        pthread_mutex_unlock(&source->lock);
}

static bool is_lasting(enum git_failure failure) {
        return failure == GIT_REWRITTEN || failure == GIT_UNVERIFIED || failure == GIT_UNSAFE_TREE ||
               failure == GIT_OVER_LIMIT;
}

/* The condition Reconciling says whether the poll will be tried again. Under the lock. */
static void set_retrying(struct source *source, bool retrying, const char *message) {
        const struct clock *clock = source->following->clock;

        status_set(&source->status, CONDITION_RECONCILING, retrying, retrying ? "Retrying" : "Idle", message,
                   status_commit(source->status.seen), clock->wall_ms(clock));
}

static void note_failure(struct source *source, enum git_failure failure, const char *commit,
                         const struct error *err) {
        struct verdict *problem = &source->status.problem;

        pthread_mutex_lock(&source->lock);
        *problem = (struct verdict){ .stalled = is_lasting(failure) };
        snprintf(problem->reason, sizeof(problem->reason), "%s", git_failure_reason(failure));
        snprintf(problem->message, sizeof(problem->message), "%.1023s", err->message);
        if (is_lasting(failure) && commit)
                snprintf(problem->commit, sizeof(problem->commit), "%s", commit);
        set_retrying(source, !problem->stalled, problem->stalled ? "" : problem->message);
        pthread_mutex_unlock(&source->lock);
        source_conclude(source);
}

static void clear_failure(struct source *source) {
        bool failed;

        pthread_mutex_lock(&source->lock);
        failed = source->status.problem.reason[0] != '\0';
        source->status.problem = (struct verdict){ 0 };
        /* An apply that failed is still to be tried again. */
        if (failed && source->next_retry_ms == 0)
                set_retrying(source, false, "");
        pthread_mutex_unlock(&source->lock);
        if (failed)
                source_conclude(source);
}

static void count_poll(struct source *source, const char *result, int64_t took_ms) {
        struct metrics *metrics = source->following->metrics;

        metrics_add(metrics, METRIC_POLLS, 1, (const char *const[]){ source->config->name, result });
        metrics_observe(metrics, METRIC_POLL_SECONDS, (double)took_ms / 1000.0,
                        (const char *const[]){ source->config->name });
}

/* When the next one is due: never later than the interval after this one's begin, so that a commit waits no longer. */
static void plan_next(struct source *source, int64_t begin_ms) {
        int64_t interval_ms = source->config->interval_ms, wait_ms;

        if (source->poll_failures)
                wait_ms = backoff_ms(source->poll_failures, interval_ms, random_unit());
        else
                wait_ms = interval_ms - (int64_t)((double)interval_ms * 0.1 * random_unit());
        pthread_mutex_lock(&source->lock);
        source->next_poll_ms = begin_ms + wait_ms;
        source->status.polled_ms = source->following->clock->wall_ms(source->following->clock);
        pthread_mutex_unlock(&source->lock);
}

static void say_warnings(const struct git_answer *answer) {
        for (size_t i = 0; i < answer->warning_count; i++)
                log_warning("%s", answer->warnings[i]);
}

static const char *accepted_rewrite(struct source *source, struct arena *arena) {
        const char *commit;

        pthread_mutex_lock(&source->lock);
        commit = arena_strdup(arena, source->status.accepted_rewrite);
        pthread_mutex_unlock(&source->lock);
        return *commit ? commit : NULL;
}

/* A rewritten commit was let in while it was the newest. Now another one is, which a person has to look at again. */
static void drop_accepted_rewrite(struct source *source, const char *newest) {
        pthread_mutex_lock(&source->lock);
        if (newest && strcmp(source->status.accepted_rewrite, newest) != 0)
                source->status.accepted_rewrite[0] = '\0';
        pthread_mutex_unlock(&source->lock);
}

enum poll_outcome source_poll(struct source *source, struct arena *arena, struct git_answer *ret) {
        const struct clock *clock = source->following->clock;
        int64_t begin_ms = clock->monotonic_ms(clock);
        struct git_request request = source_request(source);
        enum git_failure failure = GIT_LOCAL;
        struct error err = { 0 };
        int result;

        /* The thread alone writes `seen`. */
        if (source->status.seen) {
                request.have = status_commit(source->status.seen);
                request.have_ref = json_text(source->status.seen, "ref");
        }
        request.accepted_rewrite = accepted_rewrite(source, arena);
        request.interrupt = clock->interrupt;
        *ret = (struct git_answer){ 0 };
        result = ask_git(source, &request, arena, ret, &failure, &err);
        if (result < 0 && interrupt_level(clock->interrupt) > INTERRUPT_NONE)
                return POLL_INTERRUPTED;
        drop_accepted_rewrite(source, ret->commit);
        source->poll_failures = result < 0 ? source->poll_failures + 1 : 0;
        plan_next(source, begin_ms);
        if (result < 0) {
                count_poll(source, "failed", clock->monotonic_ms(clock) - begin_ms);
                note_failure(source, failure, ret->commit, &err);
                return POLL_FAILED;
        }
        count_poll(source, ret->moved ? "fetched" : "unchanged", clock->monotonic_ms(clock) - begin_ms);
        if (ret->moved) {
                say_warnings(ret);
                note_moved(source, ret);
        } else {
                note_ref(source, ret->ref);
        }
        clear_failure(source);
        return ret->moved ? POLL_MOVED : POLL_UNCHANGED;
}

/* The folder was emptied: the newest commit is asked for once more, and must be the very same. */
static int fetch_again(struct source *source, struct git_request *request, const char *commit,
                       struct arena *arena, struct git_answer *ret, enum git_failure *ret_failure,
                       struct error *err) {
        request->commit = NULL;
        request->have = commit;
        request->have_ref = json_text(source->status.seen, "ref");
        *ret = (struct git_answer){ 0 };
        return ask_git(source, request, arena, ret, ret_failure, err);
}

/* Only the commit that was verified may be put in force. */
static int check_commit(const struct source *source, const struct git_answer *answer, const char *commit,
                        struct error *err) {
        return answer->commit && strcmp(answer->commit, commit) == 0
                       ? 0
                       : error_set(err, "the repository in %s gave another commit than %s",
                                   source->git_folder, commit);
}

int source_read_included(struct source *source, const char *commit, const char *folder, struct arena *arena,
                         struct git_answer *ret, struct error *err) {
        struct git_request request = source_request(source);
        enum git_failure failure = GIT_LOCAL;

        request.commit = commit;
        request.path = folder;
        request.pattern = false; /* a commit has no pattern of its own */
        request.read_anyway = true;
        request.interrupt = source->following->clock->interrupt;
        *ret = (struct git_answer){ 0 };
        if (ask_git(source, &request, arena, ret, &failure, err) == 0)
                return check_commit(source, ret, commit, err);
        if (failure == GIT_NOT_FOUND || failure == GIT_UNSAFE_TREE || failure == GIT_OVER_LIMIT)
                err->kind = ERROR_NOT_FOUND;
        return -1;
}

int source_read_commit(struct source *source, const char *commit, struct arena *arena, struct git_answer *ret,
                       struct error *err) {
        struct git_request request = source_request(source);
        enum git_failure failure;
        int result;

        request.commit = commit;
        request.read_anyway = true;
        *ret = (struct git_answer){ 0 };
        result = ask_git(source, &request, arena, ret, &failure, err);
        if (result < 0 && failure == GIT_NOT_FOUND && strcmp(status_commit(source->status.seen), commit) == 0)
                result = fetch_again(source, &request, commit, arena, ret, &failure, err);
        if (result < 0)
                return -1;
        return check_commit(source, ret, commit, err);
}
