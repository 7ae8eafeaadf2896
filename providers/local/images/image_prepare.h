/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All of an import that reads the image: verified, judged, its blobs staged and its layers unpacked, in the work folder of the
 * store alone. Nothing is in its place yet. It is for strangers' images, so image_worker.h runs it in a cage.
 */
#ifndef BERTH_PROVIDERS_LOCAL_IMAGES_IMAGE_PREPARE_H
#define BERTH_PROVIDERS_LOCAL_IMAGES_IMAGE_PREPARE_H

#include "providers/image_rules.h"
#include "providers/local/images/image_store.h"
#include "providers/local/images/image_unpack.h"
#include "providers/local/images/local_reference.h"

/* Its texts live in the arena. */
struct image_prepared {
        const char *digest;           /* of the manifest */
        bool present;                 /* the image was unpacked by an earlier import, and was not this time */
        struct image_verdict verdict; /* with a problem, nothing was staged that may be kept */
        struct unpack_tally tally;
};

/* `given` is the file or folder that people call `path`; borrowed. */
int image_prepare(struct image_store *store, int given, const char *path, const struct local_reference *name,
                  struct arena *arena, struct image_prepared *ret, struct error *err) MUST_USE;

#endif
