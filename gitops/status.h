/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of each source, for `status`, /readyz, /metrics and the notifications: written by the source's own thread,
 * read by any. Kept in the source's state (meta "source"), so that a restart goes on where it was.
 */
#ifndef BERTH_GITOPS_STATUS_H
#define BERTH_GITOPS_STATUS_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* As kstatus has them. */
enum condition_type { CONDITION_READY, CONDITION_RECONCILING, CONDITION_STALLED, CONDITION_COUNT };

struct condition {
        bool status;
        char reason
                [48]; /* "Applied", "Unreachable", "InvalidManifests", "Refused", "WaitingForApproval" ... */
        char message[1024]; /* for people */
        char commit[41];    /* that it speaks of, or "" */
        int64_t since_ms;   /* wall time of the last change of `status` or `reason` */
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
const char *reconcile_result_name(enum reconcile_result result);

#endif
