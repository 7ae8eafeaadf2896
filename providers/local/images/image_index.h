/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store's index, the manifests of its images, and which blobs they need. A caller that changes something holds the
 * store's lock (image_store.h).
 */
#ifndef BERTH_PROVIDERS_LOCAL_IMAGES_IMAGE_INDEX_H
#define BERTH_PROVIDERS_LOCAL_IMAGES_IMAGE_INDEX_H

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "providers/local/images/local_images.h"

#include <stddef.h>

/* The bytes of a blob that is JSON; ERROR_NOT_FOUND where the store does not have it. */
int image_index_blob(const char *folder, const char *digest, struct strbuf *ret, struct error *err) MUST_USE;
/* An image's manifest: a new reference; NULL where the store has none or cannot read it. */
json_t *image_index_manifest(const char *folder, const char *digest);

/*
 * The variables that an image sets for its programs, "NAME=TEXT". None where the store has no manifest of it: an image that
 * was not imported by Berth may have none.
 */
int image_index_variables(const char *folder, const char *digest, struct arena *arena,
                          const char *const **ret, size_t *ret_count, struct error *err) MUST_USE;

/* Makes `name` lead to `digest`, or removes the name (NULL). Also removes the names of images that are not there. */
int image_index_set(const char *folder, const char *name, const char *digest, struct arena *arena,
                    struct error *err) MUST_USE;

/*
 * A name that leads to the digest, other than `but` (NULL: any); NULL if absent. Lives as
 * long as `images`.
 */
const char *image_index_name_of(const struct local_images *images, const char *digest, const char *but);

/* The digests of all images that are there, with or without a name, sorted. Everything lives in the arena. */
int image_index_digests(const char *folder, struct arena *arena, const char ***ret, size_t *ret_count,
                        struct error *err) MUST_USE;

/*
 * Removes the blobs that no image needs; `top` is the store's folder, open. Removes nothing where it cannot tell what is
 * needed: a blob too many costs space, a blob too few costs an image.
 */
void image_index_prune(const char *folder, int top, struct arena *arena);

#endif
