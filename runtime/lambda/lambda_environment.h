/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment that Lambda has made for a function: which it is, whose it is, and how it is made empty. What of that has to outlive
 * this process stands in a file below /tmp, which Lambda keeps when it starts the runtime again. User code can write that file: it gains no more by it
 * than trouble for its own session, since an environment without a tenant is emptied whenever the runtime starts.
 */
#ifndef BERTH_RUNTIME_LAMBDA_LAMBDA_ENVIRONMENT_H
#define BERTH_RUNTIME_LAMBDA_LAMBDA_ENVIRONMENT_H

#include "runtime/protocol/invocation.h"

#include <stdbool.h>
#include <stdint.h>

/* The only place that can be written. */
#define LAMBDA_TEMPORARY "/tmp"
#define LAMBDA_WORKSPACE LAMBDA_TEMPORARY "/workspace"

/* So many other sessions are remembered, of an environment that several use. */
#define LAMBDA_BEGUN_MAX 512

struct lambda_begun {
        uint64_t session; /* a hash of its id */
        int64_t n;        /* the last execution of it that began here */
};

struct lambda_environment {
        char boot[INVOCATION_BOOT_SIZE];
        int64_t starts;                              /* of the runtime, with this one */
        char session[INVOCATION_SESSION_MAX + 1];    /* whose it is; "": none yet */
        bool has_tenant;                             /* and by Lambda's word; known since this start only */
        int64_t last_n;                              /* the last execution that began here; 0: none */
        struct lambda_begun begun[LAMBDA_BEGUN_MAX]; /* of sessions that were here before */
        size_t begun_count; /* in all; beyond LAMBDA_BEGUN_MAX the oldest are forgotten */
        int mark;           /* the file that it is written to; -1: not yet */
};

/* Reads what an earlier start of the runtime has left, or begins with nothing. */
void lambda_environment_open(struct lambda_environment *ret);
/* Writes down what it is now. */
int lambda_environment_mark(struct lambda_environment *environment, struct error *err) MUST_USE;
/* The last execution of that session that began here, also before other sessions did; 0: none did. */
int64_t lambda_environment_last(const struct lambda_environment *environment, const char *session);
/* Makes the folder of the workspace, where it is missing. */
int lambda_environment_make_workspace(struct error *err) MUST_USE;
/*
 * Ends every process below this one, and removes all that code can have left for another: files below /tmp, and what of System V's shared memory,
 * semaphores and queues and of keys is this user's. It is `session`'s then, and what has begun here is written down again. -1: something could not be removed until `until_ms` (monotonic).
 */
int lambda_environment_give(struct lambda_environment *environment, const char *session, int64_t until_ms,
                            struct error *err) MUST_USE;

#endif
