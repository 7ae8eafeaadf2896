/* SPDX-License-Identifier: Apache-2.0 */
/* `berth image runtime --push`: the runtime put on an image of the stack's registry, by ECR's own API. */
#ifndef BERTH_PROVIDERS_AWS_IMAGE_IMAGE_RUNTIME_H
#define BERTH_PROVIDERS_AWS_IMAGE_IMAGE_RUNTIME_H

#include "base/arena.h"
#include "base/error.h"
#include "providers/images.h"

/* See struct image_ops; the request's `layer` must be there. */
int image_runtime_push(struct provider *provider, const struct image_runtime_request *request,
                       struct arena *arena, struct image_row *ret, struct error *err) MUST_USE;

#endif
