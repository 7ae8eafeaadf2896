/* SPDX-License-Identifier: Apache-2.0 */
/* Which lineages this state speaks for, told to the provider before a plan: see providers/lineage.h. */
#ifndef BERTH_CONTROLLER_LINEAGE_H
#define BERTH_CONTROLLER_LINEAGE_H

#include "controller/plan.h"

/* This machine, as notes name it. */
const char *lineage_machine(struct arena *arena);
/* Tells the provider whose state this is. */
int lineage_announce(const struct plan_args *args, struct arena *arena, struct error *err) MUST_USE;
/* What a plan's observing found of this stack's that nobody manages: told in the plan. */
void lineage_note_orphans(const struct plan_args *args, struct plan *plan, struct arena *arena);
/* Before an apply's first change: fails where the lineage is no longer this state's to use; renews its note. */
int lineage_renew(const struct plan_args *args, struct error *err) MUST_USE;

#endif
