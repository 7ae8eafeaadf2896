/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes an image of a system, and the runtime as a layer on it, as an OCI layout, in the form that Lambda takes: linux/amd64,
 * gzip, one manifest and no index of several. Bytes, and so digests, depend only on what is put in.
 */
#ifndef BERTH_PROVIDERS_LOCAL_IMAGES_IMAGE_WRITE_H
#define BERTH_PROVIDERS_LOCAL_IMAGES_IMAGE_WRITE_H

#include "base/arena.h"
#include "base/error.h"
#include "providers/image_layer.h"

#include <stdint.h>

struct image_writing {
        const char *system; /* a tar of the whole system */
        const char *layout; /* the layout's folder: made here, must not exist */
        /* The annotation by which skopeo and others tell images of a layout apart: "latest". */
        const char *reference;
        const char *title, *description;               /* labels */
        int64_t dated_s;                               /* seconds since 1970; no date is later */
        const char *const *variables, *const *command; /* ended by NULL */
        const struct image_layer *runtime;             /* image_runtime.h; NULL: none */
};

/*
 * Leaves out devices, logs, caches, locks and everything about the machine that built it. Clears set-uid bits. Everything
 * belongs to root.
 */
int image_write_layout(const struct image_writing *writing, struct arena *arena, struct error *err) MUST_USE;

/*
 * In parts, for a layout whose folder blobs/sha256 is there: a blob, whose digest is believed, and what makes an image of layers
 * that are there: configuration, manifest, index.
 */
int image_write_blob(const char *layout, const char *digest, const void *bytes, size_t length,
                     struct arena *arena, struct error *err) MUST_USE;
int image_write_documents(const char *layout, const char *reference, const struct image_layered *image,
                          struct arena *arena, struct error *err) MUST_USE;

/* Writes the layout as one file, an OCI archive; an existing file is replaced whole. */
int image_write_archive(const char *layout, const char *path, int64_t dated_s, struct arena *arena,
                        struct error *err) MUST_USE;

#endif
