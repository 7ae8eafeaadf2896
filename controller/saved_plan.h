/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan in a file, to be applied later exactly as it was shown, or refused as `plan-stale`.
 *
 * The file holds what was desired (complete specs), the plan that was shown, and what it was made
 * from: lineage and serial of the state, account and region, and each changed resource's
 * fingerprint (its RevisionId). Applying it plans again from the saved manifests and compares:
 * guards hold as for any plan, and differences are named. Sensitive values stand in it as keyed
 * hashes only; their texts are taken from the manifests when it is applied. A keyed hash over all
 * of it, under the state's secret key, tells a file that was edited, or made from another state.
 */
#ifndef BERTH_CONTROLLER_SAVED_PLAN_H
#define BERTH_CONTROLLER_SAVED_PLAN_H

#include "controller/plan.h"

struct saved_plan {
        struct manifests manifests; /* what was desired when the plan was made */
        bool destroy;
        const char **targets, **excludes;
        size_t target_count, exclude_count;
        struct allowance *allowances;
        size_t allowance_count;
        bool needs_secrets; /* some spec has a sensitive value: saved_plan_restore_secrets() first */
        json_t *document;   /* owned: saved_plan_release() */
};

/* Writes the file, mode 0600. The plan must have been made by `args`. */
int saved_plan_write(const char *path, const struct plan_args *args, const struct plan *plan,
                     struct error *err) MUST_USE;

/* Reads it and checks form, keyed hash, lineage. */
int saved_plan_read(const char *path, struct state *state, struct arena *arena, struct saved_plan *ret,
                    struct error *err) MUST_USE;
void saved_plan_release(struct saved_plan *saved);

/*
 * Puts the sensitive texts of `manifests` where the saved specs have their keyed hashes. An error where one is missing or
 * is not the one that was planned with.
 */
int saved_plan_restore_secrets(struct saved_plan *saved, const struct manifests *manifests,
                               struct state *state, struct arena *arena, struct error *err) MUST_USE;

/* Adds the refusal `plan-stale` to `plan`, made now from the saved manifests, where it is not the plan that was saved. */
int saved_plan_compare(const struct saved_plan *saved, struct plan *plan, struct arena *arena,
                       struct error *err) MUST_USE;

#endif
