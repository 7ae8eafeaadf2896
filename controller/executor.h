/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs jobs that depend on one another on a small pool of threads.
 *
 * A job is run turn by turn: a turn is one call or one poll, and says whether the job is done, has failed, or wants
 * another turn at a later time. A job that waits is parked and holds no thread, so thousands may wait at once. A job
 * is begun when all it waits for are done; where one of those fails, it is skipped. Knows nothing of plans.
 */
#ifndef BERTH_CONTROLLER_EXECUTOR_H
#define BERTH_CONTROLLER_EXECUTOR_H

#include "base/clock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum job_outcome {
        JOB_DONE,
        JOB_FAILED,
        JOB_SKIPPED,     /* something it waits for failed or was skipped */
        JOB_NOT_STARTED, /* an interrupt came first */
        JOB_LEFT         /* begun, and left half-way by a second interrupt */
};

struct job {
        const size_t *after; /* indices of jobs that must be done first */
        size_t after_count;
        /*
         * Jobs of one lane share a quota: while `threads` of them are queued for it, no further one of the lane is
         * begun, so that an interrupt does not find a thousand begun jobs.
         */
        unsigned lane; /* any small number */
        bool excluded; /* never begun: counts as skipped from the start */
};

struct turn {
        int64_t not_before_ms; /* out: monotonic time of the next turn */
        bool queued;           /* out: waits for quota, nothing was sent */
        bool begun;            /* out: something was sent or written: has to be finished */
        bool done;             /* out */
};

struct executor_stats {
        size_t total, done, failed, skipped, running, waiting, queued;
};

struct executor_ops {
        /* One turn, on any thread, never two at once for one job. -1: failed. */
        int (*run)(void *context, size_t job, struct turn *turn);
        /*
         * Once for each job, in the order in which they end, on the calling thread: it may be slow,
         * no worker waits for it. Jobs that depend on this one may have run meanwhile.
         */
        void (*ended)(void *context, size_t job, enum job_outcome outcome);
        /*
         * An interrupt ends a job that had turns and was not begun by any: it gets no further one. On any thread, before its
         * ended(); must not wait. May be NULL.
         */
        void (*give_up)(void *context, size_t job);
        /* Now and then, on the calling thread. May be NULL. */
        void (*watch)(void *context, const struct executor_stats *stats);
};

/*
 * Returns when every job has ended. At INTERRUPT_FINISH nothing new is begun and what was begun is finished; at
 * INTERRUPT_NOW no further turn is taken; NULL is an interrupt that never comes. Cycles are the caller's mistake: their jobs end as skipped.
 */
void executor_run(const struct executor_ops *ops, void *context, const struct job *jobs, size_t count,
                  unsigned threads, const struct clock *clock, const struct interrupt *interrupt);

#endif
