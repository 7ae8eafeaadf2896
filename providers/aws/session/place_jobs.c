/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads: one for each invocation that is under way, since its answer is waited for as long as it takes. They are started when they are
 * needed, and end when nothing waits. What is urgent, a word to what runs already, does not wait for those that do.
 */
#include "providers/aws/session/place_parts.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

#define URGENT_MAX 16

static void do_job(struct place_job *job) {
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

static void end_thread(struct aws_place *place, size_t *threads) {
        (*threads)--;
        if (place->threads + place->urgent_threads == 0)
                pthread_cond_broadcast(&place->quiet);
}

static void *run_jobs(void *context) {
        struct aws_place *place = context;
        struct place_job *job;

        pthread_mutex_lock(&place->lock);
        while ((job = place->first)) {
                place->first = job->next;
                if (!place->first)
                        place->last = NULL;
                pthread_mutex_unlock(&place->lock);
                do_job(job);
                pthread_mutex_lock(&place->lock);
        }
        end_thread(place, &place->threads);
        pthread_mutex_unlock(&place->lock);
        return NULL;
}

static void *run_urgent(void *context) {
        struct place_job *job = context;
        struct aws_place *place = job->session->place;

        do_job(job);
        pthread_mutex_lock(&place->lock);
        end_thread(place, &place->urgent_threads);
        pthread_mutex_unlock(&place->lock);
        return NULL;
}

/* With the place's lock. A machine without a thread more has some that go on as they end. */
static bool start(void *(*run)(void *), void *context) {
        pthread_t thread;
        int code = pthread_create(&thread, NULL, run, context);

        if (code == 0)
                pthread_detach(thread);
        else
                log_warning("sessions on AWS: no thread can be started: %s", strerror(code));
        return code == 0;
}

void place_jobs_add(struct aws_place *place, struct place_session *session, place_work *work, bool urgent) {
        struct place_job *job = calloc(1, sizeof(*job));

        if (!job)
                abort();
        *job = (struct place_job){ .session = session, .work = work };
        pthread_mutex_lock(&session->lock);
        session->jobs++;
        pthread_mutex_unlock(&session->lock);
        pthread_mutex_lock(&place->lock);
        if (urgent && place->urgent_threads < URGENT_MAX && start(run_urgent, job)) {
                place->urgent_threads++;
                pthread_mutex_unlock(&place->lock);
                return;
        }
        if (urgent) {
                job->next = place->first;
                place->first = job;
                place->last = place->last ? place->last : job;
        } else {
                *(place->last ? &place->last->next : &place->first) = job;
                place->last = job;
        }
        if (place->threads < place->config.running_max && start(run_jobs, place))
                place->threads++;
        else if (place->threads == 0)
                abort(); /* nobody would ever do it */
        pthread_mutex_unlock(&place->lock);
}

void place_jobs_stop(struct aws_place *place) {
        pthread_mutex_lock(&place->lock);
        while (place->threads + place->urgent_threads > 0)
                pthread_cond_wait(&place->quiet, &place->lock);
        pthread_mutex_unlock(&place->lock);
}
