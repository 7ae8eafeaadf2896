/* SPDX-License-Identifier: Apache-2.0 */
/* Commands that make images which Lambda would take too, and bring them into the local store. */
#ifndef BERTH_PROVIDERS_LOCAL_IMAGES_LOCAL_IMAGE_INSTRUCTIONS_H
#define BERTH_PROVIDERS_LOCAL_IMAGES_LOCAL_IMAGE_INSTRUCTIONS_H

#include "providers/images.h"

/* For `repository` (with a tag, or latest), or what the manifests' environments run. */
int local_instructions(const char *store, const struct manifests *manifests, const char *repository,
                       struct arena *arena, struct image_instructions *ret, struct error *err) MUST_USE;

#endif
