/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One layer more on an image: what its manifest and its configuration say then. The layer that Berth adds is the runtime, the
 * program of a session's code: /opt/berth/berth-runtime. Pure.
 */
#ifndef BERTH_PROVIDERS_IMAGE_LAYER_H
#define BERTH_PROVIDERS_IMAGE_LAYER_H

#include "base/arena.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where the runtime lies in an image. The label that says which version is IMAGE_RULES_RUNTIME. */
#define IMAGE_RUNTIME_FOLDER "/opt/berth"
#define IMAGE_RUNTIME_PATH IMAGE_RUNTIME_FOLDER "/berth-runtime"

/* Docker builds no image of more, and Lambda takes none. */
#define IMAGE_LAYERS_MAX 127

/* A layer, packed with gzip. Texts and bytes are borrowed or in an arena. */
struct image_layer {
        const void *bytes;
        size_t length;
        const char *digest;  /* of the bytes: "sha256:HEX" */
        const char *diff_id; /* of the tar in it */
        const char *version; /* of the runtime that it holds, for the label */
};

/* An image's two documents, as bytes of JSON. */
struct image_documents {
        const char *manifest, *config;
        size_t manifest_length, config_length;
        const char *type; /* the manifest's media type where something besides it says so; else NULL */
};

struct image_layered {
        const char *type;              /* the manifest's media type: the one that it had */
        const char *manifest, *config; /* JSON; in the arena, as are the digests */
        const char *manifest_digest, *config_digest;
        int64_t size; /* of the layers, as they are stored */
        bool same;    /* it has had this very layer: nothing has changed */
};

/*
 * Adds the layer on top, and the label. Nothing else of the configuration changes, not even its
 * date, so that the same image and layer give the same digests. Both documents come from outside: a
 * manifest and a configuration that do not fit each other, or that are not of an image of
 * linux/amd64, are errors.
 */
int image_layer_add(const struct image_documents *image, const struct image_layer *layer, struct arena *arena,
                    struct image_layered *ret, struct error *err) MUST_USE;

#endif
