/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many requests each client and each owner has under way, streams among them: a client that
 * opens as many as it can leaves room for others. The same of the memory that bodies and answers
 * take: each of both has LOAD_HELD_MAX in all, of which a client and an owner have a share; what is
 * little does not count, so that small requests are answered whatever large ones wait for. Any
 * thread's.
 */
#ifndef BERTH_BROKER_AUTH_LOAD_H
#define BERTH_BROKER_AUTH_LOAD_H

#include "broker/auth/config.h"

#include <stdbool.h>
#include <stddef.h>

struct load;
struct load *load_new(void);
void load_free(struct load *load); /* NULL is fine */

/*
 * False where one of the two has as many as `limits` let it have; then load_leave() must not be
 * called. `owner` may be NULL.
 */
bool load_enter(struct load *load, const struct broker_limits *limits, const char *client,
                const char *owner) MUST_USE;
void load_leave(struct load *load, const char *client, const char *owner);

/* Bytes. An owner's share has room for two bodies of 32 MiB, of which one is read: that counts twice. */
#define LOAD_HELD_MAX ((size_t)256 << 20)
#define LOAD_CLIENT_HELD_MAX ((size_t)192 << 20)
#define LOAD_OWNER_HELD_MAX ((size_t)96 << 20)
#define LOAD_LITTLE ((size_t)64 << 10)

enum load_kind { LOAD_BODIES, LOAD_ANSWERS, LOAD_KINDS };

/* What one request holds. `client` and `owner` are those that load_enter() let in, until load_leave(). */
struct load_held {
        struct load *load; /* NULL: nothing is counted */
        const char *client, *owner;
        enum load_kind kind;
        size_t counted;
};

/* So many bytes from now on; false, and as many as before, where that is more than one of the three may have. Less is always granted. */
bool load_hold(struct load_held *held, size_t bytes) MUST_USE;

#endif
