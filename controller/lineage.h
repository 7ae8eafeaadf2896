/* SPDX-License-Identifier: Apache-2.0 */
/* Which lineages this state speaks for, told to the provider before a plan: see providers/lineage.h. */
#ifndef BERTH_CONTROLLER_LINEAGE_H
#define BERTH_CONTROLLER_LINEAGE_H

#include "controller/plan.h"

/* This machine, as notes name it. */
const char *lineage_machine(struct arena *arena);
/* Tells the provider whose state this is. */
int lineage_announce(const struct plan_args *args, struct arena *arena, struct error *err) MUST_USE;
/* Whether the state that made something lives, as its note and what lies there tell. */
enum lineage_life {
        LINEAGE_GONE, /* no note, taken over, or where it lay it is no more: a folder here, or a place in S3 */
        LINEAGE_HERE,     /* its state is on this machine, or in S3 */
        LINEAGE_ELSEWHERE /* on another machine, or in S3 where it cannot be read */
};
/* *ret_said: "last applied by anna@ci-7 at 2026-01-31T08:00:00.000Z from /srv/team/.berth"; not set where it is gone. */
int lineage_judge(const struct plan_args *args, const char *lineage, struct arena *arena,
                  enum lineage_life *ret, const char **ret_said, struct error *err) MUST_USE;
/*
 * Resources of this stack's that a plan found and that no state manages, or another state does:
 * reported in the plan.
 */
void lineage_note_orphans(const struct plan_args *args, struct plan *plan, struct arena *arena);
/* Before an apply's first change: fails where the lineage is no longer this state's to use; renews its note. */
int lineage_renew(const struct plan_args *args, struct error *err) MUST_USE;

#endif
