/* SPDX-License-Identifier: Apache-2.0 */
/* What people ask about the local store: what it holds, whether one image is of use, how to fill it. */
#ifndef BERTH_PROVIDERS_LOCAL_IMAGE_CATALOG_H
#define BERTH_PROVIDERS_LOCAL_IMAGE_CATALOG_H

#include "providers/local/images.h"
#include "providers/provider.h"

extern const struct image_ops local_image_registry;

struct local_reference {
        const char *repository;
        const char *tag;    /* "latest" where nothing is said; NULL where a digest is given */
        const char *digest; /* or NULL */
};

/* "REPOSITORY[:TAG|@sha256:HEX]". Pure. */
int local_reference_parse(const char *text, struct arena *arena, struct local_reference *ret,
                          struct error *err) MUST_USE;
/* A row of an image that is there; `name` "REPOSITORY:TAG", or NULL where it has none. */
void local_catalog_describe(const struct local_images *images, const char *name, const char *digest,
                            struct arena *arena, struct image_row *ret);
/* What to do about an image with such a problem, commands and all; several lines. Pure. */
const char *local_catalog_remedy(const struct local_reference *reference, const char *problem,
                                 struct arena *arena);

#endif
