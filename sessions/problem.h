/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why something that a client asked for was not done, as the client is told: a stable code with the meaning that HTTP has for it, and
 * a sentence. The last parameter of the functions that clients' requests end in; the rules are those of struct error: a
 * function that fails returns a negative number and has set it, one that succeeds has not touched it.
 */
#ifndef BERTH_SESSIONS_PROBLEM_H
#define BERTH_SESSIONS_PROBLEM_H

#include "base/error.h"

#include <stdint.h>

enum problem_code {
        PROBLEM_NONE,
        PROBLEM_INVALID,              /* 400 invalid: a value that cannot be taken */
        PROBLEM_NOT_FOUND,            /* 404 not-found: is not there, or not yours; one text for both */
        PROBLEM_NOT_ALLOWED,          /* 403 not-allowed: somebody else has to do that */
        PROBLEM_UNKNOWN_ENVIRONMENT,  /* 404 unknown-environment */
        PROBLEM_UNKNOWN_AGENT,        /* 404 unknown-agent */
        PROBLEM_AGENT_OUT_OF_SERVICE, /* 409 agent-out-of-service: inactive, or taken from its environment */
        PROBLEM_NOT_RUNNING,          /* 409 not-running: that execution has ended */
        PROBLEM_BUSY,                 /* 409 busy: what was asked needs a session in which nothing runs */
        PROBLEM_HAS_SESSIONS,         /* 409 has-sessions: living sessions use it */
        PROBLEM_ENVIRONMENT_UNFIT,    /* 409 environment-unfit: as it was applied no session may be in it */
        PROBLEM_CONFLICT,             /* 409 conflict: something else is there already */
        PROBLEM_CHANGED,              /* 412 precondition-failed: If-Match or If-None-Match does not hold */
        PROBLEM_TOO_LARGE,            /* 413 too-large */
        PROBLEM_RANGE,                /* 416 range-not-satisfiable: the file ends before the range begins */
        PROBLEM_KEY_REUSED,           /* 422 idempotency-key-reused: the same key, another request */
        PROBLEM_QUEUE_FULL,           /* 429 queue-full: as many executions wait in the session as may */
        PROBLEM_OWNER_LIMIT,          /* 429 owner-limit: as many sessions as one owner may have */
        PROBLEM_SERVER_LIMIT,         /* 429 server-limit: as many sessions as the server may have */
        PROBLEM_AGENT_LIMIT,          /* 429 agent-limit: as much runs for the agent as may */
        PROBLEM_KEYS_FULL,            /* 429 idempotency-keys-full: as many keys as an owner may have */
        PROBLEM_STORE_FAILED,         /* 500 store-failed: the records cannot be read or written */
        PROBLEM_WORKSPACE_FAILED,     /* 500 workspace-failed: its files cannot be read or written */
        PROBLEM_PLACE_FAILED,         /* 503 place-failed: the sandbox cannot be had */
        PROBLEM_EXHAUSTED,            /* 503 exhausted: the server has no descriptor or thread left for it */
        PROBLEM_STOPPING,             /* 503 stopping: the server ends */
        PROBLEM_WORKSPACE_FULL,       /* 507 workspace-full: a quota, or the disk */
        PROBLEM_CODE_COUNT
};

struct problem {
        enum problem_code code;
        int64_t retry_seconds; /* when to ask again, where that is known; 0: it is not */
        char detail[1024];     /* one sentence; may quote what the client sent, never another's data */
};

const char *problem_name(enum problem_code code);   /* "queue-full" */
unsigned problem_status(enum problem_code code);    /* of HTTP */
const char *problem_title(enum problem_code code);  /* what the code means, in words */
const char *problem_remedy(enum problem_code code); /* what to do; NULL where there is nothing to say */
int64_t problem_retry_seconds(const struct problem *problem); /* Retry-After; 0: time alone changes nothing */

/* Returns -1. */
int problem_set(struct problem *problem, enum problem_code code, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
/* The same with an error's message: what clients may read of it is for the caller to know. */
int problem_from_error(struct problem *problem, enum problem_code code, const struct error *err);
/* "cannot WHAT", with errno's words: PROBLEM_WORKSPACE_FULL where it says that a disk or quota is full, else _FAILED. */
int problem_from_errno(struct problem *problem, const char *what);

#endif
