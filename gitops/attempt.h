/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One commit on its way into force: load, plan, guard, and then as the source's mode says. What people shall know of it
 * (refusals, drift, the plan that waits, resources) is in the source's status afterwards; the rest is in the result.
 */
#ifndef BERTH_GITOPS_ATTEMPT_H
#define BERTH_GITOPS_ATTEMPT_H

#include "gitops/git/git.h"
#include "gitops/source.h"

struct attempt {
        struct source *source;
        struct arena *arena;
        const char *commit;
        const struct git_answer *files; /* the commit's */
        bool full;                      /* read everything that exists */
        /*
         * It is not the newest commit, but the last good one, put back in force while a person
         * looks at the newest: it only looks for drift.
         */
        bool fallback;

        /* The result. */
        enum reconcile_result result;
        bool in_force; /* no guard and no person stands in its way any more: its changes were begun, if there were any */
        bool transient;   /* trying again may help */
        bool bad;         /* the manifests are wrong: trying again does not help */
        bool locked;      /* another process holds the state's lock */
        bool refused;     /* a guard refused something, whatever the mode */
        bool interrupted; /* the program is to end: nothing is known */
        /*
         * the source follows another commit now, that was in force before: Git must be asked again
         */
        bool ask_again;
        struct verdict verdict;
};

void attempt_run(struct attempt *attempt);

/* For a failure before there is anything to attempt. */
void attempt_fail(struct attempt *attempt, const char *reason, const char *message);

#endif
