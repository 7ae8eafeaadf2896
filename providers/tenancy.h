/* SPDX-License-Identifier: Apache-2.0 */
/* Whether an environment keeps its tenants apart, and how many that can be. Pure. */
#ifndef BERTH_PROVIDERS_TENANCY_H
#define BERTH_PROVIDERS_TENANCY_H

#include "providers/provider.h"

/* The member of an Environment's spec. */
#define TENANCY_MEMBER "tenantIsolation"

/*
 * As the manifest's spec says. Where that says nothing: as it is, since it cannot be changed in place; as recorded, where nothing was
 * read (`observed` is NULL, or exists without a spec, as in offline plans); true for an environment that does not exist yet.
 */
bool tenancy_desired(const struct value *spec, const struct observation *observed,
                     const struct value *recorded);

/*
 * How many environments of tenants, active or idle, Lambda keeps in an account that may run that
 * many executions at once: 2,500 for 1,000 ("Tenant isolation" of its Developer Guide).
 */
int64_t tenancy_environments(int64_t concurrency);

#endif
