/* SPDX-License-Identifier: Apache-2.0 */
/* Environments on this machine: records on disk, images in a local store, sandboxes that run code. */
#ifndef BERTH_PROVIDERS_LOCAL_LOCAL_H
#define BERTH_PROVIDERS_LOCAL_LOCAL_H

#include "providers/provider.h"

extern const struct provider_ops local_provider_ops;

#endif
