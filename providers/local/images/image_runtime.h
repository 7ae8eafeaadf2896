/* SPDX-License-Identifier: Apache-2.0 */
/* The runtime as a layer, and `berth image runtime` on this machine: that layer put on an image of the store or of a file. */
#ifndef BERTH_PROVIDERS_LOCAL_IMAGES_IMAGE_RUNTIME_H
#define BERTH_PROVIDERS_LOCAL_IMAGES_IMAGE_RUNTIME_H

#include "base/arena.h"
#include "base/error.h"
#include "providers/image_layer.h"
#include "providers/images.h"

/*
 * The layer with the berth-runtime of this installation, in the arena: /opt, /opt/berth and the program, of root, mode 0755, dated
 * 1970. The same program gives the same bytes.
 */
int image_runtime_layer(struct arena *arena, struct image_layer *ret, struct error *err) MUST_USE;
/* The same of any file, for tests. */
int image_runtime_layer_of(const char *path, struct arena *arena, struct image_layer *ret,
                           struct error *err) MUST_USE;

/* `store` as in local_image_import(); see struct image_ops. */
int local_image_runtime(const char *store, const struct image_runtime_request *request, struct arena *arena,
                        struct image_row *ret, struct error *err) MUST_USE;

#endif
