/* SPDX-License-Identifier: Apache-2.0 */
/* What a repository holds, and what the rules of `retain` will do to it. */
#ifndef BERTH_PROVIDERS_AWS_REGISTRY_ECR_LIFECYCLE_H
#define BERTH_PROVIDERS_AWS_REGISTRY_ECR_LIFECYCLE_H

#include "providers/aws/shared/aws_provider.h"

#define ECR_NEVER INT64_MAX

/* Texts live in the arena of ecr_list_images(). */
struct ecr_image {
        const char *digest; /* "sha256:..." */
        const char **tags;
        size_t tag_count;
        int64_t pushed_ms;      /* since 1970; 0: not known */
        int64_t size;           /* bytes, as they are stored */
        const char *media_type; /* of the manifest; NULL: not known */
        int64_t expires_ms;     /* by ecr_lifecycle_evaluate(); a time in the past: at once */
};

/*
 * DescribeImages, all pages, in ECR's order; *ret is NULL if the list is empty. No such repository:
 * ERROR_NOT_FOUND.
 */
int ecr_list_images(struct provider *provider, const char *repository, struct arena *arena,
                    struct ecr_image **ret, size_t *ret_count, struct error *err) MUST_USE;

/*
 * When the rules of `retain` (as image_policy_text() writes them) let each image expire (Amazon ECR User Guide,
 * "Lifecycle policy properties"): an untagged one `untaggedDays` after it was pushed, a tagged one as soon as
 * `lastTagged` others were pushed after it; ECR_NEVER for all others. Of images pushed at the same moment each counts as
 * older than the others: which of them ECR keeps is not known. Later pushes and moved tags are not foreseen. Pure.
 */
void ecr_lifecycle_evaluate(const struct value *retain, struct ecr_image *images, size_t count,
                            struct arena *arena);

#endif
