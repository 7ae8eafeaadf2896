/* SPDX-License-Identifier: Apache-2.0 */
#include "server/seats.h"

#include "base/clock.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define LEAVING_MS 1000

/* PLACE_LEAVING: shown out, until the thread that reads from the socket has noticed. */
enum place { PLACE_FREE, PLACE_WAITING, PLACE_WORKING, PLACE_LEAVING };

struct seat {
        enum place place;
        int socket;
        bool paused;
        uint8_t address[16]; /* IPv6, IPv4 within it, or a user */
        int64_t since_ms;
        uint64_t turn; /* in the waiting room: the least is there longest */
};

struct seats {
        struct seats_limits limits;
        pthread_t usher;
        size_t count;
        pthread_mutex_t lock; /* of all below */
        pthread_cond_t changed, left;
        bool stopping;
        int64_t next_ms; /* when the usher looks again; 0: not before it is woken */
        uint64_t turns;
        struct seat list[];
};

/* IPv4 in IPv6 is the same address as without, so that a client does not count twice. */
static void read_address(int socket, const struct sockaddr *from, uint8_t ret[16]) {
        static const uint8_t four_in_six[12] = { [10] = 0xff, [11] = 0xff };
        struct ucred peer = { .uid = (uid_t)-1 };
        socklen_t length = sizeof(peer);

        memset(ret, 0, 16);
        if (from && from->sa_family == AF_INET6) {
                memcpy(ret, &((const struct sockaddr_in6 *)(const void *)from)->sin6_addr, 16);
        } else if (from && from->sa_family == AF_INET) {
                memcpy(ret, four_in_six, sizeof(four_in_six));
                memcpy(ret + 12, &((const struct sockaddr_in *)(const void *)from)->sin_addr, 4);
        } else if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0) {
                memcpy(ret + 12, &peer.uid, 4);
        }
}

/* With the lock held. */
static size_t count_in(const struct seats *seats, enum place place, const uint8_t *address) {
        size_t count = 0;

        for (const struct seat *seat = seats->list; seat < seats->list + seats->count; seat++)
                count += seat->place == place && (!address || memcmp(seat->address, address, 16) == 0);
        return count;
}

static int64_t ends_at(const struct seats *seats, const struct seat *seat) {
        return seat->since_ms + seats->limits.patience_ms;
}

/* With the lock held: where this one's time ends before the usher would look. */
static void wake_usher(struct seats *seats, const struct seat *seat) {
        if (!seat->paused && (seats->next_ms == 0 || ends_at(seats, seat) < seats->next_ms))
                pthread_cond_signal(&seats->changed);
}

/* With the lock held. The thread that reads from the socket notices, and closes it. */
static void show_out(struct seat *seat) {
        shutdown(seat->socket, SHUT_RDWR);
        seat->place = PLACE_LEAVING;
}

/* With the lock held: of the address that has most in the waiting room, the one that is there longest. */
static void evict_waiting(struct seats *seats) {
        struct seat *chosen = NULL;
        size_t most = 0;

        for (struct seat *seat = seats->list; seat < seats->list + seats->count; seat++) {
                size_t count =
                        seat->place == PLACE_WAITING ? count_in(seats, PLACE_WAITING, seat->address) : 0;

                if (count > most || (count == most && chosen && count && seat->turn < chosen->turn)) {
                        most = count;
                        chosen = seat;
                }
        }
        if (chosen)
                show_out(chosen);
}

void seats_make_room(struct seats *seats) {
        pthread_mutex_lock(&seats->lock);
        evict_waiting(seats);
        pthread_mutex_unlock(&seats->lock);
}

/* With the lock held; NULL if absent. */
static struct seat *find_free(struct seats *seats) {
        for (size_t i = 0; i < seats->count; i++) {
                if (seats->list[i].place == PLACE_FREE)
                        return &seats->list[i];
        }
        return NULL;
}

/*
 * If all places are taken, many are just leaving, which takes only the processor's time: a new
 * connection waits for that instead of being closed, since it may be a probe.
 */
struct seat *seats_take(struct seats *seats, int socket, const struct sockaddr *address) {
        const struct timespec until = clock_after_ms(LEAVING_MS);
        struct seat *seat;
        int code = 0;

        pthread_mutex_lock(&seats->lock);
        if (count_in(seats, PLACE_WAITING, NULL) >= seats->limits.waiting)
                evict_waiting(seats);
        while (!(seat = find_free(seats)) && code == 0)
                code = pthread_cond_timedwait(&seats->left, &seats->lock, &until);
        if (seat) {
                *seat = (struct seat){ .place = PLACE_WAITING,
                                       .socket = socket,
                                       .since_ms = clock_now_ms(),
                                       .turn = seats->turns++ };
                read_address(socket, address, seat->address);
                wake_usher(seats, seat);
        }
        pthread_mutex_unlock(&seats->lock);
        return seat;
}

bool seats_work(struct seats *seats, struct seat *seat) {
        bool free_one;

        if (!seat)
                return false;
        pthread_mutex_lock(&seats->lock);
        /*
         * Bytes that came before the client was shown out can still be read from its socket: they
         * do not bring it back.
         */
        free_one = seat->place == PLACE_WAITING &&
                   count_in(seats, PLACE_WORKING, NULL) < seats->limits.working &&
                   count_in(seats, PLACE_WORKING, seat->address) < seats->limits.working_per_address;
        if (free_one) {
                seat->place = PLACE_WORKING;
                seat->since_ms = clock_now_ms();
        }
        pthread_mutex_unlock(&seats->lock);
        return free_one;
}

static void time_from(struct seats *seats, struct seat *seat, bool paused, int64_t more_ms) {
        if (!seat)
                return;
        pthread_mutex_lock(&seats->lock);
        seat->paused = paused;
        seat->since_ms = more_ms ? seat->since_ms + more_ms : clock_now_ms();
        wake_usher(seats, seat);
        pthread_mutex_unlock(&seats->lock);
}

void seats_allow(struct seats *seats, struct seat *seat, int64_t more_ms) {
        if (more_ms > 0)
                time_from(seats, seat, false, more_ms);
}

void seats_pause(struct seats *seats, struct seat *seat) {
        time_from(seats, seat, true, 0);
}

void seats_resume(struct seats *seats, struct seat *seat) {
        time_from(seats, seat, false, 0);
}

void seats_renew(struct seats *seats, struct seat *seat) {
        if (!seat)
                return;
        pthread_mutex_lock(&seats->lock);
        if (seat->place == PLACE_WORKING)
                seat->place = PLACE_WAITING;
        seat->paused = false;
        seat->since_ms = clock_now_ms();
        seat->turn = seats->turns++;
        wake_usher(seats, seat);
        pthread_mutex_unlock(&seats->lock);
}

/*
 * Before the socket is closed: the usher must never touch a descriptor that already belongs to
 * another connection.
 */
void seats_leave(struct seats *seats, struct seat *seat) {
        if (!seat)
                return;
        pthread_mutex_lock(&seats->lock);
        seat->place = PLACE_FREE;
        pthread_cond_signal(&seats->left);
        pthread_mutex_unlock(&seats->lock);
}

void seats_count(struct seats *seats, size_t *ret_waiting, size_t *ret_working) {
        pthread_mutex_lock(&seats->lock);
        *ret_waiting = count_in(seats, PLACE_WAITING, NULL);
        *ret_working = count_in(seats, PLACE_WORKING, NULL);
        pthread_mutex_unlock(&seats->lock);
}

void seats_dismiss(struct seats *seats, int how) {
        pthread_mutex_lock(&seats->lock);
        for (struct seat *seat = seats->list; seat < seats->list + seats->count; seat++) {
                if (seat->place != PLACE_FREE)
                        shutdown(seat->socket, how);
        }
        pthread_mutex_unlock(&seats->lock);
}

/*
 * With the lock held. Shows out connections whose time is over; returns when to look again, or 0:
 * no connection is timed.
 */
static int64_t end_overdue(struct seats *seats) {
        int64_t now = clock_now_ms(), next = 0;

        for (struct seat *seat = seats->list; seat < seats->list + seats->count; seat++) {
                int64_t until = ends_at(seats, seat);

                if (seat->place == PLACE_FREE || seat->place == PLACE_LEAVING || seat->paused)
                        continue;
                if (until <= now)
                        show_out(seat);
                else if (next == 0 || until < next)
                        next = until;
        }
        return next;
}

static void *run_seats(void *context) {
        struct seats *seats = context;

        pthread_mutex_lock(&seats->lock);
        while (!seats->stopping) {
                int64_t next = end_overdue(seats);
                const struct timespec until = clock_timespec(next);

                seats->next_ms = next;
                if (next == 0)
                        pthread_cond_wait(&seats->changed, &seats->lock);
                else
                        pthread_cond_timedwait(&seats->changed, &seats->lock, &until);
        }
        pthread_mutex_unlock(&seats->lock);
        return NULL;
}

static void release(struct seats *seats) {
        pthread_cond_destroy(&seats->left);
        pthread_cond_destroy(&seats->changed);
        pthread_mutex_destroy(&seats->lock);
        free(seats);
}

int seats_open(const struct seats_limits *limits, struct seats **ret, struct error *err) {
        /*
         * Twice the waiting room: connections that were shown out have not always left when the
         * next come.
         */
        size_t count = 2 * limits->waiting + limits->working;
        struct seats *seats = calloc(1, sizeof(*seats) + count * sizeof(seats->list[0]));
        pthread_condattr_t attributes;
        int code;

        if (!seats || pthread_mutex_init(&seats->lock, NULL) != 0 ||
            pthread_condattr_init(&attributes) != 0 ||
            pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) != 0 ||
            pthread_cond_init(&seats->changed, &attributes) != 0 ||
            pthread_cond_init(&seats->left, &attributes) != 0)
                abort();
        pthread_condattr_destroy(&attributes);
        seats->count = count;
        seats->limits = *limits;
        code = pthread_create(&seats->usher, NULL, run_seats, seats);
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
