/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads for what takes long: a sandbox opened or left, what a dead one has left looked at, files removed. Neither who asks waits for
 * it, since it is done without the engine's lock, nor the engine's thread, which hears all sandboxes. What one owner has under way
 * takes JOBS_PER_OWNER threads at most, so that his slow things hold up nobody else's.
 *
 * One is free, as long as there may be more: when it is called, a thread that does nothing else starts the next one, without the lock. Where
 * somebody's processes fork without end, the kernel may take its time for a thread, and nobody waits for that.
 * The one that became free last is called first, so that those which a calm hour has no need of stay free; one that was free for a
 * minute ends, but the last one stays.
 */
#include "sessions/engine_parts.h"

#include "base/clock.h"
#include "base/files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define JOBS_PER_OWNER 4

struct engine_job {
        struct engine_job *next;
        struct session *session; /* NULL: it is of none */
        char *owner;
        engine_work *work;
        void *context;
};

static size_t count_of_owner(const struct engine_job *job, const char *owner) {
        size_t count = 0;

        for (; job; job = job->next)
                count += strcmp(job->owner, owner) == 0;
        return count;
}

/* The first whose owner may have one more. Whoever stops waits for all of them, and nobody else's are kept waiting then. */
static struct engine_job *take_next(struct engine_jobs *jobs) {
        for (struct engine_job **link = &jobs->waiting; *link; link = &(*link)->next) {
                struct engine_job *job = *link;

                if (!jobs->stopping && count_of_owner(jobs->running, job->owner) >= JOBS_PER_OWNER)
                        continue;
                *link = job->next;
                job->next = jobs->running;
                jobs->running = job;
                return job;
        }
        return NULL;
}

static void do_job(struct engine *engine, struct engine_job *job) {
        struct engine_jobs *jobs = &engine->jobs;
        struct engine_job **link = &jobs->running;

        if (job->session)
                session_turn_take(job->session);
        job->work(engine, job->session, job->context);
        if (job->session)
                session_turn_give(job->session);
        while (*link != job)
                link = &(*link)->next;
        *link = job->next;
        if (job->session) {
                job->session->jobs--;
                engine_forget_if_over(engine, job->session);
        }
        free_text(&job->owner);
        free(job);
}

static void call_one(struct engine_jobs *jobs) {
        struct engine_thread *thread = jobs->idle;

        jobs->idle = thread->next_idle;
        thread->called = true;
        pthread_cond_signal(&thread->call);
        if (!jobs->idle)
                pthread_cond_signal(&jobs->wanted);
}

static void no_longer_idle(struct engine_jobs *jobs, const struct engine_thread *thread) {
        struct engine_thread **link = &jobs->idle;

        while (*link != thread)
                link = &(*link)->next_idle;
        *link = thread->next_idle;
}

/* False: nobody called for as long as a thread stays. */
static bool wait_for_call(struct engine_thread *thread) {
        struct engine *engine = thread->engine;
        struct engine_jobs *jobs = &engine->jobs;
        const struct timespec until = clock_after_ms(engine->config.thread_idle_ms);

        thread->called = false;
        thread->next_idle = jobs->idle;
        jobs->idle = thread;
        while (!thread->called) {
                if (pthread_cond_timedwait(&thread->call, &engine->lock, &until) == ETIMEDOUT &&
                    !thread->called) {
                        no_longer_idle(jobs, thread);
                        return false;
                }
        }
        return true;
}

/* Who ended took the lock for the last time before it said so: nobody waits here for more than its return. */
static void join_ended(struct engine_jobs *jobs) {
        for (size_t i = 0; i < ENGINE_JOB_THREADS; i++) {
                if (jobs->threads[i].state != ENGINE_THREAD_ENDED)
                        continue;
                pthread_join(jobs->threads[i].thread, NULL);
                jobs->threads[i].state = ENGINE_THREAD_NONE;
        }
}

static void *run(void *context) {
        struct engine_thread *thread = context;
        struct engine *engine = thread->engine;
        struct engine_jobs *jobs = &engine->jobs;

        pthread_mutex_lock(&engine->lock);
        for (bool fresh = true;; fresh = false) {
                struct engine_job *job = take_next(jobs);

                jobs->fresh_count -= fresh;
                if (job) {
                        if (!jobs->idle)
                                pthread_cond_signal(&jobs->wanted);
                        do_job(engine, job);
                        continue;
                }
                if (jobs->stopping)
                        break;
                if (wait_for_call(thread) || jobs->stopping || !jobs->idle ||
                    thread->state != ENGINE_THREAD_LIVES)
                        continue;
                join_ended(jobs);
                thread->state = ENGINE_THREAD_ENDED;
                jobs->thread_count--;
                break;
        }
        pthread_mutex_unlock(&engine->lock);
        return NULL;
}

/* With the lock, which is given back meanwhile. The new one may do its work before this one is back, but does not end before. */
static int start_thread(struct engine *engine) {
        struct engine_jobs *jobs = &engine->jobs;
        struct engine_thread *thread = jobs->threads;
        int code;

        join_ended(jobs);
        while (thread->state != ENGINE_THREAD_NONE)
                thread++;
        thread->engine = engine;
        thread->state = ENGINE_THREAD_STARTS;
        jobs->thread_count++;
        jobs->fresh_count++;
        pthread_mutex_unlock(&engine->lock);
        code = pthread_create(&thread->thread, NULL, run, thread);
        pthread_mutex_lock(&engine->lock);
        thread->state = code == 0 ? ENGINE_THREAD_LIVES : ENGINE_THREAD_NONE;
        if (code != 0) {
                jobs->thread_count--;
                jobs->fresh_count--;
        }
        return code;
}

/* One that cannot be had is tried again when the next one is called: until then those that are there do the work. */
static void *start_threads(void *context) {
        struct engine *engine = context;
        struct engine_jobs *jobs = &engine->jobs;

        pthread_mutex_lock(&engine->lock);
        while (!jobs->stopping) {
                if (jobs->idle || jobs->fresh_count > 0 || jobs->thread_count == ENGINE_JOB_THREADS ||
                    start_thread(engine) != 0)
                        pthread_cond_wait(&jobs->wanted, &engine->lock);
        }
        pthread_mutex_unlock(&engine->lock);
        return NULL;
}

/* One that its owner has to wait with anyway is taken by who ends another of his. Where none is free, by the next that is. */
void engine_job_add(struct engine *engine, struct session *session, const char *owner, engine_work *work,
                    void *context) {
        struct engine_jobs *jobs = &engine->jobs;
        struct engine_job *job = calloc(1, sizeof(*job)), **last = &jobs->waiting;
        size_t before = count_of_owner(jobs->running, owner) + count_of_owner(jobs->waiting, owner);

        if (!job)
                abort();
        *job = (struct engine_job){
                .session = session, .owner = record_copy_text(owner), .work = work, .context = context
        };
        if (session)
                session->jobs++;
        while (*last)
                last = &(*last)->next;
        *last = job;
        if (before >= JOBS_PER_OWNER || jobs->stopping)
                return;
        if (jobs->idle)
                call_one(jobs);
        else
                pthread_cond_signal(&jobs->wanted);
}

/* From `stopping` on none ends by being idle, and none is started. */
static void end_threads(struct engine *engine) {
        struct engine_jobs *jobs = &engine->jobs;

        pthread_mutex_lock(&engine->lock);
        jobs->stopping = true;
        while (jobs->idle)
                call_one(jobs);
        pthread_mutex_unlock(&engine->lock);
        for (size_t i = 0; i < ENGINE_JOB_THREADS; i++) {
                if (jobs->threads[i].state != ENGINE_THREAD_NONE)
                        pthread_join(jobs->threads[i].thread, NULL);
                pthread_cond_destroy(&jobs->threads[i].call);
        }
        pthread_cond_destroy(&jobs->wanted);
}

int engine_jobs_start(struct engine *engine, struct error *err) {
        struct engine_jobs *jobs = &engine->jobs;
        pthread_condattr_t attributes;
        int code;

        if (pthread_condattr_init(&attributes) != 0 ||
            pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) != 0)
                abort();
        for (size_t i = 0; i < ENGINE_JOB_THREADS; i++) {
                if (pthread_cond_init(&jobs->threads[i].call, &attributes) != 0)
                        abort();
        }
        pthread_condattr_destroy(&attributes);
        if (pthread_cond_init(&jobs->wanted, NULL) != 0)
                abort();
        pthread_mutex_lock(&engine->lock);
        code = start_thread(engine);
        pthread_mutex_unlock(&engine->lock);
        if (code == 0 && (code = pthread_create(&jobs->starter, NULL, start_threads, engine)) != 0)
                end_threads(engine);
        return code == 0 ? 0 : error_set(err, "cannot start a thread: %s", strerror(code));
}

void engine_jobs_stop(struct engine *engine) {
        struct engine_jobs *jobs = &engine->jobs;

        pthread_mutex_lock(&engine->lock);
        jobs->stopping = true;
        pthread_cond_signal(&jobs->wanted);
        pthread_mutex_unlock(&engine->lock);
        pthread_join(jobs->starter, NULL);
        end_threads(engine);
}
