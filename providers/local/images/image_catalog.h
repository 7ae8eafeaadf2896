/* SPDX-License-Identifier: Apache-2.0 */
/* What people ask about the local store: what it holds, and whether one image is of use. Rows live in the arena. */
#ifndef BERTH_PROVIDERS_LOCAL_IMAGES_IMAGE_CATALOG_H
#define BERTH_PROVIDERS_LOCAL_IMAGES_IMAGE_CATALOG_H

#include "providers/images.h"
#include "providers/local/images/images.h"

/* `store` is the folder of the store (local_images_folder()), `text` an image as people name it. As struct image_ops says of both. */
int local_catalog_list(const char *store, const char *repository, struct arena *arena, struct image_row **ret,
                       size_t *ret_count, struct error *err) MUST_USE;
int local_catalog_check(const char *store, const char *text, struct arena *arena, struct image_row *ret,
                        struct error *err) MUST_USE;

/* A row of an image by its digest; `name` "REPOSITORY:TAG", or NULL where it has none. */
void local_catalog_describe(const struct local_images *images, const char *name, const char *digest,
                            struct arena *arena, struct image_row *ret);

#endif
