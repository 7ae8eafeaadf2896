/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The known state of each source, for `status`, /readyz, /metrics and the notifications: written by
 * the source's own thread, read by any (under the source's lock). Kept in the source's state (meta
 * "source"), so that a restart goes on where it was.
 */
#ifndef BERTH_GITOPS_STATUS_H
#define BERTH_GITOPS_STATUS_H

#include "base/error.h"
#include "gitops/config.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define STATUS_META STATE_META_SOURCE /* the name that status_store() has in the state's meta */
#define COMMIT_SIZE 41                /* 40 hex digits and the NUL */

/* As kstatus has them. */
enum condition_type { CONDITION_READY, CONDITION_RECONCILING, CONDITION_STALLED, CONDITION_COUNT };
const char *status_condition_name(enum condition_type type);

struct condition {
        bool status;
        char reason
                [48]; /* "Applied", "Unreachable", "InvalidManifests", "Refused", "WaitingForApproval" ... */
        char message[1024];       /* for people */
        char commit[COMMIT_SIZE]; /* that it speaks of, or "" */
        int64_t since_ms;         /* wall time of the last change of `status` or `reason`; 0: never set */
};

/* How one reconciliation ended; also the label `result` of the metrics. */
enum reconcile_result {
        RECONCILE_UNCHANGED, /* "unchanged": nothing to do */
        RECONCILE_APPLIED,   /* "applied" */
        RECONCILE_REFUSED,   /* "refused": some or all */
        RECONCILE_WAITING,   /* "waiting": for approval */
        RECONCILE_REPORTED,  /* "reported": mode plan, or drift that is not corrected */
        RECONCILE_FAILED,    /* "failed" */
        RECONCILE_RESULT_COUNT
};
const char *status_result_name(enum reconcile_result result);

/* What one look at a source came to. `problem` of the repository goes before the last verdict on a commit. */
struct verdict {
        bool ready;
        bool stalled; /* only a person or a new commit helps */
        char reason[48];
        char message[1024];
        char commit[COMMIT_SIZE];
};

struct source_status {
        struct condition conditions[CONDITION_COUNT];
        struct verdict problem; /* of the repository; reason "" where the last poll was well */
        struct verdict verdict; /* of the last reconciliation; reason "" without one */
        json_t *seen;           /* the commit that Git gave last: see status_commit_json(); NULL: none yet */
        json_t *good;           /* the last one that was put in force; NULL: none yet */
        bool bad;               /* `seen` was found to be of no use whenever it is tried again */
        int result;             /* enum reconcile_result, or -1: none yet */
        int64_t polled_ms, reconciled_ms, applied_ms, success_ms; /* wall time; 0: never */
        int suspended;                                            /* by hand: 1, 0; -1: as configured */
        json_t *refusals;  /* list of {address, id, message, remedy, dependents} */
        json_t *plan;      /* {id, commit, createdAt, summary, changes}, or NULL */
        json_t *drift;     /* list of {address, gone, fields} */
        json_t *resources; /* map kind: count */
        json_t *folders;   /* where path is a pattern: list of {path, gone} */
        char approved[16]; /* id of the plan that a person approved, or "" */
        json_t *allowed;   /* list of "ID[:ADDR]" that a person lets through, once, for `seen` */
        char approver[64]; /* who did the last of these, or "" */
        /* The commit that a person lets in although history was rewritten, until it was applied or is the newest no more; or "" */
        char accepted_rewrite[COMMIT_SIZE];
};

/* What a person decided, on its way into the status: only once it is written down. */
struct decision {
        json_t *allowed; /* owned; or NULL */
        char approved[16];
        char approver[64];
        char accepted_rewrite[COMMIT_SIZE];
        char seen[COMMIT_SIZE]; /* the newest commit when the person looked, or "" */
};
/* Puts the decision (all but `seen`) into the status, and what stood there into the decision: twice is as it was. */
void status_exchange_decision(struct source_status *status, struct decision *decision);

void status_init(struct source_status *status);
void status_release(struct source_status *status);

const char *status_commit(const json_t *commit); /* its id, "" where `commit` is NULL; borrowed */
bool status_suspended(const struct source_status *status, const struct source_config *config);
/* Whether the newest commit is held because history was rewritten: problem.commit, until a person lets it in. */
bool status_is_rewritten(const struct source_status *status);

/* Whether `status` or `reason` changed. `message` and the others are copied and cut. */
bool status_set(struct source_status *status, enum condition_type type, bool value, const char *reason,
                const char *message, const char *commit, int64_t now_ms);
/* Ready and Stalled as problem and verdict have them. Whether Ready changed in status or reason. */
bool status_conclude(struct source_status *status, int64_t now_ms);

/* docs/json.md, "controller status": a new reference, with no member that is only known to a running controller. */
json_t *status_json(const struct source_status *status, const struct source_config *config, const char *url);
/* The same with what the next start needs besides, and back. */
json_t *status_store(const struct source_status *status, const struct source_config *config, const char *url);
/* A member that cannot be read (of an older version, or nonsense) is ignored. */
void status_restore(struct source_status *status, const json_t *stored);

#endif
