/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One lock guards the pool. A worker takes the first job whose owner may have one more thread, does it without the lock, and looks
 * for the next one; without any it becomes idle.
 *
 * One thread, the starter, does nothing but start workers: it keeps one of them idle until there are as many as may be. So adding
 * work never waits for pthread_create(), which takes its time on a machine where processes fork without end.
 *
 * The worker that became idle last is called first, so that the others reach the end of `idle_ms`. A worker that ends joins the one
 * that ended before it, and jobs_close() joins the last: no list of threads is needed, and none is left behind.
 */
#include "jobs/jobs.h"

#include "base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define IDLE_MS 60000

struct job {
        struct job *next;
        jobs_work *work;
        void *context;
        char owner[];
};

struct worker {
        struct worker *next_idle;
        pthread_cond_t call; /* by the monotonic clock */
        bool called;         /* and no longer in the list of idle ones */
};

struct jobs {
        struct jobs_config config;
        pthread_mutex_t lock;
        pthread_cond_t wanted; /* for the starter: no worker is idle */
        pthread_cond_t ended;  /* a worker has */
        struct job *waiting, **last_waiting, *running;
        struct worker *idle; /* the newest first */
        size_t threads;      /* workers that live or start */
        size_t fresh;        /* of them, those that have not looked for work yet */
        pthread_t starter, ended_last;
        bool starting, any_ended, stopping;
};

static size_t count_of_owner(const struct job *job, const char *owner) {
        size_t count = 0;

        for (; job; job = job->next)
                count += strcmp(job->owner, owner) == 0;
        return count;
}

/* At the end the caller of jobs_close() waits for everything: limits would only make that longer. */
static bool may_begin(const struct jobs *jobs, const char *owner) {
        return jobs->config.per_owner == 0 || jobs->stopping ||
               count_of_owner(jobs->running, owner) < jobs->config.per_owner;
}

static struct job *take_next(struct jobs *jobs) {
        struct job **link = &jobs->waiting, *job;

        while (*link && !may_begin(jobs, (*link)->owner))
                link = &(*link)->next;
        job = *link;
        if (!job)
                return NULL;
        *link = job->next;
        if (!*link)
                jobs->last_waiting = link;
        job->next = jobs->running;
        jobs->running = job;
        return job;
}

static void call_one(struct jobs *jobs) {
        struct worker *worker = jobs->idle;

        jobs->idle = worker->next_idle;
        worker->called = true;
        pthread_cond_signal(&worker->call);
        if (!jobs->idle)
                pthread_cond_signal(&jobs->wanted);
}

/* False: not called within the time that a worker stays idle. */
static bool wait_for_call(struct jobs *jobs, struct worker *worker) {
        const struct timespec until = clock_after_ms(jobs->config.idle_ms);
        struct worker **link = &jobs->idle;

        worker->called = false;
        worker->next_idle = jobs->idle;
        jobs->idle = worker;
        while (!worker->called && pthread_cond_timedwait(&worker->call, &jobs->lock, &until) != ETIMEDOUT)
                ;
        if (worker->called)
                return true;
        while (*link != worker)
                link = &(*link)->next_idle;
        *link = worker->next_idle;
        return false;
}

/* With the lock, which is free while the work is done. */
static void do_all(struct jobs *jobs) {
        for (struct job *job; (job = take_next(jobs));) {
                struct job **link = &jobs->running;

                if (!jobs->idle)
                        pthread_cond_signal(&jobs->wanted);
                pthread_mutex_unlock(&jobs->lock);
                job->work(job->context);
                pthread_mutex_lock(&jobs->lock);
                while (*link != job)
                        link = &(*link)->next;
                *link = job->next;
                free(job);
        }
}

static void init_condition(pthread_cond_t *condition) {
        pthread_condattr_t attributes;

        if (pthread_condattr_init(&attributes) != 0 ||
            pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) != 0 ||
            pthread_cond_init(condition, &attributes) != 0)
                abort();
        pthread_condattr_destroy(&attributes);
}

static void *run_worker(void *context) {
        struct jobs *jobs = context;
        struct worker worker;
        pthread_t before;
        bool is_first;

        init_condition(&worker.call);
        pthread_mutex_lock(&jobs->lock);
        jobs->fresh--;
        do {
                do_all(jobs);
        } while (!jobs->stopping && (wait_for_call(jobs, &worker) || jobs->stopping || !jobs->idle));
        before = jobs->ended_last;
        is_first = !jobs->any_ended;
        jobs->ended_last = pthread_self();
        jobs->any_ended = true;
        jobs->threads--;
        pthread_cond_signal(&jobs->ended);
        pthread_mutex_unlock(&jobs->lock);
        pthread_cond_destroy(&worker.call);
        if (!is_first)
                pthread_join(before, NULL);
        return NULL;
}

/* With the lock, which is free while the system starts it. */
static int start_worker(struct jobs *jobs) {
        pthread_t thread;
        int code;

        jobs->threads++;
        jobs->fresh++;
        pthread_mutex_unlock(&jobs->lock);
        code = pthread_create(&thread, NULL, run_worker, jobs);
        pthread_mutex_lock(&jobs->lock);
        if (code != 0) {
                jobs->threads--;
                jobs->fresh--;
        }
        return code;
}

/* Where a thread cannot be had, the next call tries again: until then the workers that live do the work. */
static void *start_workers(void *context) {
        struct jobs *jobs = context;

        pthread_mutex_lock(&jobs->lock);
        while (!jobs->stopping) {
                if (jobs->idle || jobs->fresh > 0 || jobs->threads == jobs->config.threads ||
                    start_worker(jobs) != 0)
                        pthread_cond_wait(&jobs->wanted, &jobs->lock);
        }
        pthread_mutex_unlock(&jobs->lock);
        return NULL;
}

int jobs_open(const struct jobs_config *config, struct jobs **ret, struct error *err) {
        struct jobs *jobs = calloc(1, sizeof(*jobs));
        int code;

        if (!jobs || pthread_mutex_init(&jobs->lock, NULL) != 0)
                abort();
        init_condition(&jobs->wanted);
        init_condition(&jobs->ended);
        jobs->config = *config;
        if (jobs->config.idle_ms == 0)
                jobs->config.idle_ms = IDLE_MS;
        jobs->last_waiting = &jobs->waiting;
        pthread_mutex_lock(&jobs->lock);
        code = start_worker(jobs);
        pthread_mutex_unlock(&jobs->lock);
        if (code == 0)
                code = pthread_create(&jobs->starter, NULL, start_workers, jobs);
        jobs->starting = code == 0;
        if (code != 0) {
                jobs_close(jobs);
                return error_set(err, "cannot start a thread: %s", strerror(code));
        }
        *ret = jobs;
        return 0;
}

void jobs_add(struct jobs *jobs, const char *owner, jobs_work *work, void *context) {
        size_t size = strlen(owner) + 1;
        struct job *job = malloc(sizeof(*job) + size);

        if (!job)
                abort();
        *job = (struct job){ .work = work, .context = context };
        memcpy(job->owner, owner, size);
        pthread_mutex_lock(&jobs->lock);
        *jobs->last_waiting = job;
        jobs->last_waiting = &job->next;
        if (jobs->idle && may_begin(jobs, owner))
                call_one(jobs);
        else
                pthread_cond_signal(&jobs->wanted);
        pthread_mutex_unlock(&jobs->lock);
}

void jobs_close(struct jobs *jobs) {
        if (!jobs)
                return;
        pthread_mutex_lock(&jobs->lock);
        jobs->stopping = true;
        pthread_cond_signal(&jobs->wanted);
        while (jobs->idle)
                call_one(jobs);
        pthread_mutex_unlock(&jobs->lock);
        if (jobs->starting)
                pthread_join(jobs->starter, NULL);
        pthread_mutex_lock(&jobs->lock);
        while (jobs->threads > 0)
                pthread_cond_wait(&jobs->ended, &jobs->lock);
        pthread_mutex_unlock(&jobs->lock);
        if (jobs->any_ended)
                pthread_join(jobs->ended_last, NULL);
        pthread_cond_destroy(&jobs->wanted);
        pthread_cond_destroy(&jobs->ended);
        pthread_mutex_destroy(&jobs->lock);
        free(jobs);
}
