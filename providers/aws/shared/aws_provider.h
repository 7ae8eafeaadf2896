/* SPDX-License-Identifier: Apache-2.0 */
/* What the kinds of the AWS provider share: the client, the stack's names, and things read once for all of them. */
#ifndef BERTH_PROVIDERS_AWS_SHARED_AWS_PROVIDER_H
#define BERTH_PROVIDERS_AWS_SHARED_AWS_PROVIDER_H

#include "providers/aws/client/aws_client.h"
#include "providers/aws/services/s3.h"
#include "providers/lineage.h"
#include "providers/provider.h"

#include <pthread.h>
#include <stdatomic.h>

#define ISOLATED_SUBNETS 2
/* What functions are put into where `network` is isolated; "" where it is not known. */
struct isolated_ids {
        char vpc[32];
        char known[32]; /* the one that the state knows, which may be gone; no other one is taken for it */
        char subnets[ISOLATED_SUBNETS][32];
        char group[32];
};

struct provider {
        struct arena *arena; /* for the provider's life; only identify and observe may allocate in it */
        struct aws_client *client;
        const struct value *stack; /* the Stack's spec */
        const char *stack_name;
        const struct value *stack_labels; /* the Stack's metadata.labels, or NULL */
        const char *prefix;               /* namePrefix */
        const char *region;
        const char *partition;
        const char *account; /* from expect or identify; NULL before (desire and cost then leave names out) */
        const char *bucket;  /* "{prefix}-workspaces-{account}-{region}"; NULL before */
        bool begun;          /* a plan has, by expect(), and identify() is still to come */
        const char *
                execution_role; /* ARN: the Stack's executionRole, or the managed role's, which is NULL before identify */
        struct lineage
                lineage; /* whose things are ours: owned by lineage.c; zeroed where there is no state */
        size_t lineage_taken;
        struct orphan *orphans; /* as observed; owned by lineage.c */
        size_t orphan_count;
        bool owns_bucket; /* the bucket exists and is this stack's: as observed; owned by stack_observe.c */
        const char *kms_key; /* ARN: the Stack's kmsKey, or NULL */
        bool manages_role;
        /*
         * The managed role as it is: whether there was none when it was last looked for, and its id
         * ("": not known), which a role that was deleted and made again has another one of. Owned
         * by stack_observe.c and stack_step.c.
         */
        bool role_missing;
        char role_id[64];
        struct isolated_ids isolated;   /* as observed or made; owned by isolated_network.c */
        bool manages_bucket;            /* createBucket */
        pthread_mutex_t lifecycle_lock; /* guards the next one; held for moments only */
        const struct change
                *lifecycle_holder;   /* the change that is writing the bucket's lifecycle document, or NULL */
        struct leftovers *leftovers; /* what is being removed from the bucket; owned by stack_delete.c */
        bool bucket_in_use; /* ask() for the Stack's deletion found what is not Berth's; owned by stack_delete.c */
        const char *recorded_table; /* with which the Stack was applied, or NULL; owned by session_table.c */
        bool table_in_use; /* ask() found records of sessions in a table that is to go; owned by session_table.c */
        struct binding_listing
                *bindings; /* one listing of registry/{stack}/ serves Agent and Swarm; owned by binding.c */
        struct bound_records *bound_records; /* records of others in the bucket; owned by bound_records.c */
        const char **functions; /* this stack's own that are there, sorted; owned by environment_observe.c */
        size_t function_count;
        struct environment_role *roles; /* of environments, by name; owned by environment_role.c */
        size_t role_count;
        struct environment_log_group
                *log_groups; /* of environments, as listed, by name; owned by environment_logs.c */
        size_t log_group_count;
        /* How many more functions are asked what hangs on them, in this plan; owned by environment_ties.c. */
        unsigned ties_to_ask;
        struct living_sessions *living_sessions; /* as read; NULL: not yet; owned by environment_sessions.c */
        struct image_use *image_uses;            /* digests that environments run; owned by image_use.c */
        struct image_rules *image_rules;         /* declared `retain`s; owned by image_use.c */
        /* How long functions lately took to become ready once created, and once updated (ms, 0: not known yet). */
        atomic_llong usual_wait_ms[2];
};

/* The bucket that everything of this stack is in. provider->bucket must be known. */
struct s3_bucket aws_bucket(const struct provider *provider);

/*
 * The key that something shall be encrypted with: the Stack's, or else the one that it was applied with, since a manifest that
 * says nothing of keys takes none away. NULL: whichever it has.
 */
const char *aws_desired_key(const struct provider *provider, const char *recorded);
/* The key to be compared: the one that is there where the Stack says one, or else as recorded. */
const char *aws_observed_key(const struct provider *provider, const char *there, const char *recorded);

/* Fails where identify() has not said whose account this is: changes of such a plan cannot be made. */
int aws_need_account(const struct provider *provider, struct error *err) MUST_USE;

/* Sets in `to` those members of `from` that `names` (ended by NULL) names and that are there. */
void aws_copy_members(struct value *to, const struct value *from, const char *const *names,
                      struct arena *arena);

/* Whether the list of texts, which may be NULL, has this one. */
bool aws_list_has(const struct value *list, const char *text);
/*
 * Adds to `left` (in the arena) a change by others that apply does not undo, unless `accepted` has
 * the word for it.
 */
struct left_drift_list {
        struct left_drift *items;
        size_t count;
};
void aws_leave(struct left_drift_list *list, const struct value *accepted, const char *word,
               struct left_drift left, struct arena *arena);

/* Adds a line that people shall be told; it must live in the arena or be static. */
void aws_warn(struct observation *observation, const char *warning, struct arena *arena);

/*
 * aws_call_accepting() for what a plan tells and does not depend on: 0 whatever comes of it, but for an interrupt (-1).
 * *ret_unknown is NULL where the answer is there, or else says why it is not known; with the code in the response.
 */
int aws_ask_fact(struct provider *provider, const struct aws_request *request, const char *const *codes,
                 struct aws_response *response, const char **ret_unknown, struct arena *arena,
                 struct error *err) MUST_USE;

/* Adds a refusal to the change; the texts must live in the arena or be static. */
void aws_refuse(struct change *change, struct refusal refusal, struct arena *arena);

/* " (1.5 MiB)", or "" where the number of bytes says it well enough. */
const char *aws_readable_bytes(uint64_t bytes, struct arena *arena);

#endif
