/* SPDX-License-Identifier: Apache-2.0 */
/* What the kinds of the local provider share. */
#ifndef BERTH_PROVIDERS_LOCAL_PROVIDER_LOCAL_H
#define BERTH_PROVIDERS_LOCAL_PROVIDER_LOCAL_H

#include "providers/local/record.h"
#include "providers/provider.h"

#include <pthread.h>

struct provider {
        struct arena *arena; /* for the provider's life */
        const struct clock *clock;
        const struct value *stack; /* the Stack's spec */
        const char *stack_name;
        const char *root; /* local_root() */
        pthread_mutex_t lock;
        /* Under the lock: whether half-written files were removed from the kind's folder. */
        bool tidied[KIND_COUNT];
        bool sessions_refused; /* the plan's refusal named the sessions: an apply that goes on was allowed to delete them */
};

/* records.c */
extern const struct kind_ops local_stack_ops;
extern const struct kind_ops local_image_ops;
extern const struct kind_ops local_environment_ops;
extern const struct kind_ops local_workspace_policy_ops;
extern const struct kind_ops local_agent_ops;
extern const struct kind_ops local_swarm_ops;

/* image_registry.c */
extern const struct image_ops local_image_registry;

/* Adds a refusal to the change; the texts must live in the arena or be static. */
void records_refuse(struct change *change, struct refusal refusal, struct arena *arena);

/* local_living_sessions.c: the refusal has-sessions. */
int local_environment_ask(struct provider *provider, struct change *change, struct arena *arena,
                          struct error *err);

/* local_expiry.c: the refusal expires-existing. */
int local_policy_ask(struct provider *provider, struct change *change, struct arena *arena,
                     struct error *err);

/*
 * local_stack_delete.c. local_stack_ask() adds the refusal bucket-not-empty. local_stack_clear() deletes the sessions, where that
 * was allowed, before the Stack's record goes; local_stack_fold() removes the empty folders after it.
 */
int local_stack_ask(struct provider *provider, struct change *change, struct arena *arena, struct error *err);
int local_stack_clear(struct provider *provider, const struct change *change, struct arena *arena,
                      struct error *err);
void local_stack_fold(const struct provider *provider, struct arena *arena);

/* local_environment_image.c */
int local_resolve_images(struct provider *provider, const struct observe_args *args,
                         struct observation *observations, struct error *err);
struct value local_desired_image(const struct value *image, const struct value *resolved,
                                 const struct value *recorded, struct arena *arena);

#endif
