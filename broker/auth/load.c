/* SPDX-License-Identifier: Apache-2.0 */
/* There are never more counts than twice the requests under way, which seats bound: a list is enough. */
#include "broker/auth/load.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct count {
        struct count *next;
        size_t under_way;
        size_t held[LOAD_KINDS];
        bool of_owner;
        char name[];
};

struct load {
        pthread_mutex_t lock;
        struct count *first;
        size_t held[LOAD_KINDS]; /* by all */
};

struct load *load_new(void) {
        struct load *load = calloc(1, sizeof(*load));

        if (!load || pthread_mutex_init(&load->lock, NULL) != 0)
                abort();
        return load;
}

void load_free(struct load *load) {
        if (!load)
                return;
        pthread_mutex_destroy(&load->lock);
        free(load);
}

static struct count **find(struct load *load, const char *name, bool of_owner) {
        struct count **link = &load->first;

        while (*link && ((*link)->of_owner != of_owner || strcmp((*link)->name, name) != 0))
                link = &(*link)->next;
        return link;
}

static bool add(struct load *load, const char *name, bool of_owner, size_t most) {
        struct count **link = find(load, name, of_owner);

        if (!*link) {
                *link = calloc(1, sizeof(**link) + strlen(name) + 1);
                if (!*link)
                        abort();
                (*link)->of_owner = of_owner;
                memcpy((*link)->name, name, strlen(name) + 1);
        }
        if ((*link)->under_way >= most) /* more: clients of one realm may have unlike limits */
                return false;
        (*link)->under_way++;
        return true;
}

static void take(struct load *load, const char *name, bool of_owner) {
        struct count **link = find(load, name, of_owner), *count = *link;

        if (!count || --count->under_way > 0)
                return;
        *link = count->next;
        free(count);
}

bool load_enter(struct load *load, const struct broker_limits *limits, const char *client,
                const char *owner) {
        bool entered;

        pthread_mutex_lock(&load->lock);
        entered = add(load, client, false, limits->under_way);
        if (entered && owner && !add(load, owner, true, limits->owner_under_way)) {
                take(load, client, false);
                entered = false;
        }
        pthread_mutex_unlock(&load->lock);
        return entered;
}

void load_leave(struct load *load, const char *client, const char *owner) {
        pthread_mutex_lock(&load->lock);
        take(load, client, false);
        if (owner)
                take(load, owner, true);
        pthread_mutex_unlock(&load->lock);
}

/* The counts of both are there: load_enter() let them in. */
static bool hold(struct load *load, const struct load_held *held, size_t bytes) {
        struct count *client = *find(load, held->client, false),
                     *owner = held->owner ? *find(load, held->owner, true) : client;
        const size_t before = held->counted, more = bytes > before ? bytes - before : 0;
        size_t *all = &load->held[held->kind], *of_client, *of_owner;

        if (!client || !owner)
                return false;
        of_client = &client->held[held->kind];
        of_owner = &owner->held[held->kind];
        if (more > 0 && (*all + more > LOAD_HELD_MAX || *of_client + more > LOAD_CLIENT_HELD_MAX ||
                         *of_owner + more > LOAD_OWNER_HELD_MAX))
                return false;
        *all += bytes - before;
        *of_client += bytes - before;
        if (owner != client)
                *of_owner += bytes - before;
        return true;
}

bool load_hold(struct load_held *held, size_t bytes) {
        bool fits;

        if (bytes <= LOAD_LITTLE)
                bytes = 0;
        if (!held->load || bytes == held->counted)
                return true;
        pthread_mutex_lock(&held->load->lock);
        fits = hold(held->load, held, bytes);
        pthread_mutex_unlock(&held->load->lock);
        if (fits)
                held->counted = bytes;
        return fits;
}
