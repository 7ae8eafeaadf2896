/* SPDX-License-Identifier: Apache-2.0 */
/* The result of an attempt, in one line for people: in the arena. */
#ifndef BERTH_GITOPS_ATTEMPT_TEXT_H
#define BERTH_GITOPS_ATTEMPT_TEXT_H

#include "controller/apply.h"
#include "schema/diagnostics.h"

/* "agents@3f2a91c04b1d:m.yaml:12:3: unknown field \"x\" (did you mean y?); 3 more errors" */
const char *attempt_text_diagnostics(const struct diagnostics *diagnostics, struct arena *arena);
/* All of them into the log, twenty at most. */
void attempt_text_log(const struct diagnostics *diagnostics);

const char *attempt_text_planned(const struct plan *plan, struct arena *arena); /* "2 to create, 1 refused" */
const char *attempt_text_applied(const struct plan *plan, const struct apply_result *result,
                                 struct arena *arena); /* "2 created, 1 deleted" */
/* "Environment/x: why; 1 more failed" */
const char *attempt_text_failed(const struct plan *plan, const struct apply_result *result,
                                struct arena *arena);
const char *attempt_text_unchanged(const struct plan *plan,
                                   struct arena *arena); /* "14 resources are as they shall be" */
/*
 * "changed outside of Berth: Environment/x (memoryMB); Agent/y (deleted)"; not corrected: "...;
 * left as found"
 */
const char *attempt_text_drift(const struct plan *plan, bool corrected, struct arena *arena);

#endif
