/* SPDX-License-Identifier: Apache-2.0 */
/* A client's inside, for aws_client.c (calls) and aws_client_open.c (settings). */
#ifndef BERTH_PROVIDERS_AWS_CLIENT_AWS_CLIENT_STATE_H
#define BERTH_PROVIDERS_AWS_CLIENT_AWS_CLIENT_STATE_H

#include "http/http.h"
#include "providers/aws/client/aws_client.h"
#include "providers/aws/client/credentials.h"
#include "providers/aws/client/endpoint.h"
#include "providers/aws/client/profiles.h"
#include "providers/aws/client/quota_set.h"
#include "providers/aws/client/retry.h"

#include <pthread.h>
#include <stdatomic.h>

struct aws_client {
        struct credentials_caller caller; /* first: see client_sts() */
        const struct clock *clock;
        double (*random)(void);
        const struct provider_watch *watch; /* or NULL */
        struct profiles *profiles;
        char *profile;
        const char *profile_named_by; /* NULL where none was named */
        bool profile_in_stack;
        char *region;
        const struct partition *partition;
        char *assume_role;
        char *stack_url;
        struct endpoint endpoints[AWS_SERVICE_COUNT];
        struct http_pool *http;
        struct credentials_chain *chain;
        struct quota_set *own_quotas,
                *shared_quotas;           /* shared: once the account is known or expected, else NULL */
        struct quota_set *_Atomic quotas; /* the one of them that counts */
        struct retry_quota retries;
        unsigned max_attempts;
        struct ahead *ahead;  /* what was asked ahead: ahead.h */
        atomic_llong skew_ms; /* what AWS's clock is ahead of ours, once that has come up */
        pthread_mutex_t account_lock;
        char *expected; /* the account that shared_quotas are of before it is known; or NULL */
        char *account;
        char *arn;
};

/* Where a service is in any region of any partition. */
int client_endpoint(const struct aws_client *client, enum aws_service service, const char *region,
                    struct endpoint *ret, struct error *err) MUST_USE;

/* aws_call() without a look at what was asked ahead. */
int client_call(struct aws_client *client, const struct aws_request *request, struct aws_response *response,
                struct error *err) MUST_USE;

/* The credentials' way back to the client; `caller` is the client's first member. */
int client_sts(struct credentials_caller *caller, const char *operation, const struct credentials *signer,
               const char *origin, const char *form, struct strbuf *ret_answer, enum retry_reason *ret_reason,
               int64_t *ret_asked_ms, struct error *err);

#endif
