/* SPDX-License-Identifier: Apache-2.0 */
/* What this machine has of what a sandbox needs, as rows of `berth doctor`. */
#ifndef BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_EXAMINE_H
#define BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_EXAMINE_H

#include "base/arena.h"
#include "providers/examine.h"

/*
 * With `test`, code that tries to break out is run, and every attempt must fail. See struct
 * provider_ops.
 */
void sandbox_examine(bool test, struct arena *arena, struct finding *ret, size_t max, size_t *ret_count);

#endif
