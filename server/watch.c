/* SPDX-License-Identifier: Apache-2.0 */
/*
 * epoll(7) reports a number, not a pointer: its object may have been removed between the report and
 * the lock, and then the number is unknown.
 */
#include "server/watch.h"

#include "base/files.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define REPORTS 16

struct watch {
        int reports, end; /* an epoll(7); an eventfd: the thread is to end */
        pthread_t thread;
        pthread_mutex_t lock; /* of all below */
        struct watched *first;
        uint64_t numbers; /* given out; 0 is the end's */
};

static void raise_number(struct watch *watch, uint64_t number) {
        pthread_mutex_lock(&watch->lock);
        for (struct watched *watched = watch->first; watched; watched = watched->next) {
                if (watched->number == number)
                        interrupt_raise_to(&watched->interrupt, INTERRUPT_NOW);
        }
        pthread_mutex_unlock(&watch->lock);
}

static void *run_watch(void *context) {
        struct watch *watch = context;

        for (;;) {
                struct epoll_event reports[REPORTS];
                int count = epoll_wait(watch->reports, reports, REPORTS, -1);

                for (int i = 0; i < count; i++) {
                        if (reports[i].data.u64 == 0)
                                return NULL;
                        raise_number(watch, reports[i].data.u64);
                }
        }
}

static void release(struct watch *watch) {
        close_descriptor(&watch->reports);
        close_descriptor(&watch->end);
        pthread_mutex_destroy(&watch->lock);
        free(watch);
}

int watch_open(struct watch **ret, struct error *err) {
        struct epoll_event event = { .events = EPOLLIN };
        struct watch *watch = calloc(1, sizeof(*watch));
        int code;

        if (!watch || pthread_mutex_init(&watch->lock, NULL) != 0)
                abort();
        watch->reports = epoll_create1(EPOLL_CLOEXEC);
        watch->end = eventfd(0, EFD_CLOEXEC);
        if (watch->reports < 0 || watch->end < 0 ||
            epoll_ctl(watch->reports, EPOLL_CTL_ADD, watch->end, &event) < 0)
                code = errno;
        else
                code = pthread_create(&watch->thread, NULL, run_watch, watch);
        if (code != 0) {
                release(watch);
                return error_set(err, "cannot watch clients: %s", strerror(code));
        }
        *ret = watch;
        return 0;
}

void watch_close(struct watch *watch) {
        const uint64_t one = 1;

        if (!watch)
                return;
        if (write(watch->end, &one, sizeof(one)) < 0)
                abort();
        pthread_join(watch->thread, NULL);
        release(watch);
}

int watch_add(struct watch *watch, int socket, struct watched *ret, struct error *err) {
        struct epoll_event event = { .events = EPOLLRDHUP | EPOLLONESHOT };
        int result;

        if (interrupt_init(&ret->interrupt, err) < 0)
                return -1;
        ret->socket = socket;
        pthread_mutex_lock(&watch->lock);
        event.data.u64 = ret->number = ++watch->numbers;
        result = epoll_ctl(watch->reports, EPOLL_CTL_ADD, socket, &event);
        if (result == 0) {
                ret->added = true;
                ret->next = watch->first;
                watch->first = ret;
        }
        pthread_mutex_unlock(&watch->lock);
        if (result < 0) {
                interrupt_dispose(&ret->interrupt);
                return error_set(err, "cannot watch a client: %s", strerror(errno));
        }
        return 0;
}

void watch_remove(struct watch *watch, struct watched *watched) {
        if (!watched->added)
                return;
        pthread_mutex_lock(&watch->lock);
        (void)epoll_ctl(watch->reports, EPOLL_CTL_DEL, watched->socket, NULL);
        for (struct watched **link = &watch->first; *link; link = &(*link)->next) {
                if (*link == watched) {
                        *link = watched->next;
                        break;
                }
        }
        pthread_mutex_unlock(&watch->lock);
        interrupt_dispose(&watched->interrupt);
        watched->added = false;
}
