/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections, each with a seat and a time: within so long it owes a whole request, else it is shown out by shutdown(2). Who
 * sends a byte now and then is never silent, so that no timeout of silence ends him; a thread of the seats' own does.
 *
 *     seats_take() when it comes, seats_renew() after each answer, seats_leave() before its socket is closed
 */
#ifndef BERTH_SERVER_SEATS_H
#define BERTH_SERVER_SEATS_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct seats;
struct seat;

/* `count` seats at the most. */
int seats_open(size_t count, int64_t request_ms, struct seats **ret, struct error *err) MUST_USE;
/* Nobody takes or leaves a seat any more. NULL is fine. */
void seats_close(struct seats *seats);

/* Any thread. NULL where all are taken: that connection is not timed. `seat` may be NULL below. */
struct seat *seats_take(struct seats *seats, int socket);
void seats_renew(struct seats *seats, struct seat *seat);
void seats_leave(struct seats *seats, struct seat *seat);

#endif
