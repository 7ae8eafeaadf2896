/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An image as a user hands it over: an OCI layout (a folder, or a tar of it), a docker-archive, or
 * a folder of skopeo's dir:. Archives are unpacked into a folder of ours first. Nothing here
 * believes what it reads; nothing outside of the given folder is opened, whatever links are in it.
 */
#ifndef BERTH_PROVIDERS_LOCAL_IMAGES_IMAGE_SOURCE_H
#define BERTH_PROVIDERS_LOCAL_IMAGES_IMAGE_SOURCE_H

#include "base/arena.h"
#include "base/error.h"
#include "base/strbuf.h"

#include <stddef.h>
#include <stdint.h>

/* Manifests and configurations are some KB. */
#define IMAGE_SOURCE_JSON_MAX ((size_t)4 << 20)

enum image_source_form { SOURCE_OCI, SOURCE_DOCKER_ARCHIVE, SOURCE_DIR };

struct image_source {
        const char *path; /* for people */
        enum image_source_form form;
        int folder;
        /* Where blobs of a docker-archive are, which names them as it likes. */
        struct image_source_file {
                const char *digest, *path;
        } * files;
        size_t file_count;
};
#define IMAGE_SOURCE_INIT \
        { .folder = -1 }
#define IMAGE_SOURCE_CLEANUP __attribute__((cleanup(image_source_close)))

/*
 * Opens what people name: a file or a folder, in no way looked at. ERROR_NOT_FOUND if it does not
 * exist.
 */
int image_source_find(const char *path, int *ret, struct error *err) MUST_USE;
/* An archive is unpacked into `stage`, an empty folder. `given` and `path`, its name for people, are borrowed. */
int image_source_open(int given, const char *path, int stage, struct image_source *ret,
                      struct error *err) MUST_USE;
void image_source_close(struct image_source *source);

struct image_source_manifest {
        const char *type;   /* the media type that was said besides the manifest; NULL: none was */
        const char *digest; /* of the bytes, which were found to have it */
        const char *bytes;
        size_t length;
};

/*
 * The manifest of the image that is there; of several, the one that calls itself `tag`, or "`repository`:`tag`". A
 * docker-archive has none: it gets one that says what is there.
 */
int image_source_manifest(struct image_source *source, const char *repository, const char *tag,
                          struct arena *arena, struct image_source_manifest *ret, struct error *err) MUST_USE;

/* Opens the file that is said to be the blob. Whether it is remains to be seen. */
int image_source_blob(const struct image_source *source, const char *digest, int *ret,
                      struct error *err) MUST_USE;

#endif
