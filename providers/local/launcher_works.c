/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/launcher_works.h"

#include "base/clock.h"
#include "base/files.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

int launcher_works_open(struct launcher_works *ret, size_t clients, struct error *err) {
        size_t share = LAUNCHER_WORKS_MAX / (clients > 0 ? clients : 1);

        *ret = (struct launcher_works){ .lock = PTHREAD_MUTEX_INITIALIZER,
                                        .told = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                                        .share = share > 0 ? (unsigned)share : 1 };
        return ret->told < 0 ? error_set(err, "cannot make an eventfd: %s", strerror(errno)) : 0;
}

static void *run_work(void *context) {
        const uint64_t one = 1;
        struct launcher_work *work = context;
        struct launcher_works *works = work->works;

        work->run(work);
        pthread_mutex_lock(&works->lock);
        work->next = works->done;
        works->done = work;
        pthread_mutex_unlock(&works->lock);
        (void)!write(works->told, &one, sizeof(one));
        return NULL;
}

/*
 * Signals are for the launcher's own thread. Without another thread the work is done here, and all
 * clients wait.
 */
static void start_work(struct launcher_work *work) {
        sigset_t all, before;

        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, &before);
        work->threaded = pthread_create(&work->thread, NULL, run_work, work) == 0;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (!work->threaded)
                (void)run_work(work);
}

/* A place for one more of that client's; NULL if it has its share. */
static struct launcher_work **place_for(struct launcher_works *works, uid_t client) {
        struct launcher_work **place = NULL;
        unsigned of_client = 0;

        for (size_t i = 0; i < LAUNCHER_WORKS_MAX; i++) {
                if (!works->running[i])
                        place = &works->running[i];
                else
                        of_client += works->running[i]->client == client;
        }
        return of_client < works->share ? place : NULL;
}

/* Whose share is taken lets those of others pass. */
static void start_waiting(struct launcher_works *works) {
        struct launcher_work **at = &works->waiting;

        while (*at) {
                struct launcher_work *work = *at, **place = place_for(works, work->client);

                if (!place) {
                        at = &work->next;
                        continue;
                }
                *at = work->next;
                work->next = NULL;
                *place = work;
                start_work(work);
        }
}

void launcher_works_give(struct launcher_works *works, struct launcher_work *work) {
        struct launcher_work **end = &works->waiting;

        while (*end)
                end = &(*end)->next;
        work->works = works;
        work->next = NULL;
        *end = work;
        start_waiting(works);
}

static struct launcher_work *take_done(struct launcher_works *works) {
        struct launcher_work *work;

        pthread_mutex_lock(&works->lock);
        work = works->done;
        if (work)
                works->done = work->next;
        pthread_mutex_unlock(&works->lock);
        if (!work)
                return NULL;
        /* It is past its last use of what is ours, or nearly so. */
        if (work->threaded)
                (void)pthread_join(work->thread, NULL);
        for (size_t i = 0; i < LAUNCHER_WORKS_MAX; i++) {
                if (works->running[i] == work)
                        works->running[i] = NULL;
        }
        return work;
}

struct launcher_work *launcher_works_take(struct launcher_works *works) {
        struct launcher_work *work;
        uint64_t count;

        (void)!read(works->told, &count, sizeof(count));
        work = take_done(works);
        start_waiting(works);
        return work;
}

static unsigned count_running(const struct launcher_works *works) {
        unsigned count = 0;

        for (size_t i = 0; i < LAUNCHER_WORKS_MAX; i++)
                count += works->running[i] != NULL;
        return count;
}

struct launcher_work *launcher_works_last(struct launcher_works *works, int64_t until_ms) {
        struct launcher_work *work = works->waiting;

        if (work) {
                works->waiting = work->next;
                return work;
        }
        while (!(work = take_done(works)) && count_running(works) > 0) {
                struct pollfd told = { .fd = works->told, .events = POLLIN };
                int64_t left_ms = until_ms - clock_now_ms();
                uint64_t count;

                if (left_ms <= 0)
                        break;
                (void)poll(&told, 1, left_ms < INT_MAX ? (int)left_ms : INT_MAX);
                (void)!read(works->told, &count, sizeof(count));
        }
        return work;
}

unsigned launcher_works_close(struct launcher_works *works) {
        unsigned left = count_running(works);

        for (size_t i = 0; i < LAUNCHER_WORKS_MAX; i++) {
                if (works->running[i] && works->running[i]->threaded)
                        (void)pthread_detach(works->running[i]->thread);
        }
        if (left == 0) {
                close_descriptor(&works->told);
                pthread_mutex_destroy(&works->lock);
        }
        return left;
}
