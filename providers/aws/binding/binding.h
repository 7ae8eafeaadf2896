/* SPDX-License-Identifier: Apache-2.0 */
/* Agents and swarms as records in the stack's bucket: what binding_record.h describes, listed, read and written. */
#ifndef BERTH_PROVIDERS_AWS_BINDING_BINDING_H
#define BERTH_PROVIDERS_AWS_BINDING_BINDING_H

#include "providers/aws/shared/aws_provider.h"

extern const struct kind_ops aws_agent_ops;
extern const struct kind_ops aws_swarm_ops;

/* Frees provider->bindings; NULL is fine. For close(). */
void bindings_release(struct binding_listing *listing);

#endif
