/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The buckets of several processes of ours that work side by side, `berth apply --stacks`: AWS counts their calls together where they
 * work in one account and region.
 *
 *     quota_shared_new(&descriptor, &err)     once, by the process that starts them. Each of them is given the descriptor, and its
 *                                             number as text in the variable QUOTA_SHARED_VARIABLE
 *     quota_shared_find("1111...", "eu-...")  in each of them, by quota_set.c
 *
 * Any of the processes may be killed at any moment: the locks are robust, and a bucket is of use in every state.
 */
#ifndef BERTH_PROVIDERS_AWS_CLIENT_QUOTA_SHARED_H
#define BERTH_PROVIDERS_AWS_CLIENT_QUOTA_SHARED_H

#include "base/error.h"
#include "providers/aws/client/quota.h"

#define QUOTA_SHARED_VARIABLE "BERTH_SHARED_PACE"

int quota_shared_new(int *ret, struct error *err) MUST_USE;

/*
 * QUOTA_COUNT buckets, for the life of this process; NULL where none are shared with us, or there are more accounts and regions
 * than fit. On the monotonic clock of the system. Any thread.
 */
struct quota_bucket *quota_shared_find(const char *account, const char *region);

#endif
