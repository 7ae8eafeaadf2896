/* SPDX-License-Identifier: Apache-2.0 */
/* Listing the images of the local store, and checking one of them. Rows live in the arena. */
#ifndef BERTH_PROVIDERS_LOCAL_IMAGES_LOCAL_CATALOG_H
#define BERTH_PROVIDERS_LOCAL_IMAGES_LOCAL_CATALOG_H

#include "providers/images.h"
#include "providers/local/images/local_images.h"

/* `store` is the store's folder (local_images_folder()), `text` an image as people name it; see struct image_ops. */
int local_catalog_list(const char *store, const char *repository, struct arena *arena, struct image_row **ret,
                       size_t *ret_count, struct error *err) MUST_USE;
int local_catalog_check(const char *store, const char *text, struct arena *arena, struct image_row *ret,
                        struct error *err) MUST_USE;

/* The row of an image; `name` is "REPOSITORY:TAG", or NULL where the image has none. */
void local_catalog_describe(const struct local_images *images, const char *name, const char *digest,
                            struct arena *arena, struct image_row *ret);

#endif
