/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runtime that serves, as a process below the one that speaks with Lambda: this program again,
 * with an environment without anything of Lambda's. It runs the code's kernels, and code of the
 * same user may kill it: then it is started again, with nothing.
 */
#ifndef BERTH_RUNTIME_LAMBDA_LAMBDA_INNER_H
#define BERTH_RUNTIME_LAMBDA_LAMBDA_INNER_H

#include "process/process.h"
#include "runtime/protocol/report.h"
#include "runtime/protocol/request.h"

struct lambda_inner {
        struct process process;
        int socket; /* -1: it does not live */
        struct message_reader reader;
        struct strbuf unsent;
        size_t sent;
        bool used; /* something was asked of it that code may have heard */
};
#define LAMBDA_INNER_NONE \
        { .process = PROCESS_NONE, .socket = -1 }

int lambda_inner_start(struct lambda_inner *inner, struct error *err) MUST_USE;
/* Ends it, and lets go of it; nothing where it does not live. Processes that it started live on. */
void lambda_inner_end(struct lambda_inner *inner);

void lambda_inner_ask(struct lambda_inner *inner, const struct request *request);
void lambda_inner_send(struct lambda_inner *inner);
/*
 * Its next message, in *ret, and in *ret_message, which the caller releases: 1. 0: nothing yet. -1:
 * it is dead, or sent an invalid message.
 */
int lambda_inner_hear(struct lambda_inner *inner, struct message *ret_message, struct report *ret,
                      struct error *err) MUST_USE;

#endif
