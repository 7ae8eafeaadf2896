/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The place of sessions on AWS: the body of sessions/place.h that runs code in functions of Lambda.
 *
 *      aws_place_open({client, bucket, find}) -> a place like any other -> place->class->close()
 *
 * A session here is not a process that must be kept: between two executions only Lambda holds any
 * of it, and what the next one must know stands in the place's note, which the engine keeps in the
 * session's record. So any server may open any session at any time, and opening it makes no call.
 */
#ifndef BERTH_PROVIDERS_AWS_SESSION_PLACE_H
#define BERTH_PROVIDERS_AWS_SESSION_PLACE_H

#include "providers/aws/client/aws_client.h"
#include "providers/aws/services/s3.h"
#include "sessions/place.h"
#include "sessions/workspace.h"

/* Defaults for checkpoints of kernels after each execution, if the server's file gives none. */
#define AWS_PLACE_CHECKPOINT_BYTES ((uint64_t)8 << 20)
#define AWS_PLACE_CHECKPOINT_MS 500

/* An applied environment. In the arena. */
struct aws_place_environment {
        const char *function; /* its name */
        bool tenants;         /* it has tenant isolation */
        int64_t timeout_ms;   /* the function's own */
        uint64_t files_bytes; /* that a workspace may hold */
};

struct aws_place_config {
        struct aws_client
                *client;         /* the place's from now on, also where it cannot be opened: closed with it */
        struct s3_bucket bucket; /* the stack's; copied */
        const char *stack;       /* whose workspaces they are; copied */
        /* The same workspaces, for files that come with executions; borrowed. NULL: executions bring none. */
        const struct workspaces *workspaces;
        bool allow_shared; /* functions without tenant isolation serve sessions too */
        /* Asked before each execution, by any thread. ERROR_NOT_FOUND where there is no such environment. */
        int (*find)(void *context, const char *environment, struct arena *arena,
                    struct aws_place_environment *ret, struct error *err);
        void *context;
        size_t running_max; /* executions at once, each of which has a thread: others wait for one. 0: 256 */
        int64_t throttled_ms; /* how long throttling is waited for; 0: a minute */
};

/* Makes no call. */
int aws_place_open(const struct aws_place_config *config, struct place **ret, struct error *err) MUST_USE;

#endif
