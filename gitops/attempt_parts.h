/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of an attempt: shared by attempt.c, carry_out.c and plan_findings.c alone. */
#ifndef BERTH_GITOPS_ATTEMPT_PARTS_H
#define BERTH_GITOPS_ATTEMPT_PARTS_H

#include "controller/saved_plan.h"
#include "gitops/attempt.h"

#define ATTEMPT_COMMAND "controller" /* what holds the lease, and stands in the history */

/* Filled in from the top, step by step. */
struct work {
        struct attempt *attempt;
        struct source *source;
        struct following *following;
        const struct source_config *config;
        struct state *state;  /* of the stack: the source's own, or `shared` */
        struct state *shared; /* opened for this attempt, where the state lies in S3; else NULL */
        struct arena *arena;
        struct manifests manifests;
        struct diagnostics diagnostics;
        const struct provider_ops *ops;
        struct provider *provider;
        struct saved_plan saved;
        bool apply_saved; /* the plan that waits was approved */
        bool approved;    /* and still fits: it is the plan now */
        struct plan_args planning;
        struct plan plan;
};

void attempt_settle(struct attempt *attempt, enum reconcile_result result, bool ready, const char *reason,
                    const char *message);
/*
 * A failure that another try may mend. Where the program is told to end, calls fail because of that: it says nothing about the
 * commit then. Returns -1.
 */
int attempt_give_up(struct work *work, const char *reason, const struct error *err);

#endif
