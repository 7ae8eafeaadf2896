/* SPDX-License-Identifier: Apache-2.0 */
/* What an attempt found: into the source's status, the metrics, the log and the notifications. Of attempt.c alone. */
#ifndef BERTH_GITOPS_PLAN_FINDINGS_H
#define BERTH_GITOPS_PLAN_FINDINGS_H

#include "gitops/attempt_parts.h"

/* Drift, refusals and warnings of the plan: each told once, until it changes. */
void plan_findings_tell(struct work *work);
/* How many resources of each kind the stack has. */
void plan_findings_count(struct work *work);

#endif
