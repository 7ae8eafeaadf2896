/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building a prebuilt image from a Debian mirror, with the runtime in it, and importing it into the store.
 *
 *     recipe (prebuilt.h) -> a system as a tar (bootstrap.h) -> an OCI layout (image_write.h) -> the store (local_image_import.h)
 */
#ifndef BERTH_PROVIDERS_LOCAL_IMAGES_LOCAL_IMAGE_BUILD_H
#define BERTH_PROVIDERS_LOCAL_IMAGES_LOCAL_IMAGE_BUILD_H

#include "base/arena.h"
#include "base/error.h"
#include "providers/images.h"

/*
 * `store` as in local_image_import(); the image becomes prebuilt/NAME:latest there. The build works in a folder below
 * `store` (build_folder.h).
 */
int local_image_build(const char *store, const struct image_build_request *request, struct arena *arena,
                      struct image_row *ret, struct error *err) MUST_USE;

/* Whether an archive can be written there, as far as that is known beforehand; NULL for none. */
int local_image_check_out(const char *out, struct arena *arena, struct error *err) MUST_USE;

#endif
