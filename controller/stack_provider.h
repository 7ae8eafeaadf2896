/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The provider of a stack: found among those that the program has, and opened for the manifests and the state's folder.
 *
 * The controller knows no provider. The caller passes the registry on; `cli` is where it is filled.
 */
#ifndef BERTH_CONTROLLER_STACK_PROVIDER_H
#define BERTH_CONTROLLER_STACK_PROVIDER_H

#include "base/clock.h"
#include "base/error.h"
#include "base/object_store.h"
#include "providers/provider.h"
#include "schema/manifests.h"
#include "schema/state_place.h"

/* Const tables, static in the program. */
struct provider_registry {
        const struct provider_ops *const *providers;
        size_t count;
        /* Opens the objects of a shared state, which lies in S3; `stack_aws` is the Stack's `aws` map, or NULL. Makes no call. */
        int (*open_objects)(const struct state_place *place, const struct value *stack_aws,
                            const struct clock *clock, struct object_store **ret, struct error *err);
};

/* NULL where the registry has none of that name. */
const struct provider_ops *stack_provider_find(const struct provider_registry *registry, const char *name);

struct stack_provider_args {
        const struct provider_registry *registry;
        const struct manifests *manifests; /* loaded; borrowed for the provider's life */
        const char *provider;              /* instead of the one that the Stack names (--provider), or NULL */
        const char *folder;                /* the state's: borrowed for the provider's life */
        const struct clock *clock;
        const struct provider_watch *watch; /* or NULL */
};

/* Makes no call. *ret is the caller's, to be closed by (*ret_ops)->close(); both are untouched on failure. */
int stack_provider_open(const struct stack_provider_args *args, const struct provider_ops **ret_ops,
                        struct provider **ret, struct error *err) MUST_USE;

#endif
