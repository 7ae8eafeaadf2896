/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One invocation of a function for one tenant. What matters is that code is never run twice, and never said to have run, or not, where
 * that is not known: Lambda itself tries a synchronous invocation once, and here another try follows only where nothing can have run.
 */
#ifndef BERTH_PROVIDERS_AWS_SESSION_INVOKE_H
#define BERTH_PROVIDERS_AWS_SESSION_INVOKE_H

#include "providers/aws/client/aws_client.h"

/* What one invocation carries and answers; more goes by way of the bucket. */
#define INVOKE_PAYLOAD_MAX ((size_t)6 << 20)
#define INVOKE_TENANT_MAX 256

struct invoke_call {
        const char *function; /* name or ARN */
        const char *
                tenant; /* its id, [a-zA-Z0-9._:/=+\-@ ]{1,256}; NULL for a function without tenant isolation */
        const char *payload; /* JSON */
        size_t length;
        int64_t timeout_ms;   /* the function's own: a minute more without a byte, and it is given up */
        int64_t throttled_ms; /* how long throttling is waited for */
        bool buffered;        /* not to be asked for as a stream: an earlier one has said `streams_missing` */
        /* Takes the answer as it comes; false ends the call, which then is INVOKE_UNKNOWN. */
        bool (*sink)(void *context, const void *bytes, size_t length);
        void *context;
        const struct interrupt *ended_by; /* or NULL */
        const struct interrupt
                *unsent_by; /* or NULL: ends waiting for another try, and not a try that is under way */
};

enum invoke_end {
        INVOKE_DONE, /* the function answered, and all of it has come */
        INVOKE_FAILED, /* it ran and failed: `code` and `details` say how ("Runtime.ExitError", "Sandbox.Timedout") */
        INVOKE_THROTTLED, /* nothing ran, for as long as was waited */
        INVOKE_REFUSED,   /* nothing ran: `details` say why */
        INVOKE_UNKNOWN    /* it may have run, and its answer, or the rest of it, is lost */
};

struct invoke_result {
        enum invoke_end end;
        bool streams_missing; /* this place does not have streams: the answer came as one */
        bool tenant_unexpected; /* INVOKE_REFUSED: the function has tenant isolation and no tenant was named, or the other way round */
        char reason[96];    /* INVOKE_THROTTLED: which quota, in Lambda's word; "" where it does not say */
        char code[96];      /* of AWS or of the function; "" if absent */
        char details[1024]; /* for people, one line */
        char request_id[96];
};

/* Waits for the end. The sink is called on this thread. */
void invoke(struct aws_client *client, const struct invoke_call *invocation, struct invoke_result *ret);

/* Whether Lambda takes it as a tenant's id. */
bool invoke_tenant_is_valid(const char *tenant);

#endif
