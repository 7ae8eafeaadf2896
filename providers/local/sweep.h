/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carrying out workspace policies on this machine: what S3's lifecycle rules do by themselves in AWS, `berth sweep` does
 * here. Only `expireAfterDays` has a meaning here: there are no storage classes, older versions or unfinished uploads.
 */
#ifndef BERTH_PROVIDERS_LOCAL_SWEEP_H
#define BERTH_PROVIDERS_LOCAL_SWEEP_H

#include "base/arena.h"
#include "base/error.h"
#include "providers/local/workspaces.h"
#include "schema/value.h"

/* A policy's record. */
struct sweep_policy {
        const char *name;
        const struct value *spec;
};

/* Whether the policy's selector takes in the sessions of the environment (NULL: of one that is not known). Pure. */
bool sweep_reaches(const struct value *spec, const char *environment);
/*
 * The policy whose expiry holds for the sessions of an environment: of those that reach it, the one with the fewest
 * days; NULL where none expires anything. Pure.
 */
const struct sweep_policy *sweep_policy_for(const struct sweep_policy *policies, size_t count,
                                            const char *environment);
/* Files whose ctime is at or before this have been there for so many days. Pure. */
int64_t sweep_cutoff_ms(int64_t now_ms, int64_t days);

struct sweep_row {
        struct local_session session;
        const struct sweep_policy *policy;
        int64_t days;
        struct workspace_tally tally;
};

struct sweep_report {
        const char *workspaces;
        size_t policies;        /* that expire anything */
        size_t sessions;        /* looked at, whatever they held */
        struct sweep_row *rows; /* sessions that hold something to go, or that could not be judged; by id */
        size_t count;
        struct workspace_tally total;
};

/* What would go or, with `remove`, goes by the policies that were applied below `root`. */
int local_sweep(const char *root, int64_t now_ms, bool remove, struct arena *arena, struct sweep_report *ret,
                struct error *err) MUST_USE;

#endif
