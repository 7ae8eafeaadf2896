/* SPDX-License-Identifier: Apache-2.0 */
/* What an attempt found: into the source's status, the metrics, the log and the notifications. Of attempt.c alone. */
#ifndef BERTH_GITOPS_FOUND_H
#define BERTH_GITOPS_FOUND_H

#include "gitops/work.h"

/* Drift, refusals and warnings of the plan: each told once, until it changes. */
void found_plan(struct work *work);
/* How many resources of each kind the stack has. */
void found_resources(struct work *work);

#endif
