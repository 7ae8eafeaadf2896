/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one contract between the controller and what it reconciles.
 *
 * A provider is a const table of functions and, per managed kind, one more. The calling sequence of a plan:
 *
 *     open -> identify -> read ahead -> for each kind in kind order: observe -> observed
 * or, where it is known whose place it should be, open -> expect -> read ahead -> identify -> observe ...
 *     (reading ahead: for each kind list_ahead, then for each kind read_ahead)
 *          -> for each resource: desire -> (diff, by the controller) -> for each change: ask
 * and of an apply, after it:
 *     for each change, in dependency order, many at once: step, step, ... until it is done -> close
 *
 * A provider MUST NOT look at the state, at another provider or at the controller; MUST NOT log above debug; MUST NOT
 * sleep in step(): it says when to come back. It MAY sleep in identify, observe and ask (through the clock it was
 * given) and may be called there by one thread only; step() is called by many threads at once, never by two for
 * the same change. The controller MUST NOT know what a stage means.
 *
 * Everything returned lives in the arena that was passed with the call, unless said otherwise.
 *
 * What a provider offers besides has headers of its own: lineage.h for places that several states
 * share; and, unused by the controller, images.h for people that look into its registry, exec.h for
 * code to run, examine.h for what the place has and lacks.
 */
#ifndef BERTH_PROVIDERS_PROVIDER_H
#define BERTH_PROVIDERS_PROVIDER_H

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "schema/kind.h"
#include "schema/manifests.h"
#include "schema/value.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct provider; /* each provider's own */
/* What else a provider may offer, each with a header of its own. */
struct image_ops;   /* providers/images.h */
struct lineage_ops; /* providers/lineage.h */
struct exec_ahead;  /* providers/exec.h */
struct exec_request;
struct exec_result;
struct finding; /* providers/examine.h */

/*
 * For a counter of the provider's calls. Both are called by any thread, many at once, and return at
 * once; texts are borrowed for the call.
 */
struct provider_watch {
        void *context;
        /* One try of one call has ended. `service` as in struct cost, `status` HTTP's or 0 where no answer came. */
        void (*called)(void *context, const char *service, const char *operation, int status, bool throttled);
        /* A call has to wait for its turn within the service's quota. */
        void (*waited)(void *context, const char *service, int64_t wait_ms);
};

struct provider_config {
        const char *stack_name;
        const struct value *stack;        /* the Stack's spec, complete; borrowed for the provider's life */
        const struct value *stack_labels; /* its metadata.labels, or NULL; borrowed as well */
        const struct clock *clock;        /* borrowed */
        const char *folder; /* where a provider of this machine keeps what it makes: beside the state */
        const struct provider_watch *watch; /* borrowed for the provider's life, or NULL */
};

/*
 * The caller's identity and place: a plan made for one account and region is not applied to
 * another.
 */
struct caller_identity {
        const char *account; /* AWS account id, or the host */
        const char *region;
        /* our identity there: an ARN; NULL where the provider has no such thing */
        const char *principal;
};

enum refresh {
        REFRESH_SWEEP, /* read by lists, and singly only what is new, moved or unhealthy */
        REFRESH_FULL   /* read every wanted resource singly as well: sees what lists do not show */
};

enum ownership {
        OWNER_SELF,  /* carries this stack's marks */
        OWNER_OTHER, /* carries another stack's */
        OWNER_NONE   /* carries none */
};

enum health {
        HEALTH_READY,
        HEALTH_PENDING, /* on its way: a change has to wait */
        HEALTH_FAILED   /* exists but is of no use: `health_reason` says why; mended by replace */
};

/*
 * What exists under one name. Kept in the state between runs (but for `resolved` and `warnings`), secrets as keyed
 * hashes; where nothing exists but `extra` is set, that is kept too.
 */
struct observation {
        const char *name;
        bool exists;
        const char *id; /* the provider's own name: an ARN, a bucket; NULL where nothing exists */
        const char *
                fingerprint; /* changes whenever the resource does, cheap to list: RevisionId, ETag; may be NULL */
        enum ownership ownership;
        const char *owner; /* for people: "stack research", or NULL */
        /*
         * If that is not ours: which owner has what of it, and what else to do than to take it
         * over. NULL: `id`, another name. Not kept.
         */
        const char *claim, *claim_remedy;
        /*
         * Why what is wanted exceeds what the service allows the account, and what to do: the change would fail. NULL: it does
         * not, or the change has nothing to do with it. Not kept.
         */
        const char *over_quota, *over_quota_remedy;
        /*
         * Where it is OWNER_OTHER by another state's lineage, and else of this very stack: that lineage. Not kept. `unmarked`:
         * it is called ours for its name alone, since nothing of it can carry marks. Not kept.
         */
        const char *lineage;
        bool unmarked;
        enum health health;
        const char *health_reason;
        const struct value *spec;  /* in the shape that desire() gives; NULL where nothing exists */
        const struct value *extra; /* provider's own notes that the next run shall see again, or NULL */
        const struct value
                *resolved; /* what the desired spec's names mean today (image digests, problems), or NULL */
        /*
         * Of step(), where it learnt what the plan did not know (texts that were fetched): what was applied, in place of
         * change->desired. Not kept.
         */
        const struct value *applied;
        /*
         * What people shall be told, whatever changes; lines after the first are a list for users
         * that ask (-v). Not kept.
         */
        const char **warnings;
        size_t warning_count;
        /* What others did to it that no field of the spec shows, and that is not for a change to undo. Not kept. */
        struct left_drift *left;
        size_t left_count;
};

/* A change by others that stays: something added that was never declared, or rights taken away. */
struct left_drift {
        const char *path;           /* relative to spec, though no field */
        const struct value *before; /* as Berth made it, or NULL */
        const struct value *after;  /* as it is there */
        const char *remedy;         /* how to undo it, or the word by which a manifest accepts it */
};

/* A name that the manifests declare or the state recorded. */
struct wanted {
        const char *name;
        const struct resource *desired; /* NULL where no manifest declares it any more */
        const struct value *recorded;   /* what desire() gave when it was last applied, or NULL */
        const struct observation *last; /* from the state, or NULL */
        const struct value *notes; /* `extra` as last seen, or NULL; there also where `last` is withheld */
        bool must_read;            /* an earlier run did not finish changing it: read it; `last` is NULL */
};

struct observe_args {
        enum refresh refresh;
        const struct wanted *wanted; /* by name in byte order */
        size_t count;
        struct arena *arena;
};

enum action { ACTION_NONE, ACTION_CREATE, ACTION_UPDATE, ACTION_REPLACE, ACTION_DELETE, ACTION_ADOPT };

/* One field that differs. `path` is relative to spec. Absent sides are NULL. */
struct field_change {
        const char *path;
        const struct value *before;
        const struct value *after;
        bool sensitive;
        const char *left; /* of a drift that apply leaves as it is: the remedy; NULL elsewhere */
};

/* A guard's answer. Ids are those of docs/guards.md, static texts. */
struct refusal {
        const char *id;
        const char *message;
        const char *remedy;
        const char **dependents; /* addresses */
        size_t dependent_count;
};

struct change {
        const char *address;
        const struct kind *kind;
        const char *name;
        enum action action;
        const char *reason;                 /* one line for people, or NULL */
        const struct resource *resource;    /* manifest, NULL on delete */
        const struct value *desired;        /* from desire(), NULL on delete */
        const struct value *recorded;       /* what was last applied, or NULL */
        const struct observation *observed; /* never NULL after observe; exists may be false */
        struct field_change *fields;
        size_t field_count;
        struct refusal *refusals;
        size_t refusal_count;
        const char **depends_on; /* addresses of changes that come before this one */
        size_t depends_on_count;
};

struct call_count {
        char service[32]; /* "lambda", "s3"; or "lambda GetFunction" for calls with a quota of their own */
        unsigned count;
};
struct cost {
        struct arena *arena; /* set by the code that makes one; the rest is zeroed */
        struct call_count *calls;
        size_t count;
};
/* Adds to the service's row. */
void cost_add(struct cost *cost, const char *service, unsigned count);

/*
 * Where a change stands. The controller makes it zeroed (stage 0, with an arena of the change's own), keeps it between
 * calls and writes `stage` and `data` into the journal; the provider does the rest.
 */
struct progress {
        int stage;
        int64_t not_before_ms; /* out: monotonic; of no use to call again before. 0: at once */
        const char *
                waiting_for; /* out: "to become active", for the progress line; static or in the arena; may be NULL */
        unsigned attempts; /* provider's: failed tries of this stage, reset by it when the stage moves on */
        /* Provider's: set before the first call, and never reset. Until then an interrupt may take the whole change back. */
        bool sent;
        bool reserved;          /* provider's: a quota token for this stage is already ours */
        int64_t stage_since_ms; /* provider's: monotonic, for deadlines; 0 until set */
        struct value *
                data; /* provider's: small map of what later stages need (a revision); no secrets; may be NULL */
        struct arena *arena;
};

enum step_result {
        STEP_DONE = 0, /* the change is made; `ret_observed` is filled in */
        STEP_AGAIN =
                1 /* call again, not before progress->not_before_ms, with the stage that now stands there */
};

struct kind_ops {
        enum kind_id kind;

        /* Paths of desired specs that only the state knows, since the provider's API cannot tell them; ended by NULL. */
        const char *const *recorded_only;
        /* Paths that cannot change in place; ended by NULL. */
        const char *const *immutable;
        /*
         * Paths of maps with free keys (tags, variables), in which a member with an empty text is not the same as none. Ended
         * by NULL; may be NULL.
         */
        const char *const *free_maps;
        /*
         * With nothing resolved, desire() gives its own earlier result again for the same manifest (spec, labels, name), the
         * same provider_config and that result as `recorded`: an offline plan need not ask.
         */
        bool desire_repeats;
        /* desire() does not look at `recorded`, which then need not be decoded for it. */
        bool desire_ignores_record;

        /*
         * Pure. The spec to be compared and recorded: the manifest's, in the provider's terms, with what the stack
         * adds (tags, role) and names resolved as `observed->resolved` says. `recorded` as in struct wanted.
         */
        int (*desire)(const struct provider *provider, const struct resource *resource,
                      const struct observation *observed, const struct value *recorded, struct arena *arena,
                      struct value **ret, struct error *err);
        /* Pure. The calls that making this change takes when all goes well. */
        void (*cost)(const struct provider *provider, const struct change *change, struct cost *ret);

        /*
         * Begins in the background what observe(), called with the same arguments after it, is likely to read, and returns at
         * once: kinds that need not one another are read side by side. It changes nothing but the time. May be NULL.
         */
        void (*read_ahead)(struct provider *provider, const struct observe_args *args);
        /*
         * The same, before read_ahead(): lists of all that exists, which need no earlier sighting.
         * May be NULL.
         */
        void (*list_ahead)(struct provider *provider, struct arena *arena);
        /* Of how many resources a call of its longest list tells: the longest is begun first. 0: it has no lists by pages. */
        size_t page_size;
        /*
         * One observation for each wanted name, in the same order, into `ret` (an array of
         * args->count). A missing resource is an observation too (exists false). Stores nothing.
         */
        int (*observe)(struct provider *provider, const struct observe_args *args, struct observation *ret,
                       struct error *err);
        /* The refusals that only the provider can know of (an image of no use ...), added to the change. May be NULL. */
        int (*ask)(struct provider *provider, struct change *change, struct arena *arena, struct error *err);
        /*
         * One stage: one call, or one poll. Returns enum step_result, or -1 with err: the change failed. Safe to be
         * called again from stage 0 after a crash at any point: each stage looks at what is there or is idempotent. A
         * deletion is also asked for where nothing was observed: parts of the resource may be left.
         * On STEP_DONE *ret_observed is what exists now, in progress->arena (exists false after a delete).
         */
        int (*step)(struct provider *provider, const struct change *change, struct progress *progress,
                    struct observation *ret_observed, struct error *err);
        /*
         * There will be no further step() of this change, though its last one wanted another turn:
         * what it was about to do could not be written down, or an interrupt came before anything
         * was sent. Resources that it holds within this process, and others wait for, are released.
         * No call, and no waiting. May be NULL.
         */
        void (*abandon)(struct provider *provider, const struct change *change);
};

/* The one for that kind among a provider's tables; NULL where it has none. */
const struct kind_ops *kind_ops_find(const struct kind_ops *const *tables, size_t count, enum kind_id kind);

struct provider_ops {
        const char *name; /* "aws", "local" */

        /* Checks the configuration, makes no call. */
        int (*open)(const struct provider_config *config, struct provider **ret, struct error *err);
        void (*close)(struct provider *provider); /* NULL is fine */
        /*
         * The account that identify() will most likely name. 1: read_ahead() may be called before
         * identify(), so that our identity is asked beside what exists. Answers are believed only
         * if identify() then names that account. 0: identify() comes first. It may have to fetch
         * credentials: -1 if they are missing, and another try would not help. May be NULL.
         */
        int (*expect)(struct provider *provider, const char *account, struct error *err);
        /*
         * Our identity and place, by one call at the most; also fails where credentials are
         * missing.
         */
        int (*identify)(struct provider *provider, struct arena *arena, struct caller_identity *ret,
                        struct error *err);
        /*
         * All kinds are observed, or nothing more will be: unneeded parts of what read_ahead()
         * began are ended. May be NULL.
         */
        void (*observed)(struct provider *provider);
        /* The least time, in milliseconds, that the provider's quotas allow for these calls. Pure. May be NULL: none. */
        int64_t (*floor_ms)(const struct cost *cost);
        /* NULL where this provider has nothing to do for the kind. */
        const struct kind_ops *(*ops)(const struct provider *provider, enum kind_id kind);
        const struct image_ops *images; /* images.h; NULL: it has no registry of images */
        /* lineage.h; NULL: only this stack can reach what it makes. */
        const struct lineage_ops *lineage;

        /* Runs code in a sandbox, and waits for its end: exec.h. NULL where this provider cannot. */
        int (*exec)(struct provider *provider, const struct exec_request *request, struct arena *arena,
                    struct exec_result *ret, struct error *err);
        /*
         * Starts what any run needs, before it is known which or whether: it takes no slot and no
         * limit. NULL where there is nothing to start, or it cannot be: then exec does all of it.
         * Processes started here end with this process, whatever becomes of it. Lives in the arena.
         * Both may be NULL.
         */
        struct exec_ahead *(*exec_ahead)(struct arena *arena);
        void (*exec_ahead_end)(struct exec_ahead *ahead); /* NULL is fine, and so is one that was used */
        /* What the place has and lacks: examine.h. NULL: nothing to say. */
        void (*examine)(struct provider *provider, bool test, struct arena *arena, struct finding *ret,
                        size_t max, size_t *ret_count);
};

#endif
