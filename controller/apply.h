/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carries out a plan. The caller holds the state's lease.
 *
 * Before a stage's call its intent stands in the journal, after it its outcome; when a change is
 * done, its record, its sighting and its binding are written in one transaction with the journal's
 * end. A run that dies at any point leaves journal entries, and the next plan reads those resources
 * again instead of trusting the state.
 */
#ifndef BERTH_CONTROLLER_APPLY_H
#define BERTH_CONTROLLER_APPLY_H

#include "controller/executor.h"
#include "controller/plan.h"

#define APPLY_PARALLEL_DEFAULT 16
#define APPLY_PARALLEL_MAX 256

struct change_result {
        enum job_outcome outcome; /* of a refused change: JOB_SKIPPED */
        bool refused;
        struct error error; /* of JOB_FAILED */
        int64_t duration_ms;
};

struct apply_result {
        struct change_result *changes; /* as plan->changes; in the arena */
        size_t done, failed, skipped, refused;
        int64_t duration_ms;
        uint64_t run;
        bool interrupted; /* and something was left undone for it */
};

struct apply_watcher {
        void *context;
        /* On the thread that called apply_plan(); the work goes on meanwhile. Any may be NULL. */
        void (*ended)(void *context, const struct change *change, const struct change_result *result);
        void (*progress)(void *context, const struct executor_stats *stats, int64_t elapsed_ms);
};

struct apply_args {
        const struct plan_args *planning;
        struct plan *plan;
        const char *command;     /* for the history: "apply", "destroy" */
        const char *commit;      /* of the manifests, or NULL */
        const char *approved_by; /* a person whose decision let it through, or NULL: for the history */
        unsigned parallel;
        const struct interrupt *interrupt; /* borrowed; NULL: one that never comes */
        const struct apply_watcher *watcher;
};

/*
 * Refused changes and what depends on them are left out. Failed changes are in the result, not an error; -1 is for a
 * state that cannot be written.
 */
int apply_plan(const struct apply_args *args, struct arena *arena, struct apply_result *ret,
               struct error *err) MUST_USE;

#endif
