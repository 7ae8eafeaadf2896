/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads: one for each invocation that is under way, since its answer is waited for as long as it takes. They are started when they are
 * needed, and end when nothing waits. What is urgent, a word to what runs already, does not wait for those that do. One thread stays
 * from the start on, and does what no other can be started for: where the machine has no thread more, work waits and is not lost.
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

/* With the lock, which is free meanwhile. */
static void do_all(struct aws_place *place) {
        struct place_job *job;

        while ((job = place->first)) {
                place->first = job->next;
                if (!place->first)
                        place->last = NULL;
                pthread_mutex_unlock(&place->lock);
                do_job(job);
                pthread_mutex_lock(&place->lock);
        }
}

static void *stay(void *context) {
        struct aws_place *place = context;

        pthread_mutex_lock(&place->lock);
        for (;;) {
                do_all(place);
                if (place->ends)
                        break;
                pthread_cond_wait(&place->added, &place->lock);
        }
        pthread_mutex_unlock(&place->lock);
        return NULL;
}

static void *run_jobs(void *context) {
        struct aws_place *place = context;

        pthread_mutex_lock(&place->lock);
        do_all(place);
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

/* With the place's lock. */
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
        else
                pthread_cond_signal(&place->added);
        pthread_mutex_unlock(&place->lock);
}

int place_jobs_start(struct aws_place *place, struct error *err) {
        int code = pthread_create(&place->staying, NULL, stay, place);

        place->stays = code == 0;
        return code == 0 ? 0 : error_set(err, "cannot start a thread: %s", strerror(code));
}

void place_jobs_stop(struct aws_place *place) {
        pthread_mutex_lock(&place->lock);
        while (place->threads + place->urgent_threads > 0)
                pthread_cond_wait(&place->quiet, &place->lock);
        place->ends = true;
        pthread_cond_signal(&place->added);
        pthread_mutex_unlock(&place->lock);
        if (place->stays)
                pthread_join(place->staying, NULL);
}
