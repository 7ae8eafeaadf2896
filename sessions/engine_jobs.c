/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that takes long, on the engine's pool of threads: a sandbox opened or left, the rest of a dead one examined, files removed. Neither
 * the caller waits for it, since it runs without the engine's lock, nor the engine's thread, which hears all sandboxes.
 */
#include "sessions/engine_parts.h"

#include <stdlib.h>

#define JOB_THREADS 64
#define JOBS_PER_OWNER 4

struct engine_job {
        struct engine *engine;
        struct session *session; /* NULL: it belongs to none */
        engine_work *work;
        void *context;
};

static void do_engine_job(void *context) {
        struct engine_job *job = context;
        struct engine *engine = job->engine;
        struct session *session = job->session;

        pthread_mutex_lock(&engine->lock);
        if (session)
                session_turn_take(session);
        job->work(engine, session, job->context);
        if (session) {
                session_turn_give(session);
                session->jobs--;
                engine_forget_if_over(engine, session);
        }
        pthread_mutex_unlock(&engine->lock);
        free(job);
}

void engine_job_add(struct engine *engine, struct session *session, const char *owner, engine_work *work,
                    void *context) {
        struct engine_job *job = malloc(sizeof(*job));

        if (!job)
                abort();
        *job = (struct engine_job){ engine, session, work, context };
        if (session)
                session->jobs++;
        jobs_add(engine->jobs, owner, do_engine_job, job);
}

int engine_jobs_start(struct engine *engine, struct error *err) {
        const struct jobs_config config = { .threads = JOB_THREADS,
                                            .per_owner = JOBS_PER_OWNER,
                                            .idle_ms = engine->config.thread_idle_ms };

        return jobs_open(&config, &engine->jobs, err);
}

void engine_jobs_stop(struct engine *engine) {
        jobs_close(engine->jobs);
        engine->jobs = NULL;
}
