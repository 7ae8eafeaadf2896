/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections of HTTP, where they sit, and for how long.
 *
 * A new connection, and one that has had its answer, sits in the waiting room until its request's
 * head is complete. It is never full: for a newcomer, one connection of the address that has most
 * there is shown out, by shutdown(2): the one that waits longest. A connection whose request is
 * worked on sits at one of the working seats, of which one address gets a bounded number; without a
 * free one its request is refused. A probe takes no seat: it is answered even if all seats are
 * taken.
 *
 * A thread of the seats' own shows out connections that are waited for too long: a byte now and
 * then does not help.
 *
 *     seats_take() when it comes; seats_work() at its head; seats_renew() after each answer; seats_leave() before its socket is closed
 */
#ifndef BERTH_SERVER_SEATS_H
#define BERTH_SERVER_SEATS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sockaddr;

struct seats_limits {
        size_t waiting, working, working_per_address;
        int64_t patience_ms; /* for a head; for a body, beside what seats_allow() adds; for one block of an answer to be taken */
};

struct seats;
struct seat;

int seats_open(const struct seats_limits *limits, struct seats **ret, struct error *err) MUST_USE;
/* No seat is taken or left any more. NULL is fine. */
void seats_close(struct seats *seats);

/*
 * All of these: any thread; `seat` may be NULL. `address` is the peer's; of a Unix socket the peer
 * is its user. NULL if all places are taken, and none became free within a second.
 */
struct seat *seats_take(struct seats *seats, int socket, const struct sockaddr *address);
/* Shows one out of the waiting room, as for a newcomer when it is full. */
void seats_make_room(struct seats *seats);
/*
 * False: all seats that this address may have are taken, or the connection was shown out. From the
 * waiting room only.
 */
bool seats_work(struct seats *seats, struct seat *seat) MUST_USE;
/* So much longer: bytes of a body came. */
void seats_allow(struct seats *seats, struct seat *seat, int64_t more_ms);
/* The server lets the client wait now: it is not timed; then timed again. */
void seats_pause(struct seats *seats, struct seat *seat);
void seats_resume(struct seats *seats, struct seat *seat);
void seats_renew(struct seats *seats, struct seat *seat);
void seats_leave(struct seats *seats, struct seat *seat);
/* How many sit in the waiting room, and how many work. */
void seats_count(struct seats *seats, size_t *ret_waiting, size_t *ret_working);
/* shutdown(2) of all sockets: SHUT_RD, SHUT_RDWR. */
void seats_dismiss(struct seats *seats, int how);

#endif
