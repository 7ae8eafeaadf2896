/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding an image in the local store. The store's folder:
 *
 *     index.json            {"formatVersion": "1", "images": {"REPOSITORY:TAG": "sha256:HEX", ...}}, and what an OCI
 *                           layout has there; oci-layout, which says that this is one
 *     blobs/sha256/HEX      manifests, configurations and layers, each under its own digest
 *     roots/sha256/HEX/     an image's file system, unpacked and complete; runs hold a shared lock on it
 *     work/, lock           for imports under way: image_store.h
 *
 * A root's HEX is the digest of the image's manifest. The prebuilt image NAME is `prebuilt/NAME:latest`.
 */
#ifndef BERTH_PROVIDERS_LOCAL_IMAGES_LOCAL_IMAGES_H
#define BERTH_PROVIDERS_LOCAL_IMAGES_LOCAL_IMAGES_H

#include "base/arena.h"
#include "base/error.h"
#include "schema/value.h"

#include <stdbool.h>

#define LOCAL_IMAGES_INDEX "index.json"
#define LOCAL_IMAGES_ROOTS "roots/sha256"
#define LOCAL_IMAGES_BLOBS "blobs/sha256"

struct local_images {
        const char *folder;
        const struct value *tags; /* map "REPOSITORY:TAG" to digest; NULL for an empty store */
};

struct local_image {
        const char *digest; /* "sha256:HEX" */
        const char *root;   /* the folder of its file system */
};

/* Reads the index. A store that does not exist is empty; a damaged index is an error that names it. */
int local_images_open(const char *folder, struct arena *arena, struct local_images *ret,
                      struct error *err) MUST_USE;
/*
 * Looks for the image with `digest` or, where that is NULL, the one that `repository`:`tag` leads to today. True where it
 * is there, unpacked.
 */
bool local_image_find(const struct local_images *images, const char *repository, const char *tag,
                      const char *digest, struct arena *arena, struct local_image *ret);

/*
 * Locks an image's root folder for a run, so that it is not removed meanwhile. Returns a
 * descriptor, owned, which holds the lock; -1 with err where the image is gone or is being removed.
 */
int local_image_hold(const char *image_root, struct error *err) MUST_USE;
/* The same by digest, for who has rights that the store's owner has not: no link in the store leads anywhere. */
int local_image_hold_in(const char *folder, const char *digest, struct error *err) MUST_USE;

/*
 * The image in the store that an environment's `image` means. With `host_without`, the machine's own /usr is used while
 * the store has no such image.
 */
struct local_image_name {
        const char *text; /* for people: "REPOSITORY:TAG" or "REPOSITORY@DIGEST" */
        const char *repository, *tag, *digest;
        const char *prebuilt; /* its name, or NULL */
        bool host_without;
};
struct local_image_name local_image_name(const struct value *image, struct arena *arena);

/* What to do about an image that is not in the store. */
const char *local_image_remedy(const struct local_image_name *name, struct arena *arena);

#endif
