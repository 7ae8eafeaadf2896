/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One reconciliation of a source: which commit, when again, and what is said of it.
 *
 * The newest commit is tried. If it is not put in force (its manifests are wrong, a guard refuses), the last good one keeps
 * what exists true at each full look. SLOT_COUNT sources reconcile at once, which bounds memory; the others wait for a slot.
 */
#include "base/clock.h"
#include "base/digest.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "gitops/attempt.h"
#include "gitops/backoff.h"
#include "gitops/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOCK_RETRY_MS (3 * 1000)

bool source_take_slot(struct source *source) {
        struct following *following = source->following;
        bool stopping;

        pthread_mutex_lock(&following->slot_lock);
        while (following->slots_taken == SLOT_COUNT && !atomic_load(&following->stopping)) {
                const struct timespec until = clock_after_ms(1000);

                pthread_cond_timedwait(&following->slot_free, &following->slot_lock, &until);
                source_hear(source);
        }
        stopping = atomic_load(&following->stopping);
        if (!stopping)
                following->slots_taken++;
        pthread_mutex_unlock(&following->slot_lock);
        source->has_slot = !stopping;
        return !stopping;
}

void source_give_slot(struct source *source) {
        struct following *following = source->following;

        if (!source->has_slot)
                return;
        source->has_slot = false;
        pthread_mutex_lock(&following->slot_lock);
        following->slots_taken--;
        pthread_cond_signal(&following->slot_free);
        pthread_mutex_unlock(&following->slot_lock);
}

static void set_reconciling(struct source *source, bool value, const char *reason, const char *message,
                            const char *commit) {
        const struct clock *clock = source->following->clock;

        pthread_mutex_lock(&source->lock);
        status_set(&source->status, CONDITION_RECONCILING, value, reason, message, commit,
                   clock->wall_ms(clock));
        pthread_mutex_unlock(&source->lock);
}

/* Brings one commit into force; its files are read again if they are not in memory. */
static void try_commit(struct attempt *attempt, const struct git_answer *answer) {
        struct git_answer read;
        struct error err = { 0 };

        if (answer && answer->commit && strcmp(answer->commit, attempt->commit) == 0) {
                attempt->files = answer;
        } else if (source_read_commit(attempt->source, attempt->commit, attempt->arena, &read, &err) == 0) {
                attempt->files = &read;
        } else {
                attempt->interrupted =
                        interrupt_level(attempt->source->following->clock->interrupt) > INTERRUPT_NONE;
                attempt->transient = true;
                snprintf(attempt->verdict.commit, sizeof(attempt->verdict.commit), "%s", attempt->commit);
                attempt_fail(attempt, "SourceFailed", err.message);
                return;
        }
        attempt_run(attempt);
        attempt->files = NULL;
}

static void copy_commit(char to[COMMIT_SIZE], const json_t *commit) {
        snprintf(to, COMMIT_SIZE, "%s", status_commit(commit));
}

static void count_attempt(struct source *source, const struct attempt *attempt, int64_t took_ms) {
        struct metrics *metrics = source->following->metrics;
        const char *name = source->config->name;

        metrics_add(metrics, METRIC_RECONCILES, 1,
                    (const char *const[]){ name, status_result_name(attempt->result) });
        metrics_observe(metrics, METRIC_RECONCILE_SECONDS, (double)took_ms / 1000.0,
                        (const char *const[]){ name });
}

static int exit_code_of_attempt(const struct attempt *attempt) {
        if (attempt->locked)
                return 4;
        if (attempt->result == RECONCILE_FAILED)
                return 1;
        return attempt->refused || attempt->result == RECONCILE_REFUSED ||
                               attempt->result == RECONCILE_WAITING
                       ? 3
                       : 0;
}

/* When to try again: under the lock. */
static void plan_retry(struct source *source, const struct attempt *attempt) {
        const struct clock *clock = source->following->clock;
        int64_t now_ms = clock->monotonic_ms(clock);

        source->next_retry_ms = 0;
        if (attempt->locked) {
                source->next_retry_ms = now_ms + LOCK_RETRY_MS;
                return;
        }
        if (!attempt->transient) {
                source->failures = 0;
                return;
        }
        source->failures++;
        source->next_retry_ms =
                now_ms + backoff_ms(source->failures, source->config->interval_ms, random_unit());
}

/* What the newest commit came to is what the source has come to. */
static void conclude_attempt(struct source *source, const struct attempt *attempt) {
        struct source_status *status = &source->status;
        const struct clock *clock = source->following->clock;
        int64_t wall_ms = clock->wall_ms(clock);

        pthread_mutex_lock(&source->lock);
        /* A state that is locked says nothing new about a commit that is in force. */
        if (!attempt->locked || !status->verdict.reason[0])
                status->verdict = attempt->verdict;
        status->bad = attempt->bad;
        if (!attempt->locked)
                status->result = (int)attempt->result;
        status->reconciled_ms = wall_ms;
        if (attempt->verdict.ready)
                status->success_ms = wall_ms;
        plan_retry(source, attempt);
        source->reached_end = source->reached_end || (!attempt->transient && !attempt->locked);
        if (source->exit_code == 0)
                source->exit_code = exit_code_of_attempt(attempt);
        pthread_mutex_unlock(&source->lock);
        if (attempt->verdict.ready)
                metrics_set(source->following->metrics, METRIC_LAST_SUCCESS, (double)wall_ms / 1000.0,
                            (const char *const[]){ source->config->name });
        source_conclude(source);
}

/* The newest commit is not in force: what the last good one says is kept true meanwhile. */
static void fall_back(struct source *source, const char *good, struct arena *arena) {
        struct attempt attempt = {
                .source = source, .arena = arena, .commit = good, .full = true, .fallback = true
        };

        log_context_set("commit", good);
        log_info("looking for drift from the last good commit %.12s", good);
        try_commit(&attempt, NULL);
        if (!attempt.interrupted && attempt.result == RECONCILE_FAILED)
                log_warning("the last good commit %.12s: %s: %s", good, attempt.verdict.reason,
                            attempt.verdict.message);
}

/* False where the program is to end. */
static bool try_newest(struct source *source, const struct reconcile_args *args, struct attempt *attempt) {
        const struct clock *clock = source->following->clock;
        int64_t begin_ms = clock->monotonic_ms(clock);
        const char *reason;

        log_context_set("commit", attempt->commit);
        set_reconciling(source, true, "Reconciling", "", attempt->commit);
        try_commit(attempt, args->answer);
        reason = attempt->locked ? "Locked" : attempt->transient ? "Retrying" : "Idle";
        set_reconciling(source, attempt->transient, reason,
                        attempt->transient ? attempt->verdict.message : "", attempt->commit);
        source->ask_again = attempt->ask_again;
        if (attempt->interrupted || attempt->ask_again)
                return false;
        count_attempt(source, attempt, clock->monotonic_ms(clock) - begin_ms);
        if (args->full && !attempt->transient)
                source->looked = true;
        conclude_attempt(source, attempt);
        return true;
}

void source_reconcile(struct source *source, const struct reconcile_args *args, struct arena *arena) {
        char seen[COMMIT_SIZE], good[COMMIT_SIZE];
        struct attempt attempt = { .source = source, .arena = arena, .commit = seen, .full = args->full };
        bool skip, stands;

        if (!source_take_slot(source))
                return;
        copy_commit(seen, source->status.seen);
        copy_commit(good, source->status.good);
        /* Invalid manifests stay invalid: reading them again changes nothing. */
        skip = source->status.bad && !args->again && !(args->answer && args->answer->moved);
        if (skip || try_newest(source, args, &attempt)) {
                stands = !attempt.in_force && !attempt.locked && attempt.result != RECONCILE_WAITING;
                if (args->full && stands && good[0] && strcmp(good, seen) != 0)
                        fall_back(source, good, arena);
        }
        source_give_slot(source);
}
