/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which images an environment can run: Lambda's rules, which hold on this machine too, so that what runs here is what AWS
 * takes. One place for every provider. All pure.
 */
#ifndef BERTH_PROVIDERS_IMAGE_RULES_H
#define BERTH_PROVIDERS_IMAGE_RULES_H

#include "base/arena.h"
#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 10 GB uncompressed is what Lambda takes; the layers of a manifest are compressed, hence a lower bound. */
#define IMAGE_RULES_SIZE_MAX (INT64_C(10) * 1024 * 1024 * 1024)

/* The media types of manifests. */
extern const char image_rules_oci_manifest[], image_rules_docker_manifest[], image_rules_oci_index[],
        image_rules_docker_list[];

struct image_verdict {
        const char *problem; /* "index", "media-type", "size", "platform"; NULL: none seen */
        const char *seen;    /* what was seen, to follow an image's name ("is an index of ...") */
        const char *media_type, *platform; /* "linux/amd64"; NULL where not known yet */
        const char *config;                /* the digest of the configuration, as the manifest says */
        const char *runtime; /* the version of the runtime, as the label says; NULL: it says none */
        int64_t size;        /* of the layers, as they are stored */
};

/* The label that says which runtime is in an image, the program that runs a session's code: "berth.runtime=1.2.3". */
#define IMAGE_RULES_RUNTIME "berth.runtime"
/* What that label of a configuration says; NULL where it says nothing, or what is no version. */
const char *image_rules_runtime(const char *config, size_t length, struct arena *arena);

/*
 * What a manifest means; `type` is its media type where something besides it says so, else NULL, and NULL for `manifest`
 * is one that is no JSON. One without a problem is not yet a verdict: the platform stands in the configuration.
 */
void image_rules_judge_manifest(const json_t *manifest, const char *type, struct image_verdict *verdict,
                                struct arena *arena);
/* The configuration's bytes: the platform, and the runtime. */
void image_rules_judge_config(const char *bytes, size_t length, struct image_verdict *verdict,
                              struct arena *arena);

/* "data/etl", "2025.10", "sha256:" and 64 hex digits. */
bool image_rules_is_repository(const char *text);
#define IMAGE_RULES_REFERENCE_WORDS                           \
        "REPOSITORY, REPOSITORY:TAG or REPOSITORY@sha256:HEX" \
        " (a repository: 2 to 256 of a-z, 0-9 and . _ - / between them)"
bool image_rules_is_tag(const char *text);
bool image_rules_is_digest(const char *text);

#endif
