/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changing the local store of images; local_images.h says how it looks. An import prepares everything in a work folder of its
 * own, which it keeps locked, and moves it into place when it is complete:
 *
 *     image_store_open -> { image_store_stage } -> image_store_commit -> image_store_close
 *     image_store_open -> { image_store_remove } -> image_store_close
 *
 * Many imports may prepare at the same time; they move into place one by one. The work folder of a dead process is removed
 * by the next one that opens the store.
 */
#ifndef BERTH_PROVIDERS_LOCAL_IMAGES_IMAGE_STORE_H
#define BERTH_PROVIDERS_LOCAL_IMAGES_IMAGE_STORE_H

#include "base/arena.h"
#include "base/error.h"
#include "providers/local/images/local_images.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct image_store {
        const char *folder;
        int top;     /* the store's folder */
        int work;    /* the work folder, locked */
        int archive; /* in it: an empty folder, where an archive is unpacked */
        int root;    /* in it: an empty folder that becomes the image's */
        int blobs;   /* in it */
        char work_name[32];
};
#define IMAGE_STORE_INIT \
        { .top = -1, .work = -1, .archive = -1, .root = -1, .blobs = -1 }
#define IMAGE_STORE_CLEANUP __attribute__((cleanup(image_store_close)))

/* Makes what is not there. `folder` is borrowed. */
int image_store_open(const char *folder, struct image_store *ret, struct error *err) MUST_USE;
/* Removes the work folder and what is left in it. */
void image_store_close(struct image_store *store);

/*
 * Takes a blob from a descriptor, or from memory, into the work folder. Its length must be `size` and its SHA-256 `digest`. A
 * blob that the store has already is not copied. Staging a blob twice is the same as once.
 */
int image_store_stage(struct image_store *store, int from, const char *digest, uint64_t size,
                      struct error *err) MUST_USE;
int image_store_stage_bytes(struct image_store *store, const void *bytes, size_t length, const char *digest,
                            struct error *err) MUST_USE;
/* A staged blob, to be read; -1 with errno. */
int image_store_blob(const struct image_store *store, const char *digest);

/* Whether the image is there, unpacked. */
bool image_store_has(const struct image_store *store, const char *digest);

struct image_removal {
        const char *name;   /* the name to remove, which leads to the image; NULL: the image has none */
        const char *digest; /* of the image */
        const char *users;  /* the environments that run it, for people; NULL: none */
};

/*
 * Removes the name and, where no other name leads to the image, the image with the blobs that no other image has.
 * *ret_other_name is a name that still leads to it, in the arena; NULL: the image is gone. ERROR_REFUSED (image-in-use)
 * where the image would go while an environment or a run needs it: nothing has changed then.
 */
int image_store_remove(struct image_store *store, const struct image_removal *removal, struct arena *arena,
                       const char **ret_other_name, struct error *err) MUST_USE;

/*
 * Moves the staged blobs, and the root where `unpacked`, into place, and makes `name` ("REPOSITORY:TAG") lead to `digest`.
 * Removes what nothing refers to any more: names of images that are gone, blobs that no image has.
 */
int image_store_commit(struct image_store *store, const char *name, const char *digest, bool unpacked,
                       struct arena *arena, struct error *err) MUST_USE;

#endif
