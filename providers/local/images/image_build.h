/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making a prebuilt image from nothing but a Debian mirror, and taking it into the store as any other.
 *
 *     recipe (prebuilt.h) -> a system as a tar (bootstrap.h) -> an OCI layout (image_write.h) -> the store (image_import.h)
 */
#ifndef BERTH_PROVIDERS_LOCAL_IMAGES_IMAGE_BUILD_H
#define BERTH_PROVIDERS_LOCAL_IMAGES_IMAGE_BUILD_H

#include "base/arena.h"
#include "base/error.h"
#include "providers/images.h"

/*
 * `store` as in local_image_import(); the image becomes prebuilt/NAME:latest there. What is made on the way is below
 * `store`, in a folder that is locked while its maker lives; that of a dead one is removed by the next build, and nobody
 * ever looks into it.
 */
int local_image_build(const char *store, const struct image_build_request *request, struct arena *arena,
                      struct image_row *ret, struct error *err) MUST_USE;

#endif
