/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads for what takes long: a sandbox opened or left, what a dead one has left looked at, files removed. Neither who asks waits for
 * it, since it is done without the engine's lock, nor the engine's thread, which hears all sandboxes. What one owner has under way
 * takes JOBS_PER_OWNER threads at most, so that his slow things hold up nobody else's.
 *
 * A thread is started when there is more to do than threads that are free, and stays then.
 */
#include "sessions/engine_parts.h"

#include "base/files.h"

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

static size_t count_of_owner(const struct engine_jobs *jobs, const char *owner) {
        size_t count = 0;

        for (const struct engine_job *job = jobs->running; job; job = job->next)
                count += strcmp(job->owner, owner) == 0;
        return count;
}

/* The first whose owner may have one more. Whoever stops waits for all of them, and nobody else's are kept waiting then. */
static struct engine_job *take_next(struct engine_jobs *jobs) {
        for (struct engine_job **link = &jobs->waiting; *link; link = &(*link)->next) {
                struct engine_job *job = *link;

                if (!jobs->stopping && count_of_owner(jobs, job->owner) >= JOBS_PER_OWNER)
                        continue;
                *link = job->next;
                jobs->waiting_count--;
                job->next = jobs->running;
                jobs->running = job;
                jobs->running_count++;
                return job;
        }
        return NULL;
}

static void do_job(struct engine *engine, struct engine_job *job) {
        struct engine_jobs *jobs = &engine->jobs;
        struct engine_job **link = &jobs->running;

        job->work(engine, job->session, job->context);
        while (*link != job)
                link = &(*link)->next;
        *link = job->next;
        jobs->running_count--;
        if (job->session) {
                job->session->jobs--;
                engine_forget_if_over(engine, job->session);
        }
        free_text(&job->owner);
        free(job);
}

static void *run(void *context) {
        struct engine *engine = context;
        struct engine_jobs *jobs = &engine->jobs;

        pthread_mutex_lock(&engine->lock);
        for (;;) {
                struct engine_job *job = take_next(jobs);

                if (job)
                        do_job(engine, job);
                else if (jobs->stopping)
                        break;
                else
                        pthread_cond_wait(&jobs->wanted, &engine->lock);
        }
        pthread_mutex_unlock(&engine->lock);
        return NULL;
}

static int start_thread(struct engine *engine) {
        struct engine_jobs *jobs = &engine->jobs;
        int code = pthread_create(&jobs->threads[jobs->thread_count], NULL, run, engine);

        jobs->thread_count += code == 0;
        return code;
}

/* Where no more threads can be had, those that are there do it. */
void engine_job_add(struct engine *engine, struct session *session, const char *owner, engine_work *work,
                    void *context) {
        struct engine_jobs *jobs = &engine->jobs;
        struct engine_job *job = calloc(1, sizeof(*job)), **last = &jobs->waiting;

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
        jobs->waiting_count++;
        if (!jobs->stopping && jobs->waiting_count > jobs->thread_count - jobs->running_count &&
            jobs->thread_count < ENGINE_JOB_THREADS)
                (void)start_thread(engine);
        pthread_cond_signal(&jobs->wanted);
}

int engine_jobs_start(struct engine *engine, struct error *err) {
        int code;

        pthread_cond_init(&engine->jobs.wanted, NULL);
        code = start_thread(engine);
        return code == 0 ? 0 : error_set(err, "cannot start a thread: %s", strerror(code));
}

void engine_jobs_stop(struct engine *engine) {
        struct engine_jobs *jobs = &engine->jobs;

        pthread_mutex_lock(&engine->lock);
        jobs->stopping = true;
        pthread_cond_broadcast(&jobs->wanted);
        pthread_mutex_unlock(&engine->lock);
        for (size_t i = 0; i < jobs->thread_count; i++)
                pthread_join(jobs->threads[i], NULL);
        pthread_cond_destroy(&jobs->wanted);
}
