/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All of them: how they begin, the thread that hears them, how one is found.
 *
 * The thread waits with poll(2) for all sandboxes at once, without the lock, and for nothing else.
 * Each round it hears sandboxes that have something to say, and checks all containers: what must be
 * opened, ended or left is given to the pool of threads.
 */
#include "containers/containers_parts.h"

#include "base/array.h"
#include "base/files.h"
#include "base/log.h"
#include "base/text.h"
#include "sessions/problem.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define THREADS 8
#define THREADS_OF_OWNER 2
#define ROUND_MS 1000
#define PAGE 500

int64_t containers_now(const struct containers *containers) {
        return containers->config.clock->wall_ms(containers->config.clock);
}

void containers_wake(struct containers *containers) {
        const uint64_t one = 1;

        if (write(containers->wake, &one, sizeof(one)) < 0 && errno != EAGAIN)
                abort();
}

const char *containers_log_path(const struct container *container, struct arena *arena) {
        return arena_printf(arena, "%s/%s", container->containers->folder, container->record.id);
}

/* --- finding --- */

struct container *containers_find(struct containers *containers, const struct engine_caller *caller,
                                  const char *id, bool any_owner, struct problem *problem) {
        struct container *container = container_is_id(id) ? containers->first : NULL;
        const struct container_record *record;

        while (container && strcmp(container->record.id, id) != 0)
                container = container->next;
        record = container ? &container->record : NULL;
        if (record && !record->gone &&
            (any_owner || (caller->owner && strcmp(record->owner, caller->owner) == 0)) &&
            engine_may_use(caller, record->environment, record->agent))
                return container;
        (void)problem_set(problem, PROBLEM_NOT_FOUND, "there is no such container");
        return NULL;
}

void containers_add(struct containers *containers, struct container *container) {
        container->containers = containers;
        *containers->last = container;
        containers->last = &container->next;
        containers->count++;
        containers->names_version++;
}

void containers_rest_log(struct container *container) {
        bool comes_back = container->record.status == CONTAINER_QUEUED && container->record.starts > 0;

        if (container->phase != CONTAINER_NO_PLACE || container->watches || comes_back)
                return;
        container_log_close(container->log);
        container->log = NULL;
}

static void free_container(struct container *container) {
        container_log_close(container->log);
        container_listeners_close(&container->listeners);
        free(container->names);
        execution_drop(container->exec);
        container_record_dispose(&container->record);
        free(container);
}

void containers_forget(struct containers *containers, struct container *container) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct container **link = &containers->first;

        container_changed(container);
        while (container->watches) {
                struct container_watch *watch = container->watches;

                container->watches = watch->next;
                watch->container = NULL;
        }
        while (*link != container)
                link = &(*link)->next;
        *link = container->next;
        if (!*link)
                containers->last = link;
        containers->count--;
        containers->names_version++;
        container_log_remove(containers_log_path(container, arena));
        free_container(container);
}

/* --- the thread --- */

/* Which of them have something to say; containers_forget() is the thread's own, so they stay meanwhile. */
struct round {
        struct pollfd *polled;
        struct container **whose;
        size_t count;
        int64_t wait_ms;
};

static void prepare_round(struct containers *containers, struct round *round) {
        round->polled = calloc(containers->count + 1, sizeof(*round->polled));
        round->whose = calloc(containers->count + 1, sizeof(struct container *));
        if (!round->polled || !round->whose)
                abort();
        round->polled[0] = (struct pollfd){ .fd = containers->wake, .events = POLLIN };
        round->count = 1;
        round->wait_ms = ROUND_MS;
        for (struct container *container = containers->first; container; container = container->next) {
                int64_t patience = container_patience_ms(container);

                if (patience >= 0 && patience < round->wait_ms)
                        round->wait_ms = patience;
                if (container->phase != CONTAINER_OPEN || container->rests_ms > 0)
                        continue;
                round->whose[round->count] = container;
                round->polled[round->count++] =
                        (struct pollfd){ .fd = containers->config.place->class->descriptor(container->place),
                                         .events = POLLIN };
        }
}

static void see_to_all(struct containers *containers) {
        struct container *next;

        for (struct container *container = containers->first; container; container = next) {
                next = container->next;
                if (container->phase == CONTAINER_OPEN)
                        container_hear(container);
                container_sample(container, CONTAINER_SELDOM_MS);
                (void)container_go_on(container);
        }
}

static void *run_rounds(void *context) {
        struct containers *containers = context;

        pthread_mutex_lock(&containers->lock);
        while (!containers->stopping) {
                struct round round;
                uint64_t ignored;

                prepare_round(containers, &round);
                pthread_mutex_unlock(&containers->lock);
                (void)poll(round.polled, (nfds_t)round.count, (int)round.wait_ms);
                (void)!read(containers->wake, &ignored, sizeof(ignored));
                free(round.polled);
                free(round.whose);
                pthread_mutex_lock(&containers->lock);
                see_to_all(containers);
        }
        pthread_mutex_unlock(&containers->lock);
        return NULL;
}

/* --- measured --- */

void containers_measure(struct containers *containers, struct containers_measures *ret) {
        *ret = (struct containers_measures){ 0 };
        pthread_mutex_lock(&containers->lock);
        for (struct container *container = containers->first; container; container = container->next) {
                const char *status = container_status_name(container);

                if (container->record.gone)
                        continue;
                for (size_t i = 0; i < CONTAINERS_STATUSES; i++)
                        ret->containers[i] += strcmp(containers_statuses[i], status) == 0;
                container_sample(container, CONTAINER_OFTEN_MS);
                if (container->record.status == CONTAINER_RUNNING && container->phase == CONTAINER_OPEN)
                        ret->memory_bytes += container->sample.usage.memory_bytes;
        }
        ret->cpu_us = containers->cpu_us;
        pthread_mutex_unlock(&containers->lock);
}

/* --- what takes long --- */

struct container_job {
        struct containers *containers;
        struct container *container;
        container_work *work;
};

static void do_container_job(void *context) {
        struct container_job *job = context;
        struct containers *containers = job->containers;

        pthread_mutex_lock(&containers->lock);
        if (!containers->stopping) {
                job->work(containers, job->container);
                containers_wake(containers);
        }
        pthread_mutex_unlock(&containers->lock);
        free(job);
}

void containers_job_add(struct containers *containers, struct container *container, container_work *work) {
        struct container_job *job = malloc(sizeof(*job));

        if (!job)
                abort();
        *job = (struct container_job){ containers, container, work };
        jobs_add(containers->jobs, container->record.owner, do_container_job, job);
}

/* --- life --- */

/* What ran is looked for; what was about to start is started; what was about to go goes. */
static int read_records(struct containers *containers, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *after = NULL;
        struct session_item *items;
        size_t count;

        do {
                if (session_store_list(containers->config.store, SESSION_TABLE_SESSIONS, CONTAINER_RECORDS,
                                       after, false, PAGE, arena, &items, &count, err) < 0)
                        return -1;
                for (size_t i = 0; i < count; i++) {
                        struct container *container = calloc(1, sizeof(*container));

                        if (!container)
                                abort();
                        after = items[i].key;
                        if (container_record_from_text(&items[i], &container->record, err) < 0) {
                                free(container);
                                return -1;
                        }
                        container->rejoins = container->record.status == CONTAINER_RUNNING;
                        if (container->record.gone)
                                container->record.sandbox = true;
                        containers_add(containers, container);
                }
        } while (count == PAGE);
        return 0;
}

static int by_age(const void *one, const void *other) {
        const struct container *a = *(struct container *const *)one, *b = *(struct container *const *)other;

        if (a->record.created_ms != b->record.created_ms)
                return a->record.created_ms < b->record.created_ms ? -1 : 1;
        return strcmp(a->record.id, b->record.id);
}

/* Records come in the order of their keys; the list, and with it the line for room, has that in which they were made. */
static void sort(struct containers *containers) {
        struct container **all = calloc(containers->count + 1, sizeof(*all));
        size_t count = 0;

        if (!all)
                abort();
        for (struct container *container = containers->first; container; container = container->next)
                all[count++] = container;
        qsort(all, count, sizeof(*all), by_age);
        containers->last = &containers->first;
        for (size_t i = 0; i < count; i++) {
                *containers->last = all[i];
                containers->last = &all[i]->next;
        }
        *containers->last = NULL;
        free(all);
}

int containers_open(const struct containers_config *config, struct containers **ret, struct error *err) {
        const struct jobs_config pool = { .threads = THREADS, .per_owner = THREADS_OF_OWNER };
        struct containers *containers = calloc(1, sizeof(*containers));
        pthread_condattr_t monotonic;
        int code;

        if (!containers || !(containers->folder = strdup(config->folder)))
                abort();
        containers->config = *config;
        containers->last = &containers->first;
        containers->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        pthread_mutex_init(&containers->lock, NULL);
        if (pthread_condattr_init(&monotonic) != 0 ||
            pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) != 0 ||
            pthread_cond_init(&containers->settled, &monotonic) != 0)
                abort();
        pthread_condattr_destroy(&monotonic);
        if (containers->wake < 0) {
                (void)error_set(err, "cannot make a descriptor: %s", strerror(errno));
                goto failed;
        }
        if (folder_make(config->folder, err) < 0 || read_records(containers, err) < 0)
                goto failed;
        sort(containers);
        if (jobs_open(&pool, &containers->jobs, err) < 0)
                goto failed;
        code = pthread_create(&containers->thread, NULL, run_rounds, containers);
        if (code != 0) {
                (void)error_set(err, "cannot start a thread: %s", strerror(code));
                goto failed;
        }
        containers->started = true;
        *ret = containers;
        return 0;
failed:
        containers_close(containers);
        return -1;
}

void containers_close(struct containers *containers) {
        if (!containers)
                return;
        pthread_mutex_lock(&containers->lock);
        containers->stopping = true;
        pthread_mutex_unlock(&containers->lock);
        if (containers->started) {
                containers_wake(containers);
                pthread_join(containers->thread, NULL);
        }
        jobs_close(containers->jobs);
        while (containers->first) {
                struct container *container = containers->first;

                containers->first = container->next;
                if (container->place)
                        containers->config.place->class->leave(container->place);
                free_container(container);
        }
        close_descriptor(&containers->wake);
        pthread_cond_destroy(&containers->settled);
        pthread_mutex_destroy(&containers->lock);
        free(containers->folder);
        free(containers);
}
