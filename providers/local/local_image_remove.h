/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removing images. Removing an image's last name removes the image. An image without a name is removed by its digest, or
 * together with all others that have none. An image stays while an applied environment runs it, or a run uses it. A blob
 * goes with the last image that has it.
 *
 * Other stacks may share the store: which environments they applied is not known here, but their runs are.
 */
#ifndef BERTH_PROVIDERS_LOCAL_LOCAL_IMAGE_REMOVE_H
#define BERTH_PROVIDERS_LOCAL_LOCAL_IMAGE_REMOVE_H

#include "base/arena.h"
#include "base/error.h"
#include "providers/images.h"

#include <stdbool.h>

/* `root` is the stack's data root (local_layout.h), `store` the folder of images. See struct image_ops for both. */
int local_image_remove(const char *root, const char *store, const char *reference, struct arena *arena,
                       struct image_row *ret, struct error *err) MUST_USE;
int local_image_prune(const char *root, const char *store, bool remove, struct arena *arena,
                      struct image_row **ret, size_t *ret_count, struct error *err) MUST_USE;

#endif
