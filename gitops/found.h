/* SPDX-License-Identifier: Apache-2.0 */
/* What an attempt found: into the source's status, the metrics, the log and the notifications. Of attempt.c alone. */
#ifndef BERTH_GITOPS_FOUND_H
#define BERTH_GITOPS_FOUND_H

#include "controller/saved_plan.h"
#include "gitops/attempt.h"

/* An attempt at work. */
struct work {
        struct attempt *attempt;
        struct source *source;
        struct following *following;
        const struct source_config *config;
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

/* Drift, refusals and warnings of the plan: each told once, until it changes. */
void found_plan(struct work *work);
/* How many resources of each kind the stack has. */
void found_resources(struct work *work);

#endif
