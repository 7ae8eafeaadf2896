/* SPDX-License-Identifier: Apache-2.0 */
/* What the files behind approvals.h share: an approval as it is known in memory, and how an entry of the log becomes that. */
#ifndef BERTH_APPROVALS_APPROVALS_PARTS_H
#define BERTH_APPROVALS_APPROVALS_PARTS_H

#include "approvals/approvals.h"
#include "approvals/audit.h"
#include "approvals/host.h"
#include "jobs/jobs.h"

#include <jansson.h>
#include <pthread.h>

enum approval_status { PENDING, APPROVED, DENIED, EXPIRED, DONE };
extern const char *const approvals_status_names[]; /* by status */

struct approval {
        json_t *asked;                  /* its entry */
        const char *id, *owner, *agent; /* in there */
        json_t *decided, *result;
        enum approval_status status;
        bool began;
        int64_t expires_ms, ended_ms;
        int64_t until_ms;      /* the same as expires_ms by the monotonic clock, or earlier */
        size_t bytes;          /* of what it printed */
        struct approval *next; /* the older one */
};

struct approvals {
        pthread_mutex_t lock;
        struct audit *audit;
        struct approval *newest;
        void *by_id; /* tsearch(3) */
        size_t count, bytes;
        struct host_user user;
        json_t *variables, *trusted;
        char *state; /* the state's folder, without links */
        int64_t expiry_seconds;
        struct jobs *jobs; /* commands that run */
        size_t running;
        int stop; /* readable once it is to stop */
        void (*tell)(void *context, const struct approvals_news *news);
        void *context;
};

/* --- approvals_known.c: all with the lock held --- */

/* NULL: there is no such approval, or it is no longer kept. */
struct approval *approvals_find(const struct approvals *approvals, const char *id);
/* For audit_open(): each entry that was kept, in its order. `context`: the approvals. */
audit_take approvals_take_entry;
/* Writes the entry, which is taken over, and then changes what is known. -1 where it was not written: nothing has changed. */
int approvals_write(struct approvals *approvals, json_t *entry, struct error *err) MUST_USE;
/* An end that the log did not take. */
void approvals_end_unwritten(struct approvals *approvals, struct approval *approval,
                             enum approval_status status);
/* Ended approvals that are old, or more than are kept. */
void approvals_forget_old(struct approvals *approvals);
void approvals_forget_all(struct approvals *approvals);
/* Of all words of a command, each with its end. */
size_t approvals_words_bytes(const json_t *command);

#endif
