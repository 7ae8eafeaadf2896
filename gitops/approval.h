/* SPDX-License-Identifier: Apache-2.0 */
/* What waits for a person: plans by their ids, refusals, rewritten histories, and what was let through. */
#ifndef BERTH_GITOPS_APPROVAL_H
#define BERTH_GITOPS_APPROVAL_H

#include "base/arena.h"
#include "controller/plan.h"

#include <jansson.h>

#define PLAN_ID_SIZE 13 /* 12 hex digits and the NUL */
/* The first APPROVAL_LIST_MAX of each list in a status, with the full count beside it. */
#define APPROVAL_LIST_MAX 200

/*
 * What a plan does, in a few digits: SHA-256 over commit, stack, provider, serial, changes and refusals as JSON, cut. Two
 * plans of one commit that would do the same have the same id, whenever they were made.
 */
void approval_plan_id(const struct plan *plan, const char *commit, char ret[PLAN_ID_SIZE]);

/* {id, commit, createdAt, summary, changeCount, changes}: a new reference. */
json_t *approval_plan_json(const struct plan *plan, const char *commit, const char *id);

/* [{address, id, message, remedy, dependents}]: those of the whole plan have the address null. A new reference. */
json_t *approval_refusals_json(const struct plan *plan);
/* "Environment/x: has-dependents: 2 dependents still use it; ..." for people, in the arena; cut after a few. */
const char *approval_refusals_text(const json_t *refusals, struct arena *arena);

/* The one refusal that is no guard's: a commit that is no descendant of the one before. Its address is a commit's beginning. */
#define HISTORY_REWRITTEN "history-rewritten"

/*
 * "ID[:ADDR]" or "history-rewritten[:COMMIT]", the latter as `address`. -1 where there is no such guard, or where it is no
 * address. `text` is copied into the arena.
 */
int approval_parse(const char *text, struct arena *arena, struct allowance *ret, struct error *err) MUST_USE;
/* Whether it lets one of the refusals through. */
bool approval_matches(const struct allowance *allowance, const json_t *refusals);
/*
 * Those of a list of texts, behind `first`: in the arena. An item that cannot be read is left out.
 */
struct allowance *approval_join(const struct allowance *first, size_t first_count, const json_t *texts,
                                struct arena *arena, size_t *ret_count);

#endif
