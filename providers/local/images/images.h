/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding an image in the local store. The store's folder:
 *
 *     index.json            {"formatVersion": "1", "images": {"REPOSITORY:TAG": "sha256:HEX", ...}}, and what an OCI
 *                           layout has there; oci-layout, which says that this is one
 *     blobs/sha256/HEX      manifests, configurations and layers, each under its own digest
 *     roots/sha256/HEX/     an image's file system, unpacked; there only once it is whole; locked (shared) by runs
 *     work/, lock           of imports under way: image_store.h
 *
 * A root's HEX is that of the image's manifest. A prebuilt image NAME is `prebuilt/NAME:latest`.
 */
#ifndef BERTH_PROVIDERS_LOCAL_IMAGES_IMAGES_H
#define BERTH_PROVIDERS_LOCAL_IMAGES_IMAGES_H

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
 * Looks for the image that `digest` names or, where it is NULL, that `repository`:`tag` names today. Whether it is
 * there and unpacked.
 */
bool local_image_find(const struct local_images *images, const char *repository, const char *tag,
                      const char *digest, struct arena *arena, struct local_image *ret);

/*
 * Holds an image's root folder for a run, so that nobody removes it meanwhile: a descriptor that is to be closed, owned;
 * -1 with err where it is gone, or is going.
 */
int local_image_hold(const char *image_root, struct error *err) MUST_USE;

/*
 * What an environment's `image` stands for in the store. With `host_without`, the machine's own /usr serves as long as
 * the store has no such image.
 */
struct local_image_name {
        const char *text; /* for people: "REPOSITORY:TAG" or "REPOSITORY@DIGEST" */
        const char *repository, *tag, *digest;
        bool host_without;
};
struct local_image_name local_image_name(const struct value *image, struct arena *arena);

/* What people can do about an image that is not in the store. */
const char *local_image_remedy(const struct local_image_name *name, struct arena *arena);

#endif
