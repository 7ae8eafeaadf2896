/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `berth sweep`: deletes on this machine what S3's lifecycle rules delete in AWS. Of a workspace policy only
 * `expireAfterDays` means something here: there are no storage classes, older versions or unfinished uploads.
 */
#ifndef BERTH_PROVIDERS_LOCAL_SWEEP_H
#define BERTH_PROVIDERS_LOCAL_SWEEP_H

#include "base/arena.h"
#include "base/error.h"
#include "providers/local/local_agent_workspaces.h"
#include "providers/local/local_workspaces.h"
#include "schema/value.h"

/* A policy's record. */
struct sweep_policy {
        const char *name;
        const struct value *spec;
};

/* Whether the policy's selector includes the sessions of the environment (NULL: an unknown one). Pure. */
bool sweep_reaches(const struct value *spec, const char *environment);
/*
 * The policy that expires the sessions of an environment: among those that reach it, the one with the fewest days; NULL
 * where none expires anything. Pure.
 */
const struct sweep_policy *sweep_policy_for(const struct sweep_policy *policies, size_t count,
                                            const char *environment);
/* A file with a ctime at or before this is at least `days` old. Pure. */
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
        size_t sessions;        /* that were examined, whatever they held */
        struct sweep_row *rows; /* sessions with something to delete, or with a problem; by id */
        size_t count;
        struct workspace_tally total;
        /* What agents have for owners, of which no policy deletes anything: those whose owner is known, by agent. */
        struct local_agent_workspace *agents;
        size_t agent_count;
};

/* Finds and, with `remove`, deletes what the policies that were applied below `root` expire. */
int sweep_run(const char *root, int64_t now_ms, bool remove, struct arena *arena, struct sweep_report *ret,
              struct error *err) MUST_USE;

#endif
