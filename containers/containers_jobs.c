/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads for what takes long: sandboxes that are opened, left and cleared. What came first is done first, but of one owner no more than
 * CONTAINERS_THREADS_OF_OWNER at a time: who asks for hundreds waits for himself.
 */
#include "containers/containers_parts.h"

#include <stdlib.h>
#include <string.h>

static struct container_job *next_job(struct containers *containers) {
        for (struct container_job *job = containers->jobs; job; job = job->next) {
                size_t running = 0;

                for (const struct container_job *other = containers->jobs; other; other = other->next)
                        running += other->running &&
                                   strcmp(other->container->record.owner, job->container->record.owner) == 0;
                if (!job->running && running < CONTAINERS_THREADS_OF_OWNER)
                        return job;
        }
        return NULL;
}

static void remove_job(struct containers *containers, struct container_job *job) {
        struct container_job **link = &containers->jobs;

        while (*link != job)
                link = &(*link)->next;
        *link = job->next;
        free(job);
}

static void *run(void *context) {
        struct containers *containers = context;

        pthread_mutex_lock(&containers->lock);
        while (!containers->stopping) {
                struct container_job *job = next_job(containers);

                if (!job) {
                        pthread_cond_wait(&containers->job_added, &containers->lock);
                        continue;
                }
                job->running = true;
                job->work(containers, job->container);
                remove_job(containers, job);
                /* One of the same owner may have waited for it. */
                pthread_cond_broadcast(&containers->job_added);
                containers_wake(containers);
        }
        pthread_mutex_unlock(&containers->lock);
        return NULL;
}

void containers_job_add(struct containers *containers, struct container *container,
                        void (*work)(struct containers *containers, struct container *container)) {
        struct container_job *job = calloc(1, sizeof(*job)), **last = &containers->jobs;

        if (!job)
                abort();
        *job = (struct container_job){ .container = container, .work = work };
        while (*last)
                last = &(*last)->next;
        *last = job;
        pthread_cond_signal(&containers->job_added);
}

int containers_jobs_start(struct containers *containers, struct error *err) {
        for (; containers->thread_count < CONTAINERS_THREADS; containers->thread_count++) {
                int code =
                        pthread_create(&containers->threads[containers->thread_count], NULL, run, containers);

                if (code != 0)
                        return error_set(err, "cannot start a thread: %s", strerror(code));
        }
        return 0;
}

void containers_jobs_stop(struct containers *containers) {
        pthread_mutex_lock(&containers->lock);
        pthread_cond_broadcast(&containers->job_added);
        pthread_mutex_unlock(&containers->lock);
        while (containers->thread_count > 0)
                pthread_join(containers->threads[--containers->thread_count], NULL);
        while (containers->jobs)
                remove_job(containers, containers->jobs);
}
