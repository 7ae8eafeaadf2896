/* SPDX-License-Identifier: Apache-2.0 */
/* The AWS provider: what `cli` registers. */
#ifndef BERTH_PROVIDERS_AWS_AWS_H
#define BERTH_PROVIDERS_AWS_AWS_H

#include "providers/provider.h"

extern const struct provider_ops aws_provider_ops;

#endif
