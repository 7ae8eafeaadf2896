/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How often each client asks, and, where it has a limit for those too, each owner that it asks for.
 * An owner that asks too often uses up nothing of its client's limit: other owners of the same
 * client are admitted. Any thread's.
 */
#ifndef BERTH_BROKER_AUTH_TURNS_H
#define BERTH_BROKER_AUTH_TURNS_H

#include "broker/auth/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum turn {
        TURN_TAKEN,
        TURN_NOT_OF_CLIENT, /* the client asks too often */
        TURN_NOT_OF_OWNER   /* the client does not, this owner of its does */
};

struct turns;
/* For clients with the numbers 0 to `count` - 1. */
struct turns *turns_new(size_t count);
void turns_free(struct turns *turns); /* NULL is fine */

/* `owner`: NULL if the request has none; `now_ms`: monotonic. A refused request is not counted. */
enum turn turns_take(struct turns *turns, size_t client, const struct broker_limits *limits,
                     const char *owner, int64_t now_ms) MUST_USE;
/* How many owners are kept in mind. */
size_t turns_owners(struct turns *turns);

#endif
