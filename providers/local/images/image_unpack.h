/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layers onto a folder, one over the other, as the OCI image specification says, and no byte
 * anywhere else: each parent is opened by beneath.h (links on the way lead as they do in the image,
 * never out of the folder), each entry is made again under its name, nothing is written through an
 * existing entry. Owners, set-uid and set-gid bits, devices, FIFOs and extended attributes stay
 * out.
 */
#ifndef BERTH_PROVIDERS_LOCAL_IMAGES_IMAGE_UNPACK_H
#define BERTH_PROVIDERS_LOCAL_IMAGES_IMAGE_UNPACK_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* Over all layers of an image, but for `file_bytes`. */
struct unpack_limits {
        uint64_t entries;
        uint64_t bytes;
        uint64_t file_bytes;  /* one file, holes included */
        unsigned top_entries; /* in the root folder itself: each is a mount of the sandbox's */
};
extern const struct unpack_limits unpack_limits_default;

#define UNPACK_DEPTH_MAX 100
#define UNPACK_PATH_MAX 4000
#define UNPACK_NAME_MAX 255

/* The unpacked content, and the parts that were left out. */
struct unpack_tally {
        uint64_t entries, bytes;
        uint64_t privileged;   /* files that lost set-uid, set-gid or sticky bits */
        uint64_t capabilities; /* files that lost capabilities */
        uint64_t devices, specials;
};

struct unpack {
        int root; /* the folder; borrowed */
        struct unpack_limits limits;
        struct unpack_tally tally;
        /* Bytes of the layers until now, uncompressed, whether or not they are of any file. */
        uint64_t streamed;
};

/*
 * Applies the layer in `descriptor` (a tar, perhaps compressed, which can be read twice). `lowest`:
 * no layer is below it. `diff_id` is what its uncompressed bytes must hash to. After a failure the
 * folder's content is of no use.
 */
int image_unpack_layer(struct unpack *unpack, int descriptor, bool lowest, const char *diff_id,
                       struct error *err) MUST_USE;

/* The same of a tar that is no layer: an archive that holds an image. */
int image_unpack_archive(struct unpack *unpack, int descriptor, struct error *err) MUST_USE;

/*
 * Makes what a sandbox mounts over and the image lacks: /etc/passwd, /etc/group, /etc/hosts, /var/tmp. Nothing where a
 * link is in the way: that stays as it is, and nothing is mounted over it.
 */
int image_unpack_finish(struct unpack *unpack, struct error *err) MUST_USE;

#endif
