/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store's index, and what belongs to what in the store: reading images' manifests back, letting go of what no image
 * needs. Who changes something holds the store's lock (image_store.h).
 */
#ifndef BERTH_PROVIDERS_LOCAL_IMAGES_IMAGE_INDEX_H
#define BERTH_PROVIDERS_LOCAL_IMAGES_IMAGE_INDEX_H

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "providers/local/images/images.h"

#include <stddef.h>

/* The bytes of a blob that is JSON; ERROR_NOT_FOUND where the store has it not. */
int image_index_blob(const char *folder, const char *digest, struct strbuf *ret, struct error *err) MUST_USE;
/* An image's manifest: a new reference, NULL where the store has none that could be read. */
json_t *image_index_manifest(const char *folder, const char *digest);

/*
 * The variables that an image sets for its programs, "NAME=TEXT". None where the store has no manifest of it, which an
 * image that was brought by other ways may lack.
 */
int image_index_variables(const char *folder, const char *digest, struct arena *arena,
                          const char *const **ret, size_t *ret_count, struct error *err) MUST_USE;

/* Lets `name` lead to `digest`, or (NULL) nowhere any more; drops names of images that are not there. */
int image_index_set(const char *folder, const char *name, const char *digest, struct arena *arena,
                    struct error *err) MUST_USE;

/* A name that leads to the digest and is not `but` (NULL: any); NULL where there is none. Lives as long as the index read. */
const char *image_index_name_of(const struct local_images *images, const char *digest, const char *but);

/* The digests of all images that are there, sorted; names or none. Everything lives in the arena. */
int image_index_digests(const char *folder, struct arena *arena, const char ***ret, size_t *ret_count,
                        struct error *err) MUST_USE;

/*
 * Removes blobs that no image needs; `top` is the store's folder, open. Removes nothing where that cannot be told: a blob that
 * is too many costs space, one that is too few an image.
 */
void image_index_prune(const char *folder, int top, struct arena *arena);

#endif
