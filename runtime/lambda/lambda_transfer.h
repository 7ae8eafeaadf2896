/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What moves between the environment and the bucket, by presigned requests: done by transfer.py in a process of the image's python3, since this
 * program has no TLS. One process does all jobs of all invocations, since Python takes a while to start; between them it knows of no request. Where
 * code has killed it, the next job begins another. It trusts the authorities of LAMBDA_AUTHORITIES, where that file is, else the image's own.
 *
 * The process's words are treated as an attacker's: code of the same user may have killed it, or
 * worse, and gains by that what a session's code has anyway, its own files.
 */
#ifndef BERTH_RUNTIME_LAMBDA_LAMBDA_TRANSFER_H
#define BERTH_RUNTIME_LAMBDA_LAMBDA_TRANSFER_H

#include "base/digest.h"
#include "process/process.h"
#include "runtime/protocol/invocation.h"

/* Beside the program, in the image. */
#define LAMBDA_AUTHORITIES "/opt/berth/authorities.pem"

struct lambda_transfer {
        int index; /* what was alike on both sides when they were last compared: a file without a name; -1: not yet */
        int body; /* what goes, or has come, as one object: such a file too */
        struct process process;
        int socket; /* -1: no process lives */
        struct strbuf heard;
        size_t taken;
        /* Told of each file that is not as the event had it, while it is moved. */
        void (*tell)(void *context, const struct invocation_file *file);
        void *context;
        int64_t skipped_left_out; /* of the last job: how many were not even reported */
        bool watches;
};
#define LAMBDA_TRANSFER_NONE \
        { .index = -1, .body = -1, .process = PROCESS_NONE, .socket = -1 }

/* Nothing is known of the workspace any more: it was emptied. */
void lambda_transfer_forget(struct lambda_transfer *transfer);
/* Starts the process ahead of its use; where it cannot, the next job says why. */
void lambda_transfer_prepare(struct lambda_transfer *transfer, int64_t until_ms);
/* The invocation is over: it lets go of what it was given, and looks for nothing any more. */
void lambda_transfer_rest(struct lambda_transfer *transfer, int64_t until_ms);
/* Ends the process, where one lives. */
void lambda_transfer_end(struct lambda_transfer *transfer);
void lambda_transfer_release(struct lambda_transfer *transfer);

/*
 * Brings into the workspace's folder what `workspace` of an event has. `mine`: what code has changed here since counts more than what
 * the event says. -1: not all of it is here.
 */
int lambda_transfer_pull(struct lambda_transfer *transfer, const json_t *workspace, bool mine,
                         int64_t until_ms, struct error *err) MUST_USE;
/*
 * Brings out what has changed. -1: not all of it is there; files that are were reported
 * nevertheless.
 */
int lambda_transfer_push(struct lambda_transfer *transfer, const json_t *workspace, int64_t until_ms,
                         struct error *err) MUST_USE;

/* The file that lambda_transfer_post() sends: empty, for who writes into it. Borrowed; -1: there is no memory for it. */
int lambda_transfer_body(struct lambda_transfer *transfer, struct error *err) MUST_USE;
/* Puts it under the policy's prefix. Its digest is *ret_sha256, which may be NULL. */
int lambda_transfer_post(struct lambda_transfer *transfer, const json_t *policy, const char *name,
                         int64_t until_ms, char ret_sha256[SHA256_HEX_SIZE], struct error *err) MUST_USE;
/*
 * Fetches an object of an event into transfer->body, from its beginning: 0. 1: it is gone, or is not what its digest says: `err` tells
 * why. -1: it could not be had.
 */
int lambda_transfer_fetch(struct lambda_transfer *transfer, const json_t *object, int64_t until_ms,
                          struct error *err) MUST_USE;

/*
 * Looks from now on, until the next job, each INVOCATION_INTERRUPT_MS whether an object is there.
 * The caller polls transfer->socket while transfer->watches, and calls this then: true once, when
 * it was found.
 */
int lambda_transfer_watch(struct lambda_transfer *transfer, const json_t *interrupt, int64_t until_ms,
                          struct error *err) MUST_USE;
bool lambda_transfer_hear(struct lambda_transfer *transfer);

#endif
