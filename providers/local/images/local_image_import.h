/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking an image into the local store: verified, judged by the rules that hold on AWS, and unpacked. local_images.h says how
 * the store looks.
 */
#ifndef BERTH_PROVIDERS_LOCAL_IMAGES_LOCAL_IMAGE_IMPORT_H
#define BERTH_PROVIDERS_LOCAL_IMAGES_LOCAL_IMAGE_IMPORT_H

#include "base/arena.h"
#include "base/error.h"
#include "providers/images.h"

/*
 * `store` is the folder of the store (local_images_folder()), made where needed; `name` is "REPOSITORY[:TAG]", its tag
 * "latest" where it has none; `path` an OCI layout's folder, an OCI archive, a docker-archive or a folder of skopeo's
 * dir:. Afterwards the name leads to the image's digest, whatever it led to before.
 *
 * An image that the rules refuse (an index, arm64, too large) is a row with its problem; nothing of it is kept. A damaged
 * or hostile one is an error that names the image, the layer and the entry. Whatever happens, even death, nothing stays
 * that is half of an image, and other imports, running at the same time too, are not in the way.
 */
int local_image_import(const char *store, const char *name, const char *path, struct arena *arena,
                       struct image_row *ret, struct error *err) MUST_USE;

/* The same without a process of its own, for a fuzzer, which watches its own memory. */
int local_image_import_here(const char *store, const char *name, const char *path, struct arena *arena,
                            struct image_row *ret, struct error *err) MUST_USE;

#endif
