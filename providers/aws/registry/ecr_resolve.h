/* SPDX-License-Identifier: Apache-2.0 */
/* Tags resolved to digests, by as few calls as can be. */
#ifndef BERTH_PROVIDERS_AWS_REGISTRY_ECR_RESOLVE_H
#define BERTH_PROVIDERS_AWS_REGISTRY_ECR_RESOLVE_H

#include "providers/aws/registry/ecr_reference.h"
#include "providers/aws/shared/aws_provider.h"

/*
 * BatchGetImage as few times as can be: once for each repository and hundred of names, and once
 * more, alone, for each name of which such an answer says nothing. An unusable image is a problem
 * of that reference, not an error. admission.h goes on from here.
 */
int ecr_resolve(struct provider *provider, struct ecr_reference *references, size_t count,
                struct arena *arena, struct error *err) MUST_USE;
/* Begins the calls that ecr_resolve() of the same references will make. */
void ecr_resolve_ahead(struct provider *provider, struct ecr_reference *references, size_t count,
                       struct arena *arena);

#endif
