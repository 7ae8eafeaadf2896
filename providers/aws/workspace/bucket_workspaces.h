/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workspaces in the stack's bucket: the body of sessions/workspace_body.h on AWS. Any number of servers may use one at once; nothing of it is kept
 * from one opening to the next.
 *
 *      struct workspaces workspaces = bucket_workspaces(&bucket, "/var/lib/berth/spool");
 *
 * What a function says was done lies in the bucket, and the index knows it. A call that failed may
 * have been done nevertheless: the bucket is what holds, and a check of the index finds it.
 */
#ifndef BERTH_PROVIDERS_AWS_WORKSPACE_BUCKET_WORKSPACES_H
#define BERTH_PROVIDERS_AWS_WORKSPACE_BUCKET_WORKSPACES_H

#include "providers/aws/workspace/workspace_index.h"
#include "sessions/workspace.h"

extern const struct workspace_body bucket_workspaces_body;

/* Both are borrowed, and outlive what is opened. Files on their way in and out lie in the folder `spool`, without names. */
static inline struct workspaces bucket_workspaces(const struct workspace_bucket *bucket, const char *spool) {
        return (struct workspaces){ .folder = spool,
                                    .stack = bucket->stack,
                                    .body = &bucket_workspaces_body,
                                    .context = (void *)(uintptr_t)bucket };
}

#endif
