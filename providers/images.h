/* SPDX-License-Identifier: Apache-2.0 */
/* A provider's registry of images, as people look into it and fill it; the controller needs none of it. */
#ifndef BERTH_PROVIDERS_IMAGES_H
#define BERTH_PROVIDERS_IMAGES_H

#include "base/arena.h"
#include "base/error.h"
#include "schema/manifests.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct image_layer;
struct provider;

/* An image that the registry holds, or that was asked about, and the verdict on it. */
struct image_row {
        const char *repository;
        const char **tags;
        size_t tag_count;
        const char *digest;                /* NULL where the name leads nowhere */
        int64_t pushed_ms;                 /* 0: not known */
        int64_t size;                      /* bytes, as they are stored; 0: not known */
        const char *media_type, *platform; /* "linux/amd64"; NULL where not known */
        const char *
                runtime; /* the version of Berth's runtime in it, as its label says; NULL: none, or not known */
        const char *problem; /* NULL: of use. Else an id of docs/json.md, static: "missing", "index", ... */
        const char *message; /* what was seen, a sentence without its full stop; NULL where of use */
        const char *remedy;  /* may be several lines; NULL where of use */
        /* Why it is not known whether it is of use, though nothing is wrong that is known; NULL where that is known. */
        const char *unverified;
        const char *note; /* of what was imported: what of it was left out, a sentence; else NULL */
};

/* An image to make. The provider chooses members that are NULL. */
struct image_build_request {
        const char *name;   /* of the prebuilt image: "python" */
        const char *mirror; /* where packages come from, a URL */
        const char *out;    /* an OCI archive to write as well: for skopeo and other machines */
        int messages;       /* where tools say what they do: a descriptor, or -1 */
};

/* The runtime as one layer more, on an image that is there. */
struct image_runtime_request {
        const char *reference; /* the image's name in the registry, or a path */
        bool is_file;          /* it is a path, of an OCI layout or archive or what docker save writes */
        const char *tag;       /* of the result; NULL: the image's own */
        const char *out;       /* an OCI archive to write, in place of taking the image in; or NULL */
        const struct image_layer *layer; /* image_layer.h; NULL: the provider finds it */
};

/* For qsort(): by repository, the newest first. */
int image_rows_newest_first(const void *a, const void *b);

/* Commands to copy, one a line. */
struct image_recipe {
        const char *tool;       /* "docker", "podman", "skopeo", "aws"; static */
        const char *repository; /* NULL: for all of them */
        const char *purpose;    /* a few words */
        const char **commands;
        size_t command_count;
};

struct image_target {
        const char *repository, *tag;
        const char *uri; /* as it is pushed to */
        bool exists;     /* the repository */
};

struct image_instructions {
        const char *registry;
        struct image_target *targets;
        size_t target_count;
        struct image_recipe *recipes; /* in the order in which they are needed */
        size_t recipe_count;
};

/* Whether the targets have this one. */
bool image_target_is_listed(const struct image_instructions *instructions, const char *repository,
                            const char *tag);
/* A recipe more, without commands; good until the next one is added. Texts are borrowed. */
struct image_recipe *image_recipe_add(struct image_instructions *instructions, struct arena *arena,
                                      const char *tool, const char *repository, const char *purpose);
void image_recipe_command(struct image_recipe *recipe, struct arena *arena, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

/* The registry of images, looked into by people. All of it after identify(); list, check and instructions change nothing. */
struct image_ops {
        /* By repository, newest first. `repository` NULL: all. A missing one is ERROR_NOT_FOUND. */
        int (*list)(struct provider *provider, const char *repository, struct arena *arena,
                    struct image_row **ret, size_t *ret_count, struct error *err);
        /*
         * "REPOSITORY[:TAG|@DIGEST]", with or without the registry in front. A missing image is a
         * row, too.
         */
        int (*check)(struct provider *provider, const char *reference, struct arena *arena,
                     struct image_row *ret, struct error *err);
        /* How to fill `repository`, or, where that is NULL, those that the manifests' environments use. */
        int (*instructions)(struct provider *provider, const struct manifests *manifests,
                            const char *repository, struct arena *arena, struct image_instructions *ret,
                            struct error *err);
        /*
         * Takes the image at `path` (an OCI layout or archive, a docker-archive) in as `name`,
         * "REPOSITORY:TAG". An image that could not run is a row with its problem, and is not taken
         * in. NULL where the registry is not on this machine.
         */
        int (*import)(struct provider *provider, const char *name, const char *path, struct arena *arena,
                      struct image_row *ret, struct error *err);
        /* Makes a prebuilt image and takes it in, as import does. NULL where the provider cannot. */
        int (*build)(struct provider *provider, const struct image_build_request *request,
                     struct arena *arena, struct image_row *ret, struct error *err);
        /*
         * Puts the runtime on an image that the registry has, as a new image under the same tag or another; the row is that
         * one. An image that cannot run is a row with its problem. `note` says where it had the layer already.
         */
        int (*add_runtime)(struct provider *provider, const struct image_runtime_request *request,
                           struct arena *arena, struct image_row *ret, struct error *err);
        /*
         * Takes the name "REPOSITORY[:TAG]" away, and the image with its last one; or an image that has no name, by its
         * digest or the first 12 digits of that. *ret: what it was; where the image stays, `note` says why. ERROR_REFUSED
         * where an environment or a run needs it. NULL where the registry is not on this machine; so is prune.
         */
        int (*remove)(struct provider *provider, const char *reference, struct arena *arena,
                      struct image_row *ret, struct error *err);
        /* Images that have no name and that no environment needs: told, and with `remove` removed. One with a `note` stays. */
        int (*prune)(struct provider *provider, bool remove, struct arena *arena, struct image_row **ret,
                     size_t *ret_count, struct error *err);
};

#endif
