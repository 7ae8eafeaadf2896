/* SPDX-License-Identifier: Apache-2.0 */
/* What `berth doctor` asks of the account: one call that reads. */
#ifndef BERTH_PROVIDERS_AWS_AWS_EXAMINE_H
#define BERTH_PROVIDERS_AWS_AWS_EXAMINE_H

#include "providers/examine.h"
#include "providers/provider.h"

/* See struct provider_ops; after identify(). `test` means nothing here. */
void aws_examine(struct provider *provider, bool test, struct arena *arena, struct finding *ret, size_t max,
                 size_t *ret_count);

#endif
