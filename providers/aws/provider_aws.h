/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kinds of the AWS provider share: the client, the stack's names, and things read once for all of them.
 * One file per kind: stack.c, environment.c, image.c, workspace_policy.c, binding.c (Agent and Swarm).
 */
#ifndef BERTH_PROVIDERS_AWS_PROVIDER_AWS_H
#define BERTH_PROVIDERS_AWS_PROVIDER_AWS_H

#include "providers/aws/client/client.h"
#include "providers/provider.h"

#include <pthread.h>
#include <stdatomic.h>

struct provider {
        struct arena *arena; /* for the provider's life; only identify and observe may allocate in it */
        struct aws_client *client;
        const struct value *stack; /* the Stack's spec */
        const char *stack_name;
        const char *prefix; /* namePrefix */
        const char *region;
        const char *partition;
        const char *account; /* from identify; NULL before (desire and cost then leave names out) */
        const char *bucket;  /* "{prefix}-workspaces-{account}-{region}"; NULL before identify */
        const char *
                execution_role; /* ARN: the Stack's executionRole, or the managed role's, which is NULL before identify */
        bool manages_role;
        bool manages_bucket;            /* createBucket */
        pthread_mutex_t lifecycle_lock; /* guards the next one; held for moments only */
        const struct change
                *lifecycle_holder;   /* the change that is writing the bucket's lifecycle document, or NULL */
        struct leftovers *leftovers; /* what is being removed from the bucket; owned by stack_delete.c */
        bool bucket_in_use; /* ask() for the Stack's deletion found what is not Berth's; owned by stack_delete.c */
        struct binding_listing
                *bindings; /* one listing of registry/{stack}/ serves Agent and Swarm; owned by binding.c */
        struct image_use *image_uses;    /* digests that environments run; owned by image_guard.c */
        struct image_rules *image_rules; /* declared `retain`s; owned by image_guard.c */
        /* How long functions lately took to become ready once created, and once updated (ms, 0: not known yet). */
        atomic_llong usual_wait_ms[2];
};

extern const struct kind_ops aws_stack_ops;            /* stack.c */
extern const struct kind_ops aws_image_ops;            /* image.c */
extern const struct kind_ops aws_environment_ops;      /* environment.c */
extern const struct kind_ops aws_workspace_policy_ops; /* workspace_policy.c */
extern const struct kind_ops aws_agent_ops;            /* binding.c */
extern const struct kind_ops aws_swarm_ops;            /* binding.c */

extern const struct image_ops aws_image_registry; /* image_catalog.c */

/* Free provider->bindings and provider->leftovers; NULL is fine. For close(). */
void aws_bindings_release(struct binding_listing *listing);
void aws_leftovers_release(struct leftovers *leftovers);

/* The tags of everything Berth makes: the Stack's `tags`, berth:stack, berth:kind, berth:name. A map of texts. */
struct value *aws_tags_for(const struct provider *provider, const char *kind, const char *name,
                           struct arena *arena);
/* From a resource's tags (a map of texts): whose it is. *ret_owner as in struct observation. */
enum ownership aws_ownership(const struct provider *provider, const struct value *tags, struct arena *arena,
                             const char **ret_owner);
/*
 * Of observed tags, those that are ours to compare: every key in `desired` or `recorded`; somebody else's are left
 * out. A map of texts.
 */
struct value *aws_tags_of_ours(const struct value *observed, const struct value *desired,
                               const struct value *recorded, struct arena *arena);
/*
 * Of `from`, the tags that `than` does not have with the same text; with `keys_only`, those that it does not have at
 * all. Desired beyond observed is what has to be put there; observed (of ours) beyond desired, keys only, is what has
 * to go.
 */
struct value *aws_tags_beyond(const struct value *from, const struct value *than, bool keys_only,
                              struct arena *arena);
bool aws_any_tag_beyond(const struct value *from, const struct value *than, bool keys_only);

/* Fails where identify() has not said whose account this is: changes of such a plan cannot be made. */
int aws_need_account(const struct provider *provider, struct error *err) MUST_USE;

/* Sets in `to` those members of `from` that `names` (ended by NULL) names and that are there. */
void aws_copy_members(struct value *to, const struct value *from, const char *const *names,
                      struct arena *arena);

/* Adds a refusal to the change; the texts must live in the arena or be static. */
void aws_refuse(struct change *change, struct refusal refusal, struct arena *arena);

#endif
