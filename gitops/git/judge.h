/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds who signed a text, by gpgv and ssh-keygen: in a process of its own (this program as `berth
 * git-judge`, not in the help), in a cage without a network. The worker cannot start programs
 * itself, and has another user where it was root's: ssh-keygen asks for its user's name.
 *
 *         judge_start(&args, &judge, err);        before the worker goes into its own cage
 *         judge_ask(judge, &text, ...);           as often as there are signatures
 *         judge_end(judge);
 *
 * Between the two goes a frame each way (LENGTH "\n" JSON, then the bytes that it counts), over a pair of sockets. The
 * keys are read when the judge starts: replaced ones count from the next poll on.
 */
#ifndef BERTH_GITOPS_GIT_JUDGE_H
#define BERTH_GITOPS_GIT_JUDGE_H

#include "gitops/git/repository.h"
#include "process/process.h"

struct judge_args {
        const char *const *gpg_keys; /* files */
        size_t gpg_key_count;
        const char *ssh_allowed_signers;
        const char *folder;  /* the judge's own: made, emptied, and no one else's to write */
        int64_t deadline_ms; /* monotonic */
};

struct judge {
        struct process process;
        int socket;
};
#define JUDGE_NONE \
        { .process = PROCESS_NONE, .socket = -1 }

int judge_start(const struct judge_args *args, struct judge *ret, struct error *err) MUST_USE;
void judge_end(struct judge *judge);

/* 1 with the signer, in the arena; 0 with why it counts for nothing; -1 where there was no verdict. */
int judge_ask(struct judge *judge, const struct signed_text *text, struct arena *arena,
              const char **ret_signer, const char **ret_why, enum git_failure *ret_failure,
              struct error *err) MUST_USE;

#endif
