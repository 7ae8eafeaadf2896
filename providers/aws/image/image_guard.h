/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The refusal image-in-use for an Image: no rule of this stack deletes an image that one of its environments runs, now or
 * when the image has aged, and no repository is let go of while they run what it holds. What environments run stands in
 * registry/image_use.h.
 */
#ifndef BERTH_PROVIDERS_AWS_IMAGE_IMAGE_GUARD_H
#define BERTH_PROVIDERS_AWS_IMAGE_IMAGE_GUARD_H

#include "providers/aws/shared/aws_provider.h"

/* A rule that is new or changed, a repository let go of. */
int image_guard_rules(struct provider *provider, struct change *change, struct arena *arena,
                      struct error *err) MUST_USE;

#endif
