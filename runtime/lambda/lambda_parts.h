/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of the runtime on Lambda, for the files that it is made of: lambda.c serves events, lambda_owner.c says whose the environment
 * is, lambda_code.c runs code, lambda_checkpoint.c brings kernels back and keeps them.
 */
#ifndef BERTH_RUNTIME_LAMBDA_LAMBDA_PARTS_H
#define BERTH_RUNTIME_LAMBDA_LAMBDA_PARTS_H

#include "runtime/lambda/lambda_answer.h"
#include "runtime/lambda/lambda_environment.h"
#include "runtime/lambda/lambda_inner.h"
#include "runtime/lambda/lambda_transfer.h"

/* The message that is awaited from the runtime that serves, beside pieces. */
enum lambda_waiting { LAMBDA_NOTHING, LAMBDA_PREPARED, LAMBDA_RESTORED, LAMBDA_CHECKPOINTED, LAMBDA_END };

struct lambda {
        struct lambda_api api;
        struct lambda_environment environment;
        struct lambda_inner inner;
        struct lambda_transfer transfer;
        char lost[512]; /* why the runtime before does not live any more */
        int64_t served, idle_ms, frozen_ms;
        bool settled; /* since this start: whose the environment is was looked at */
        /*
         * something of the session before may be left: no session gets the environment before it is
         * gone
         */
        bool unclean;
        /* Of the invocation that is being done. */
        struct lambda_answer answer;
        enum lambda_waiting waiting;
        int64_t n;               /* of the execution that runs; 0: none */
        const json_t *interrupt; /* where to look for its interrupt, while that is looked for; or NULL */
        /* how often the look for it is repeated, if the process that does it has ended */
        unsigned looks_left;
        bool has_python;
        char said[CONTENT_REASON_MAX +
                  1]; /* why there is no Python, or why nothing was restored or taken; "" */
        /* A checkpoint that goes to kernels, out of transfer.body, or comes from them, into it. */
        int64_t pieces_left;
        char unusable[CONTENT_REASON_MAX + 1]; /* why the one that should be restored cannot be used */
        json_t *checkpoint;                    /* what became of each context, or NULL */
        char sha256[SHA256_HEX_SIZE];
};

static inline int64_t lambda_until(int64_t ms, int64_t until_ms) {
        return ms < until_ms ? ms : until_ms;
}
void lambda_complain(const char *what);
/* Until Lambda ends the function, or its answer is not trusted any more. */
int64_t lambda_time_left_ms(const struct invocation *invocation, const struct lambda_event *event);

/* --- lambda_owner.c --- */

/* Whether the event may be served here at all. */
enum invocation_refusal lambda_owner_admit(const struct lambda *lambda, const struct invocation *invocation,
                                           const struct lambda_event *event, struct error *err);
/* Makes the environment the session's, and says what it was. */
enum invocation_refusal lambda_owner_settle(struct lambda *lambda, const struct invocation *invocation,
                                            const struct lambda_event *event, enum invocation_was *ret_was,
                                            struct error *err);
/* Whether nothing of the session has begun elsewhere since its last execution here. */
bool lambda_owner_is_last(const struct lambda_environment *environment, const struct invocation *invocation);

/* --- lambda_code.c --- */

/* The runtime that serves ends, with all that it started, and why. */
void lambda_code_lose(struct lambda *lambda, const char *why);
/* One message of it at most, so that what was printed goes on its way before more is read. -1: it is lost. */
int lambda_code_hear(struct lambda *lambda);
/* Until it says what is waited for: 0. 1: the time is over. -1: it is lost. */
int lambda_code_wait(struct lambda *lambda, enum lambda_waiting waiting, int64_t until_ms);
/* Does what the event asks for. -1: nothing of it ran. Further remarks are in *note. */
int lambda_code_run(struct lambda *lambda, const struct invocation *invocation,
                    const struct lambda_event *event, struct error *note, struct error *err) MUST_USE;

/* --- lambda_checkpoint.c --- */

/*
 * A runtime that lives, and whose kernels are as the event says that they were, are restored, or are known to be lost. -1: it could not
 * be had, or the checkpoint could not be fetched.
 */
int lambda_checkpoint_restore(struct lambda *lambda, const struct invocation *invocation,
                              const struct lambda_event *event, enum invocation_was was,
                              struct invocation_end *end, struct error *err) MUST_USE;
/* Takes one where the event wants it, brings it out, and says in *end what became of it. `why` is borrowed by *end. */
void lambda_checkpoint_take(struct lambda *lambda, const struct invocation *invocation,
                            const struct lambda_event *event, struct invocation_end *end, struct error *why);
/* The next pieces for kernels, as long as they go at once. */
void lambda_checkpoint_feed(struct lambda *lambda);
/* false: what it says of a checkpoint cannot be. */
bool lambda_checkpoint_hear(struct lambda *lambda, const struct report *report);

#endif
