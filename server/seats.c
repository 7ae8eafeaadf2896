/* SPDX-License-Identifier: Apache-2.0 */
#include "server/seats.h"

#include "base/clock.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct seat {
        int socket; /* -1: free */
        int64_t since_ms;
};

struct seats {
        pthread_t usher;
        int64_t request_ms;
        size_t count;
        pthread_mutex_t lock; /* of all below */
        pthread_cond_t changed;
        bool stopping;
        struct seat list[];
};

static int64_t now_ms(void) {
        return clock_system.monotonic_ms(&clock_system);
}

struct seat *seats_take(struct seats *seats, int socket) {
        struct seat *seat = NULL;

        pthread_mutex_lock(&seats->lock);
        for (size_t i = 0; i < seats->count && !seat; i++) {
                if (seats->list[i].socket < 0)
                        seat = &seats->list[i];
        }
        if (seat) {
                *seat = (struct seat){ socket, now_ms() };
                pthread_cond_signal(&seats->changed);
        }
        pthread_mutex_unlock(&seats->lock);
        return seat;
}

void seats_renew(struct seats *seats, struct seat *seat) {
        if (!seat)
                return;
        pthread_mutex_lock(&seats->lock);
        seat->since_ms = now_ms();
        pthread_mutex_unlock(&seats->lock);
}

/* Before the socket is closed: the usher never touches one that is somebody else's by now. */
void seats_leave(struct seats *seats, struct seat *seat) {
        if (!seat)
                return;
        pthread_mutex_lock(&seats->lock);
        seat->socket = -1;
        pthread_mutex_unlock(&seats->lock);
}

/* With the lock held. Shows out who is over his time; when to look again, or 0: nobody is there. */
static int64_t show_out(struct seats *seats) {
        int64_t now = now_ms(), next = 0;

        for (struct seat *seat = seats->list; seat < seats->list + seats->count; seat++) {
                int64_t until = seat->since_ms + seats->request_ms;

                if (seat->socket < 0)
                        continue;
                if (until <= now) {
                        /* Whoever reads from it notices, and closes it. */
                        shutdown(seat->socket, SHUT_RDWR);
                        until = now + seats->request_ms;
                        seat->since_ms = now;
                }
                if (next == 0 || until < next)
                        next = until;
        }
        return next;
}

static void *watch(void *context) {
        struct seats *seats = context;

        pthread_mutex_lock(&seats->lock);
        while (!seats->stopping) {
                int64_t next = show_out(seats);
                struct timespec until = { .tv_sec = next / 1000, .tv_nsec = next % 1000 * 1000000 };

                if (next == 0)
                        pthread_cond_wait(&seats->changed, &seats->lock);
                else
                        pthread_cond_timedwait(&seats->changed, &seats->lock, &until);
        }
        pthread_mutex_unlock(&seats->lock);
        return NULL;
}

static void release(struct seats *seats) {
        pthread_cond_destroy(&seats->changed);
        pthread_mutex_destroy(&seats->lock);
        free(seats);
}

int seats_open(size_t count, int64_t request_ms, struct seats **ret, struct error *err) {
        struct seats *seats = calloc(1, sizeof(*seats) + count * sizeof(seats->list[0]));
        pthread_condattr_t attributes;
        int code;

        if (!seats || pthread_mutex_init(&seats->lock, NULL) != 0 ||
            pthread_condattr_init(&attributes) != 0 ||
            pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) != 0 ||
            pthread_cond_init(&seats->changed, &attributes) != 0)
                abort();
        pthread_condattr_destroy(&attributes);
        seats->count = count;
        seats->request_ms = request_ms;
        for (size_t i = 0; i < count; i++)
                seats->list[i].socket = -1;
        code = pthread_create(&seats->usher, NULL, watch, seats);
        if (code != 0) {
                release(seats);
                return error_set(err, "cannot start a thread: %s", strerror(code));
        }
        *ret = seats;
        return 0;
}

void seats_close(struct seats *seats) {
        if (!seats)
                return;
        pthread_mutex_lock(&seats->lock);
        seats->stopping = true;
        pthread_cond_signal(&seats->changed);
        pthread_mutex_unlock(&seats->lock);
        pthread_join(seats->usher, NULL);
        release(seats);
}
