/* SPDX-License-Identifier: Apache-2.0 */
/* A list in the order in which they were issued, which is the order in which they end. */
#include "broker/auth/tickets.h"

#include "base/digest.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct issued {
        struct issued *next;
        uint8_t hash[SHA256_SIZE];
        int64_t until_ms;
        struct arena *arena; /* of all below */
        struct ticket ticket;
};

struct tickets {
        pthread_mutex_t lock;
        struct issued *first;
        size_t count;
};

struct tickets *tickets_new(void) {
        struct tickets *tickets = calloc(1, sizeof(*tickets));

        if (!tickets || pthread_mutex_init(&tickets->lock, NULL) != 0)
                abort();
        return tickets;
}

static void drop(struct tickets *tickets, struct issued **link) {
        struct issued *issued = *link;

        *link = issued->next;
        tickets->count--;
        arena_free(issued->arena);
        free(issued);
}

void tickets_free(struct tickets *tickets) {
        if (!tickets)
                return;
        while (tickets->first)
                drop(tickets, &tickets->first);
        pthread_mutex_destroy(&tickets->lock);
        free(tickets);
}

static struct ticket copy_ticket(const struct ticket *ticket, struct arena *arena) {
        struct ticket copy = *ticket;

        copy.caller.client = arena_strdup(arena, ticket->caller.client);
        copy.caller.owner = ticket->caller.owner ? arena_strdup(arena, ticket->caller.owner) : NULL;
        copy.workspace = arena_strdup(arena, ticket->workspace);
        copy.path = ticket->path ? arena_strdup(arena, ticket->path) : NULL;
        return copy;
}

static bool is_same_caller(const struct door_caller *one, const struct door_caller *two) {
        return strcmp(one->client, two->client) == 0 &&
               strcmp(one->owner ? one->owner : "", two->owner ? two->owner : "") == 0;
}

static void drop_old(struct tickets *tickets, int64_t now_ms) {
        while (tickets->first && tickets->first->until_ms <= now_ms)
                drop(tickets, &tickets->first);
}

bool tickets_issue(struct tickets *tickets, const struct ticket *what, int64_t now_ms,
                   char ret[TICKET_SIZE]) {
        struct issued *issued = calloc(1, sizeof(*issued)), **link, **oldest = NULL;
        uint8_t random[(TICKET_SIZE - 1) / 2];
        size_t theirs = 0;
        bool room;

        if (!issued)
                abort();
        random_bytes(random, sizeof(random));
        digest_hex(random, sizeof(random), ret);
        explicit_bzero(random, sizeof(random));
        digest_sha256(ret, TICKET_SIZE - 1, issued->hash);
        issued->until_ms = now_ms + TICKET_MS;
        issued->arena = arena_new();
        issued->ticket = copy_ticket(what, issued->arena);
        pthread_mutex_lock(&tickets->lock);
        drop_old(tickets, now_ms);
        for (link = &tickets->first; *link; link = &(*link)->next) {
                if (!is_same_caller(&(*link)->ticket.caller, &what->caller))
                        continue;
                oldest = oldest ? oldest : link;
                theirs++;
        }
        if (theirs >= TICKETS_PER_CALLER)
                drop(tickets, oldest);
        room = tickets->count < TICKETS_MAX;
        if (room) {
                for (link = &tickets->first; *link; link = &(*link)->next)
                        ;
                *link = issued;
                tickets->count++;
        }
        pthread_mutex_unlock(&tickets->lock);
        if (!room) {
                arena_free(issued->arena);
                free(issued);
        }
        return room;
}

/* Tickets are compared by their hashes: how long that takes tells nothing of a ticket. */
bool tickets_redeem(struct tickets *tickets, const char *text, int64_t now_ms, struct arena *arena,
                    struct ticket *ret) {
        uint8_t hash[SHA256_SIZE];
        struct issued **link;
        bool found;

        digest_sha256(text, strlen(text), hash);
        pthread_mutex_lock(&tickets->lock);
        drop_old(tickets, now_ms);
        for (link = &tickets->first; *link && memcmp((*link)->hash, hash, sizeof(hash)) != 0;
             link = &(*link)->next)
                ;
        found = *link != NULL;
        if (found) {
                *ret = copy_ticket(&(*link)->ticket, arena);
                drop(tickets, link);
        }
        pthread_mutex_unlock(&tickets->lock);
        return found;
}
