/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files between the environment and the bucket, by presigned requests: done by transfer.py in a process of the image's python3, since this
 * program has no TLS. It trusts the authorities of LAMBDA_AUTHORITIES, where that file is, else the image's own.
 *
 * What the process says is heard as if somebody else had said it: code of the same user may have killed it, or worse, and gains by
 * that what a session's code has anyway, its own files.
 */
#ifndef BERTH_RUNTIME_LAMBDA_TRANSFER_H
#define BERTH_RUNTIME_LAMBDA_TRANSFER_H

#include "runtime/invocation.h"

/* Beside the program, in the image. */
#define LAMBDA_AUTHORITIES "/opt/berth/authorities.pem"

struct lambda_transfer {
        int index; /* what was alike on both sides when they were last compared: a file without a name; -1: not yet */
        struct strbuf files; /* of the last one: what became of files, as messages */
        int64_t file_count;
};

/* Nothing is known of the workspace any more: it was emptied. */
void lambda_transfer_forget(struct lambda_transfer *transfer);
void lambda_transfer_release(struct lambda_transfer *transfer);

/*
 * Brings into the workspace's folder what `workspace` of an event has. `mine`: what code has changed here since counts more than what
 * the event says. -1: not all of it is here.
 */
int lambda_transfer_pull(struct lambda_transfer *transfer, const json_t *workspace, bool mine,
                         int64_t until_ms, struct error *err) MUST_USE;
/* Brings out what has changed. -1: not all of it is there; what is stands in `files` all the same. */
int lambda_transfer_push(struct lambda_transfer *transfer, const json_t *workspace, int64_t until_ms,
                         struct error *err) MUST_USE;
/* Puts the bytes under the policy's prefix. */
int lambda_transfer_post(struct lambda_transfer *transfer, const json_t *policy, const char *name,
                         const char *bytes, size_t length, int64_t until_ms, struct error *err) MUST_USE;

#endif
