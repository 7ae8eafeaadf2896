/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client may name any number of owners, so an owner is kept only while its rate matters: an owner
 * that rested for RATE_RESTS_MS is like a new one. Whenever there are twice as many as were left by
 * the last sweep, those are swept out; so there are never more than twice the owners that asked
 * within that time (and SWEEP_FIRST), and each request pays for a constant part of a sweep.
 */
#include "broker/auth/turns.h"

#include "base/text.h"
#include "broker/auth/rate.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define CHAINS 4096
#define SWEEP_FIRST 1024

struct owner {
        struct owner *next;
        size_t client;
        struct rate rate;
        char name[];
};

struct turns {
        pthread_mutex_t lock;
        struct rate *clients;
        struct owner *chains[CHAINS];
        size_t count, sweep_at;
};

struct turns *turns_new(size_t count) {
        struct turns *turns = calloc(1, sizeof(*turns));

        if (!turns || !(turns->clients = calloc(count + 1, sizeof(*turns->clients))) ||
            pthread_mutex_init(&turns->lock, NULL) != 0)
                abort();
        turns->sweep_at = SWEEP_FIRST;
        return turns;
}

/* Ends the owners that rested until `now_ms`; INT64_MAX: all. */
static void sweep(struct turns *turns, int64_t now_ms) {
        for (size_t i = 0; i < CHAINS; i++) {
                for (struct owner **link = &turns->chains[i], *owner; (owner = *link);) {
                        if (now_ms - owner->rate.at_ms < RATE_RESTS_MS) {
                                link = &owner->next;
                                continue;
                        }
                        *link = owner->next;
                        free(owner);
                        turns->count--;
                }
        }
        turns->sweep_at = turns->count < SWEEP_FIRST / 2 ? SWEEP_FIRST : 2 * turns->count;
}

void turns_free(struct turns *turns) {
        if (!turns)
                return;
        sweep(turns, INT64_MAX);
        pthread_mutex_destroy(&turns->lock);
        free(turns->clients);
        free(turns);
}

/* Names that fall into one chain cost time alone, and a client brings no more of them than its own limit lets in. */
static size_t chain_of(size_t client, const char *name) {
        uint64_t hash = text_hash(name) ^ client;

        return (size_t)((hash ^ hash >> 32) % CHAINS);
}

static struct rate *rate_of(struct turns *turns, size_t client, const char *name, int64_t now_ms) {
        struct owner **chain, *owner;

        if (turns->count >= turns->sweep_at)
                sweep(turns, now_ms);
        chain = &turns->chains[chain_of(client, name)];
        for (owner = *chain; owner; owner = owner->next) {
                if (owner->client == client && strcmp(owner->name, name) == 0)
                        return &owner->rate;
        }
        owner = calloc(1, sizeof(*owner) + strlen(name) + 1);
        if (!owner)
                abort();
        owner->client = client;
        owner->next = *chain;
        memcpy(owner->name, name, strlen(name) + 1);
        *chain = owner;
        turns->count++;
        return &owner->rate;
}

enum turn turns_take(struct turns *turns, size_t client, const struct broker_limits *limits,
                     const char *owner, int64_t now_ms) {
        enum turn turn = TURN_TAKEN;
        struct rate *own;

        pthread_mutex_lock(&turns->lock);
        if (!rate_take(&turns->clients[client], limits->per_second, now_ms)) {
                turn = TURN_NOT_OF_CLIENT;
        } else if (owner && limits->owner_per_second > 0) {
                own = rate_of(turns, client, owner, now_ms);
                if (!rate_take(own, limits->owner_per_second, now_ms)) {
                        rate_return(&turns->clients[client]);
                        turn = TURN_NOT_OF_OWNER;
                }
        }
        pthread_mutex_unlock(&turns->lock);
        return turn;
}

size_t turns_owners(struct turns *turns) {
        size_t count;

        pthread_mutex_lock(&turns->lock);
        count = turns->count;
        pthread_mutex_unlock(&turns->lock);
        return count;
}
