/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of a launcher's work may take as long as a disk does: file systems that are made, mounted
 * and removed. Each piece of it runs in a thread of its own, up to a bound, and further ones of the
 * same client wait for their turn. The launcher's own thread gives and takes, and is told by a
 * descriptor when there is something to take.
 */
#ifndef BERTH_PROVIDERS_LOCAL_LAUNCHER_WORKS_H
#define BERTH_PROVIDERS_LOCAL_LAUNCHER_WORKS_H

#include "base/error.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define LAUNCHER_WORKS_MAX 16 /* that run at once; each client has an even share */

/* First member of what the giver knows of it. */
struct launcher_work {
        void (*run)(
                struct launcher_work *work); /* by the thread, which touches nothing else of the launcher's */
        uid_t client;
        /* The rest is of these functions alone. */
        struct launcher_works *works;
        struct launcher_work *next;
        pthread_t thread;
        bool threaded;
};

struct launcher_works {
        pthread_mutex_t lock;
        int told;       /* readable once something is done */
        unsigned share; /* of one client */
        struct launcher_work
                *waiting; /* first come, first served; of the launcher's thread alone, as is the next */
        struct launcher_work *running[LAUNCHER_WORKS_MAX];
        struct launcher_work *done; /* under the lock */
};

int launcher_works_open(struct launcher_works *ret, size_t clients, struct error *err) MUST_USE;
/* Owned by these works until it is taken. */
void launcher_works_give(struct launcher_works *works, struct launcher_work *work);
/* A finished one, the caller's again; NULL: no other one is. */
struct launcher_work *launcher_works_take(struct launcher_works *works);
/*
 * At the end: waits for one that runs, until then (of the monotonic clock); of those that wait none
 * begins. NULL: none is left, or none of the running ones has ended.
 */
struct launcher_work *launcher_works_last(struct launcher_works *works, int64_t until_ms);
/*
 * After the last. This many run on, by threads that are not waited for, and end with the process:
 * their memory must stay until then, and these works too. 0: nothing is left of them.
 */
unsigned launcher_works_close(struct launcher_works *works);

#endif
