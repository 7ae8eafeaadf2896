/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An image of one layer, written as an OCI layout: as Lambda takes it, linux/amd64, gzip, a manifest of its own and no index
 * of several. Bytes, and so digests, depend on nothing but what is put in.
 */
#ifndef BERTH_PROVIDERS_LOCAL_IMAGES_IMAGE_WRITE_H
#define BERTH_PROVIDERS_LOCAL_IMAGES_IMAGE_WRITE_H

#include "base/arena.h"
#include "base/error.h"

#include <stdint.h>

struct image_writing {
        const char *system; /* a tar of the whole system */
        const char *layout; /* the layout's folder: made, must not exist */
        /* The annotation by which skopeo and others tell images of a layout apart: "latest". */
        const char *reference;
        const char *title, *description;               /* labels */
        int64_t dated_s;                               /* seconds since 1970; no date is later */
        const char *const *variables, *const *command; /* ended by NULL */
};

/*
 * Devices, logs, caches, locks and what says something of the machine that built it are left out; set-uid bits are taken
 * off; everything is root's.
 */
int image_write_layout(const struct image_writing *writing, struct arena *arena, struct error *err) MUST_USE;

/* The layout as one file, an OCI archive; replaced whole where it exists. */
int image_write_archive(const char *layout, const char *path, int64_t dated_s, struct arena *arena,
                        struct error *err) MUST_USE;

#endif
