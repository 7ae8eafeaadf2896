/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names in registries: the stack's own host, repositories' ARNs, images' URIs taken apart. A repository of the stack's own
 * registry is known by its name alone, one of another registry by that and the registry in front of it: so two of the same
 * name are never taken for one another. Pure.
 */
#ifndef BERTH_PROVIDERS_AWS_REGISTRY_ECR_URI_H
#define BERTH_PROVIDERS_AWS_REGISTRY_ECR_URI_H

#include "providers/aws/shared/aws_provider.h"

/* "{account}.dkr.ecr.{region}.amazonaws.com", or the partition's domain: the stack's own registry. */
const char *ecr_registry(const struct provider *provider, struct arena *arena);
/* What a manifest's `registry`, or NULL, and `repository` name: the name by which it is known. */
const char *ecr_repository_known_as(const struct provider *provider, const char *registry,
                                    const char *repository, struct arena *arena);
/* The registry that the repository is in, and its name there. */
const char *ecr_registry_of(const struct provider *provider, const char *repository, struct arena *arena);
const char *ecr_name_in_registry(const char *repository);
/* "111122223333", of a repository in another registry; NULL in the stack's own. */
const char *ecr_other_account(const char *repository, struct arena *arena);
/* Whether Lambda could take images from it: it is in the stack's region, and partition. */
bool ecr_registry_is_near(const struct provider *provider, const char *repository, struct arena *arena);
const char *ecr_repository_arn(const struct provider *provider, const char *repository, struct arena *arena);

/* "REGISTRY/REPOSITORY[:TAG][@sha256:HEX]" */
struct ecr_uri {
        const char *repository; /* as it is known */
        const char *tag;        /* or NULL */
        const char *digest;     /* "sha256:" and 64 hex digits, or NULL */
};
bool ecr_uri_parse(const struct provider *provider, const char *uri, struct arena *arena,
                   struct ecr_uri *ret);

#endif
