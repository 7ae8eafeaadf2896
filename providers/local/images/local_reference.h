/* SPDX-License-Identifier: Apache-2.0 */
/* How people name images of the local store, and the remedies for unusable ones. Pure. */
#ifndef BERTH_PROVIDERS_LOCAL_IMAGES_LOCAL_REFERENCE_H
#define BERTH_PROVIDERS_LOCAL_IMAGES_LOCAL_REFERENCE_H

#include "base/arena.h"
#include "base/error.h"

struct local_reference {
        const char *repository;
        const char *tag;    /* "latest" by default; NULL where a digest is given */
        const char *digest; /* or NULL */
};

/* "REPOSITORY[:TAG|@sha256:HEX]". The parts live in the arena. */
int local_reference_parse(const char *text, struct arena *arena, struct local_reference *ret,
                          struct error *err) MUST_USE;

/* What to do about an image with this problem (struct image_row): several lines with commands, in the arena. */
const char *local_reference_remedy(const struct local_reference *reference, const char *problem,
                                   struct arena *arena);

/* Builds an image of one manifest for linux/amd64 into image.tar. */
extern const char local_build_command[];

#endif
