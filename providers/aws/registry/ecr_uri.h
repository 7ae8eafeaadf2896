/* SPDX-License-Identifier: Apache-2.0 */
/* Names in the stack's own registry: its host, its repositories' ARNs, images' URIs taken apart. Pure. */
#ifndef BERTH_PROVIDERS_AWS_REGISTRY_ECR_URI_H
#define BERTH_PROVIDERS_AWS_REGISTRY_ECR_URI_H

#include "providers/aws/shared/provider_aws.h"

/* "{account}.dkr.ecr.{region}.amazonaws.com", or the partition's domain: the stack's own registry. */
const char *ecr_registry(const struct provider *provider, struct arena *arena);
const char *ecr_repository_arn(const struct provider *provider, const char *repository, struct arena *arena);

/* "REGISTRY/REPOSITORY[:TAG][@sha256:HEX]" */
struct ecr_uri {
        const char *repository; /* with its registry in front where that is not the stack's own */
        const char *tag;        /* or NULL */
        const char *digest;     /* "sha256:" and 64 hex digits, or NULL */
};
bool ecr_uri_parse(const struct provider *provider, const char *uri, struct arena *arena,
                   struct ecr_uri *ret);

#endif
