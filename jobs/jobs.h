/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool of threads for work that takes long.
 *
 *      jobs_open -> jobs_add ... jobs_add -> jobs_close
 *
 * Work begins in the order in which it was added, except that one owner's work takes `per_owner` threads at most: an owner with
 * hundreds of slow jobs delays no other owner. Any thread may add work, also with a lock of its own held: the pool takes no lock but
 * its own, and holds that neither while work runs nor while a thread is started.
 */
#ifndef BERTH_JOBS_JOBS_H
#define BERTH_JOBS_JOBS_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct jobs;

struct jobs_config {
        size_t threads;   /* at most; one more starts them */
        size_t per_owner; /* threads for the work of one owner, at most; 0: no such limit */
        int64_t idle_ms;  /* an idle thread ends after that, but the last idle one stays; 0: a minute */
};

/* `context` belongs to the work, which releases it. */
typedef void jobs_work(void *context);

/* Starts the first thread. -1 where the process cannot have it; later failures only delay work until another thread is free. */
int jobs_open(const struct jobs_config *config, struct jobs **ret, struct error *err) MUST_USE;
/* `owner` is copied. */
void jobs_add(struct jobs *jobs, const char *owner, jobs_work *work, void *context);
/* Finishes all work that was added, also what that work adds, and ends the threads. NULL is fine. */
void jobs_close(struct jobs *jobs);

#endif
