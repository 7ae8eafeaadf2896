/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/image_rules.h"

#include "base/strbuf.h"
#include "base/text.h"

#include <string.h>

const char image_rules_oci_manifest[] = "application/vnd.oci.image.manifest.v1+json";
const char image_rules_docker_manifest[] = "application/vnd.docker.distribution.manifest.v2+json";
const char image_rules_oci_index[] = "application/vnd.oci.image.index.v1+json";
const char image_rules_docker_list[] = "application/vnd.docker.distribution.manifest.list.v2+json";

static const char platform_wanted[] = "linux/amd64";

/*
 * Documents of images nest a few levels deep; a document that nests deeper wants jansson's stack.
 */
#define DEPTH_MAX 32
#define VALUES_MAX 200000
#define VERSION_MAX 64

static void refuse_image(struct image_verdict *verdict, const char *problem, const char *seen) {
        verdict->problem = problem;
        verdict->seen = seen;
}

/* "linux/amd64, linux/arm64" of an index; buildx's attestations call themselves unknown/unknown. */
static const char *index_platforms(const json_t *manifest, struct arena *arena) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        const json_t *item;
        size_t i;

        json_array_foreach (json_object_get(manifest, "manifests"), i, item) {
                const json_t *platform = json_object_get(item, "platform");
                const char *system = json_text(platform, "os"),
                           *architecture = json_text(platform, "architecture");

                if (i == 8) {
                        strbuf_append(&text, " and more");
                        break;
                }
                if (system && strcmp(system, "unknown") == 0)
                        strbuf_printf(&text, "%san attestation", i ? ", " : "");
                else
                        strbuf_printf(&text, "%s%s/%s", i ? ", " : "", system ? system : "?",
                                      architecture ? architecture : "?");
        }
        return text.length ? arena_strdup(arena, strbuf_text(&text)) : "nothing";
}

static int64_t layers_size(const json_t *manifest) {
        const json_t *layer;
        int64_t size = 0;
        size_t i;

        json_array_foreach (json_object_get(manifest, "layers"), i, layer) {
                int64_t bytes = json_integer_or(layer, "size", 0);

                if (bytes > 0 && size <= INT64_MAX - bytes)
                        size += bytes;
        }
        return size;
}

/* A single manifest: its configuration's type, and the size of its layers. */
static void judge_single(const json_t *manifest, struct image_verdict *verdict, struct arena *arena) {
        /* Charts, signatures and other artifacts are manifests too; what tells them is this type. */
        static const char *const config_types[] = { "application/vnd.oci.image.config.v1+json",
                                                    "application/vnd.docker.container.image.v1+json", NULL };
        const json_t *config = json_object_get(manifest, "config");
        const char *type = json_text(config, "mediaType");

        verdict->config = arena_strdup(arena, json_text(config, "digest"));
        verdict->size = layers_size(manifest);
        if (type && *type && !text_is_among(type, config_types))
                refuse_image(
                        verdict, "media-type",
                        arena_printf(arena,
                                     "is no image that can run: its configuration has the media type %s, and "
                                     "Lambda takes only %s and %s",
                                     type, config_types[1], config_types[0]));
        else if (verdict->size > IMAGE_RULES_SIZE_MAX)
                refuse_image(
                        verdict, "size",
                        arena_printf(arena,
                                     "has layers of %.1f GB as they are stored, and Lambda takes at most 10 "
                                     "GB unpacked",
                                     (double)verdict->size / (1024.0 * 1024 * 1024)));
}

void image_rules_judge_manifest(const json_t *manifest, const char *type, struct image_verdict *verdict,
                                struct arena *arena) {
        /* Older answers leave the type to the manifest; an OCI one may leave it out altogether. */
        if (!type || !*type)
                type = json_text(manifest, "mediaType");
        if (!type && json_object_get(manifest, "manifests"))
                type = image_rules_oci_index;
        if (!type)
                type = json_object_get(manifest, "config") ? image_rules_oci_manifest : "unknown";
        verdict->media_type = arena_strdup(arena, type);
        if (strcmp(type, image_rules_oci_index) == 0 || strcmp(type, image_rules_docker_list) == 0)
                refuse_image(
                        verdict, "index",
                        arena_printf(arena,
                                     "is an index of several images (%s; %s), and Lambda takes only a single "
                                     "one",
                                     index_platforms(manifest, arena), type));
        else if (strcmp(type, image_rules_oci_manifest) == 0 ||
                 strcmp(type, image_rules_docker_manifest) == 0)
                judge_single(manifest, verdict, arena);
        else
                refuse_image(verdict, "media-type",
                             arena_printf(arena, "has the media type %s, and Lambda takes only %s and %s",
                                          type, image_rules_docker_manifest, image_rules_oci_manifest));
}

void image_rules_judge_config(const char *bytes, size_t length, struct image_verdict *verdict,
                              struct arena *arena) {
        json_t *config JSON_CLEANUP = json_loadb(bytes, length, 0, NULL);
        const char *system = json_text(config, "os"), *architecture = json_text(config, "architecture");

        if (!system || !architecture || !*system || !*architecture) {
                refuse_image(
                        verdict, "platform",
                        "has a configuration that names no platform, and environments run linux/amd64 only");
                return;
        }
        verdict->platform = arena_printf(arena, "%s/%s", system, architecture);
        verdict->runtime = image_rules_runtime(bytes, length, arena);
        if (strcmp(verdict->platform, platform_wanted) != 0)
                refuse_image(verdict, "platform",
                             arena_printf(arena, "is built for %s, and environments run %s only",
                                          verdict->platform, platform_wanted));
}

/* It goes into records and messages: letters, digits and what versions have between them. */
const char *image_rules_runtime(const char *config, size_t length, struct arena *arena) {
        struct json_extent extent = json_measure(config, length);
        json_t *json JSON_CLEANUP = extent.depth > DEPTH_MAX || extent.values > VALUES_MAX
                                            ? NULL
                                            : json_loadb(config, length, 0, NULL);
        const char *version =
                json_text(json_object_get(json_object_get(json, "config"), "Labels"), IMAGE_RULES_RUNTIME);
        size_t size = version ? strlen(version) : 0;

        if (size == 0 || size > VERSION_MAX ||
            strspn(version, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.+-~") != size)
                return NULL;
        return arena_strdup(arena, version);
}

/* Parts between slashes, each of which begins with a letter or a digit. */
bool image_rules_is_repository(const char *text) {
        static const char characters[] = "._-/abcdefghijklmnopqrstuvwxyz0123456789";
        size_t length = strlen(text);

        if (length < 2 || length > 256 || strspn(text, characters) != length || text[length - 1] == '/')
                return false;
        for (size_t i = 0; i < length; i++) {
                if ((i == 0 || text[i - 1] == '/') && strchr("._-/", text[i]))
                        return false;
        }
        return true;
}

bool image_rules_is_tag(const char *text) {
        size_t length = strlen(text);

        return length >= 1 && length <= 128 && text[0] != '.' && text[0] != '-' &&
               strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == length;
}

bool image_rules_is_digest(const char *text) {
        return strncmp(text, "sha256:", 7) == 0 && strlen(text) == 71 &&
               strspn(text + 7, "0123456789abcdef") == 64;
}
