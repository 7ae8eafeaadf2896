/* SPDX-License-Identifier: Apache-2.0 */
/* A plan that nothing stands in the way of any more, applied; and what is said of that. Of attempt.c alone. */
#ifndef BERTH_GITOPS_CARRY_OUT_H
#define BERTH_GITOPS_CARRY_OUT_H

#include "gitops/attempt_parts.h"

/*
 * work->plan, which has no refusals; one without changes is recorded as such. The lease is held. Whatever was decided for it is
 * used up with it; how it went is in the attempt: "Applied", "ApplyFailed", "StateFailed", or interrupted.
 */
void carry_out_plan(struct work *work);

#endif
