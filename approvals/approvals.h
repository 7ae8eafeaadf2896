/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands on the host, asked for by agents and decided on by people.
 *
 *      approvals_open -> approvals_ask -> approvals_decide -> (it runs, on a thread of the pool) -> approvals_show
 *
 * All that is asked, decided and run is an entry of the audit log (audit.h), on the disk before it
 * is answered; what is known here is what stands there, read again at each start. A command begins
 * once: `began` is written before it runs. A command that had begun, or was about to, when a server
 * died is never run by the next server, which writes down that its end is unknown, or that it did
 * not run.
 *
 * Any thread may call.
 */
#ifndef BERTH_APPROVALS_APPROVALS_H
#define BERTH_APPROVALS_APPROVALS_H

#include "sessions/problem.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define APPROVALS_FOLDER "audit" /* in the state's */
#define APPROVALS_ID_SIZE 29     /* "a-", 26 characters, the NUL */
#define APPROVALS_WORDS_MAX 1000
#define APPROVALS_COMMAND_MAX ((size_t)32768) /* bytes of all words: a person reads no more before deciding */
#define APPROVALS_REASON_MAX 4096             /* and of a note, in characters */
#define APPROVALS_PENDING_MAX 100             /* of one owner, that are not decided */
#define APPROVALS_ALL_PENDING_MAX 1000
#define APPROVALS_RUNNING_MAX 16
#define APPROVALS_TRUSTED_MAX \
        12 /* that run at the same time without a decision; the rest is for those decided on */
#define APPROVALS_TRUSTED_OWNER_MAX 4                 /* of those, one owner's */
#define APPROVALS_KEPT_MS ((int64_t)7 * 86400 * 1000) /* behind the end; then they stand in the log alone */
#define APPROVALS_KEPT_MAX 10000
#define APPROVALS_KEPT_BYTES ((size_t)64 << 20) /* of what the ended ones printed */
#define APPROVALS_TIMEOUT_MAX 900               /* seconds */
#define APPROVALS_TIMEOUT 300                   /* of who does not say */
#define APPROVALS_LIST_MAX 1000

struct approvals;

struct approvals_news {
        const char *id, *owner, *agent, *status;
};

struct approvals_config {
        const char *state; /* the state's folder; `audit` is made in it */
        const char *user;  /* as whom commands run; NULL: this process's user, who must not be root then */
        int64_t expiry_seconds; /* of what waits */
        const json_t *trusted;  /* [{agent, command, cwd}]: need no approval; copied */
        /* NULL, or what hears of each change of a status: with the lock of approvals, which it does not call. */
        void (*tell)(void *context, const struct approvals_news *news);
        void *context;
};

/* -1 with what stands in the way: no user, a damaged log, a trusted folder beneath the state. */
int approvals_open(const struct approvals_config *config, struct approvals **ret, struct error *err) MUST_USE;
/* What runs is killed, which is written down. No call may be under way. NULL is fine. */
void approvals_close(struct approvals *approvals);

/* The caller. */
struct approvals_caller {
        const char *client; /* its name, or "uid:N" */
        const char *owner;  /* NULL: every owner's, for who decides or observes */
        bool on_socket;     /* the kernel names the caller: that user may decide on requests of their own */
        bool sees_all;      /* may decide or observe, and names no owner */
        const char *const *agents; /* that it may name, ended by NULL; NULL: all */
};

struct approvals_wish {
        const char *agent;     /* one that was applied: that was looked up */
        const json_t *command; /* a list of texts */
        const char *cwd;
        const char *reason; /* or NULL */
        int64_t timeout_seconds;
        const char *
                key; /* NULL; else this caller's wish of that key is asked for once in a day, and is the same one then */
};

/*
 * *ret is the approval: {id, status: pending | approved | denied | expired | done, command, cwd, program, programSha256, user, variables, agent,
 * client, owner, reason, trusted, timeoutSeconds, askedAt, expiresAt, decidedBy, decidedAt, note, result}. A trusted one is `approved`
 * at once, and runs.
 */
int approvals_ask(struct approvals *approvals, const struct approvals_caller *caller,
                  const struct approvals_wish *wish, json_t **ret, struct problem *problem) MUST_USE;
struct approvals_decision {
        const char *id;
        bool approve;     /* or deny */
        const char *note; /* or NULL */
};
/* PROBLEM_CONFLICT where it was decided before, or has expired; PROBLEM_NOT_ALLOWED for who asked. */
int approvals_decide(struct approvals *approvals, const struct approvals_caller *caller,
                     const struct approvals_decision *decision, json_t **ret,
                     struct problem *problem) MUST_USE;
int approvals_show(struct approvals *approvals, const struct approvals_caller *caller, const char *id,
                   json_t **ret, struct problem *problem) MUST_USE;

struct approvals_filter {
        const char *const *statuses, *const *agents; /* ended by NULL; or NULL */
        size_t limit;
        const char *cursor; /* an id; NULL: from the newest on */
};
/* {items, cursor}, the newest first, without what they printed. */
int approvals_list(struct approvals *approvals, const struct approvals_caller *caller,
                   const struct approvals_filter *filter, json_t **ret, struct problem *problem) MUST_USE;

/* Writes down what has expired meanwhile; forgets what is old. */
void approvals_look(struct approvals *approvals);

bool approvals_is_id(const char *text);

#endif
