/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan: what would change, and what refuses to.
 *
 * plan_make() is the list of steps; only observe and ask touch the provider. Everything of a plan lives in one arena.
 */
#ifndef BERTH_CONTROLLER_PLAN_H
#define BERTH_CONTROLLER_PLAN_H

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "providers/provider.h"
#include "schema/manifests.h"
#include "state/state.h"

/* All that is known of one managed resource. */
struct subject {
        const struct kind *kind;
        const struct kind_ops *ops;
        const char *name;
        const char *address;
        const struct resource *declared; /* as the manifest has it; NULL: no manifest declares it any more */
        const struct resource *desired;  /* the same, or what an override makes of it */
        const struct override *override; /* taken out of service by disassociate; or NULL */
        struct record *record;           /* NULL: never applied */
        struct sighting *sighting;       /* NULL: never seen */
        bool unfinished;                 /* an earlier run left its change half-way */
        const struct observation
                *last; /* the sighting, as providers take it; NULL where it is not to be trusted */
        const struct value *notes;          /* the provider's own of that sighting, trusted or not; or NULL */
        const struct observation *observed; /* never NULL; all zero until it is read or assumed */
        struct value *wish; /* desire(): what shall be, in the provider's terms; NULL where not desired */
        uint8_t fingerprint[SHA256_SIZE]; /* of wish */
        uint8_t source[SOURCE_SIZE];      /* of all that the wish is made from; zeroes where not desired */
        struct change *change;            /* NULL where nothing has to change, or it was not selected */
        bool drifted;                     /* what is there is not what was applied */
        bool settled;                     /* what is there is what shall be there */
};

/* Changes by others to what was applied: `before` was applied, `after` is there now. */
struct drift {
        const char *address;
        bool gone; /* it exists no more; no fields then */
        struct field_change *fields;
        size_t field_count;
        size_t left_count; /* how many of the fields, the last ones, no apply puts back */
};

struct plan_summary {
        size_t create, update, replace, delete, adopt, unchanged, refused;
        size_t left_out; /* changes that --target or --exclude keep out of this plan */
};

struct plan {
        const char *stack_name;
        const char *provider_name;
        struct caller_identity identity;
        uint64_t serial;
        int64_t created_ms;
        bool destroy;
        struct subject *subjects; /* by kind, then name */
        size_t subject_count;
        struct change **changes; /* in an order that respects depends_on; refused ones too */
        size_t change_count;
        struct refusal *refusals; /* of the whole plan */
        size_t refusal_count;
        struct drift *drifts;
        size_t drift_count;
        const char **
                orphans; /* addresses that carry the stack's marks and stand in no state and no manifest; sorted */
        size_t orphan_count;
        const char **others_orphans; /* the same of another state that lives, or may: adopt refuses them */
        size_t others_orphan_count;
        /* parts of such resources, which cannot be adopted: "log group X of Environment/old" */
        const char **remnants;
        size_t remnant_count;
        const char **warnings;
        size_t warning_count;
        struct plan_summary summary;
        struct cost cost; /* of the changes that are not refused */
        int64_t floor_ms; /* the least time that quotas allow for them */
};

enum plan_refresh { PLAN_REFRESH_SWEEP, PLAN_REFRESH_FULL, PLAN_REFRESH_NONE };

/* An `--allow ID[:ADDR]`: lets that refusal through, everywhere or at one address. */
struct allowance {
        const char *id;
        const char *address; /* NULL: any */
};

struct provider_registry;

struct plan_args {
        const struct manifests *manifests;
        struct state *state;
        const struct provider_ops *provider_ops;
        struct provider *provider;
        const struct clock *clock;
        const struct provider_registry
                *registry; /* by which another state in S3 is looked at; NULL: it cannot be */
        enum plan_refresh refresh;
        bool destroy;               /* nothing is desired */
        const char *const *targets; /* addresses or patterns such as "Agent/team-*"; none: everything */
        size_t target_count;
        bool only_targets; /* not what they need as well */
        const char *const *excludes;
        size_t exclude_count;
        const char *const
                *also; /* addresses that neither manifests nor state need to know: to be looked at */
        size_t also_count;
        /*
         * leaves out changes that only put back what others changed; the drift is reported
         * nevertheless
         */
        bool leave_drift;
        const struct allowance *allowances;
        size_t allowance_count;
};

/*
 * Makes a plan in `arena`. Refusals are part of the plan, not an error. A reference to an environment that neither the
 * manifests nor the state know is ERROR_DIAGNOSED: the caller reports args->manifests->missing. ERROR_LOCKED where a lease that
 * was held is lost.
 */
int plan_make(const struct plan_args *args, struct arena *arena, struct plan *ret,
              struct error *err) MUST_USE;

/* Whether anything would be changed (refused changes count). */
bool plan_has_changes(const struct plan *plan);
bool plan_has_refusals(const struct plan *plan);
bool change_is_refused(const struct change *change);

/* Borrowed from the plan; NULL where neither manifests nor state know the resource. */
struct subject *plan_subject(const struct plan *plan, const char *address);
struct subject *plan_subject_of(const struct plan *plan, enum kind_id kind, const char *name);

/* The environment that an agent's or a swarm's spec names; NULL for other kinds, and where it names none. */
const char *bound_environment(const struct kind *kind, const struct value *spec);

/* "create", "update", "replace", "delete", "adopt", "none". */
const char *action_name(enum action action);

#endif
