/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads: one for each invocation that is under way, since its answer is waited for as long as it takes. Urgent work, a word to what runs
 * already, has a pool of its own, so that it does not wait for invocations.
 */
#include "providers/aws/session/place_parts.h"

#include <stdlib.h>

#define URGENT_MAX 16

struct place_job {
        struct place_session *session;
        place_work *work;
};

static void run_place_job(void *context) {
        struct place_job *job = context;
        struct place_session *session = job->session;

        job->work(session);
        pthread_mutex_lock(&session->lock);
        session->jobs--;
        /* From here on it may be gone as soon as the lock is free. */
        pthread_cond_broadcast(&session->changed);
        place_wake(session);
        pthread_mutex_unlock(&session->lock);
        free(job);
}

void place_jobs_add(struct aws_place *place, struct place_session *session, place_work *work, bool urgent) {
        struct place_job *job = malloc(sizeof(*job));

        if (!job)
                abort();
        *job = (struct place_job){ session, work };
        pthread_mutex_lock(&session->lock);
        session->jobs++;
        pthread_mutex_unlock(&session->lock);
        jobs_add(urgent ? place->urgent : place->invocations, session->owner, run_place_job, job);
}

int place_jobs_start(struct aws_place *place, struct error *err) {
        const struct jobs_config invocations = { .threads = place->config.running_max },
                                 urgent = { .threads = URGENT_MAX };

        return jobs_open(&invocations, &place->invocations, err) < 0 ||
                               jobs_open(&urgent, &place->urgent, err) < 0
                       ? -1
                       : 0;
}

void place_jobs_stop(struct aws_place *place) {
        jobs_close(place->invocations);
        jobs_close(place->urgent);
}
