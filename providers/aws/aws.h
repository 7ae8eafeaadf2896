/* SPDX-License-Identifier: Apache-2.0 */
/* The AWS provider: what `cli` registers. */
#ifndef BERTH_PROVIDERS_AWS_AWS_H
#define BERTH_PROVIDERS_AWS_AWS_H

#include "providers/aws/client/quota_shared.h"
#include "providers/provider.h"

extern const struct provider_ops aws_provider_ops;

/*
 * For several processes of ours that work side by side: a descriptor of what they pace their calls by together. Each is given it, and
 * its number as text in the variable AWS_PACE_VARIABLE.
 */
#define AWS_PACE_VARIABLE QUOTA_SHARED_VARIABLE
static inline MUST_USE int aws_pace_new(int *ret, struct error *err) {
        return quota_shared_new(ret, err);
}

#endif
