/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop: one thread a source, each fetch - verify - load - plan - guard - apply, wait; and what wakes them. At most a
 * few reconcile at once. Providers of all sources share one set of quota buckets per account and region.
 */
#ifndef BERTH_GITOPS_FOLLOW_H
#define BERTH_GITOPS_FOLLOW_H

#include "controller/stack_provider.h"
#include "gitops/config.h"
#include "server/control.h"

#include <jansson.h>

/* Whom control_ask() speaks to. */
extern const struct control_daemon follow_daemon;

struct follow_args {
        const struct controller_config *config;
        const char *
                folder; /* the controller's state: FOLDER/controller.sock, FOLDER/sources/NAME/ (a stack's state, git/ in it; folders/ with one for each that a pattern matches) */
        const char *provider; /* --provider, or NULL */
        const struct provider_registry *registry;
        bool once;         /* each source once, to its end; then return */
        unsigned parallel; /* of one apply */
        const struct clock *clock;
};

/*
 * Runs until interrupted, or with `once` until each source was reconciled. With `once` *ret_exit is the exit code (0 done or nothing to do,
 * 1 some source failed, 3 some change was refused or waits, 4 some state is locked).
 */
int follow_run(const struct follow_args *args, int *ret_exit, struct error *err) MUST_USE;

/*
 * What `status` says where no controller runs in `folder`: the sources as their states have them, in the form of
 * docs/json.md; a new reference. ERROR_NOT_FOUND where there is not even a folder of sources.
 */
int follow_persisted(const char *folder, json_t **ret, struct error *err) MUST_USE;

#endif
