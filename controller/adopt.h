/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking an existing resource into the state, as `berth import` does: it is recorded as this stack's with no field set
 * yet, so that the next plan shows what would change about it.
 */
#ifndef BERTH_CONTROLLER_ADOPT_H
#define BERTH_CONTROLLER_ADOPT_H

#include "controller/plan.h"

/*
 * `id` is the provider's own name of it (a function's name or ARN). Fails where the manifests do not declare `address`
 * (the next apply would delete it), where the resource is not there, where `id` is another one's, where another stack
 * owns it (unless allowed: not-owned), and where the state has it already. The caller holds the lease.
 */
int adopt_resource(const struct plan_args *args, const char *address, const char *id, struct arena *arena,
                   struct error *err) MUST_USE;

#endif
