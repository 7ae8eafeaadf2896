/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Letting go of images. A name goes by itself, and with the last name its image; one that has no name any more goes by its
 * digest, or with all others of its kind. Never one that an environment which was applied runs, or that a run has at this
 * moment. Blobs go with the last image that has them.
 *
 * What other stacks have applied that share the store is not known here; their runs are.
 */
#ifndef BERTH_PROVIDERS_LOCAL_IMAGE_REMOVE_H
#define BERTH_PROVIDERS_LOCAL_IMAGE_REMOVE_H

#include "base/arena.h"
#include "base/error.h"
#include "providers/images.h"

#include <stdbool.h>

/* `root` is the stack's data root (layout.h), `store` the folder of images. See struct image_ops for both. */
int local_image_remove(const char *root, const char *store, const char *reference, struct arena *arena,
                       struct image_row *ret, struct error *err) MUST_USE;
int local_image_prune(const char *root, const char *store, bool remove, struct arena *arena,
                      struct image_row **ret, size_t *ret_count, struct error *err) MUST_USE;

#endif
