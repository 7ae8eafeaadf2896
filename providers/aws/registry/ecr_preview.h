/* SPDX-License-Identifier: Apache-2.0 */
/* ECR's own answer to what a lifecycle policy would delete today. */
#ifndef BERTH_PROVIDERS_AWS_REGISTRY_ECR_PREVIEW_H
#define BERTH_PROVIDERS_AWS_REGISTRY_ECR_PREVIEW_H

#include "providers/aws/shared/provider_aws.h"

struct ecr_preview {
        const char *missing;  /* why there is none; NULL: there is one */
        const char **digests; /* what it would delete today */
        size_t count;
};

/*
 * StartLifecyclePolicyPreview, then GetLifecyclePolicyPreview until it is complete, a minute at the most. It changes
 * nothing. Whatever keeps ECR from answering is `missing`; only an interruption is an error.
 */
int ecr_preview(struct provider *provider, const char *repository, const char *policy, struct arena *arena,
                struct ecr_preview *ret, struct error *err) MUST_USE;
/* Whether the image is among those that it would delete. */
bool ecr_preview_deletes(const struct ecr_preview *preview, const char *digest);

#endif
