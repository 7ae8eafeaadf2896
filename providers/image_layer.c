/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/image_layer.h"

#include "base/digest.h"
#include "base/files.h"
#include "base/json.h"
#include "providers/image_rules.h"

#include <string.h>

/*
 * Documents of images nest a few levels deep; a document that nests deeper wants jansson's stack.
 */
#define DEPTH_MAX 32
#define VALUES_MAX 200000

static const char oci_layer[] = "application/vnd.oci.image.layer.v1.tar+gzip";
static const char docker_layer[] = "application/vnd.docker.image.rootfs.diff.tar.gzip";

static json_t *parse_object(const char *bytes, size_t length, const char *what, struct error *err) {
        struct json_extent extent = json_measure(bytes, length);
        json_t *json = extent.depth > DEPTH_MAX || extent.values > VALUES_MAX
                               ? NULL
                               : json_loadb(bytes, length, JSON_REJECT_DUPLICATES, NULL);

        if (json_is_object(json))
                return json;
        json_decref(json);
        (void)error_set(err, "its %s is no JSON object of a sensible size", what);
        return NULL;
}

static const char *digest_of(const char *bytes, size_t length, struct arena *arena) {
        char hex[SHA256_HEX_SIZE];

        digest_sha256_hex(bytes, length, hex);
        return arena_printf(arena, "sha256:%s", hex);
}

static bool has_layer(const json_t *layers, const char *digest) {
        const json_t *layer;
        size_t i;

        json_array_foreach (layers, i, layer) {
                const char *text = json_text(layer, "digest");

                if (text && strcmp(text, digest) == 0)
                        return true;
        }
        return false;
}

/* Each layer by a digest, and as many as the configuration has of their tars: what is added later stands at the same place in both. */
static int check_layers(const json_t *manifest, const json_t *config, struct error *err) {
        const json_t *layers = json_object_get(manifest, "layers"), *layer;
        const json_t *ids = json_object_get(json_object_get(config, "rootfs"), "diff_ids");
        size_t i;

        if (!json_is_array(layers) || !json_is_array(ids) || json_array_size(layers) != json_array_size(ids))
                return error_set(err, "its manifest names %zu layers and its configuration %zu",
                                 json_array_size(layers), json_array_size(ids));
        if (json_array_size(layers) >= IMAGE_LAYERS_MAX)
                return error_set(err, "it has %zu layers, and an image of %d takes no other",
                                 json_array_size(layers), IMAGE_LAYERS_MAX);
        json_array_foreach (layers, i, layer) {
                const char *digest = json_text(layer, "digest");

                if (!digest || !image_rules_is_digest(digest))
                        return error_set(err, "its manifest names layer %zu by no digest of SHA-256", i + 1);
        }
        return 0;
}

/*
 * An object's member that is an object; a missing one, or null, is replaced by an empty one. NULL
 * where it is something else.
 */
static json_t *object_in(json_t *object, const char *name) {
        json_t *member = json_object_get(object, name);

        if (member && !json_is_null(member))
                return json_is_object(member) ? member : NULL;
        json_put(object, name, json_object());
        return json_object_get(object, name);
}

static int set_label(json_t *config, const char *version, struct error *err) {
        json_t *settings = object_in(config, "config");
        json_t *labels = settings ? object_in(settings, "Labels") : NULL;

        if (!labels)
                return error_set(err, "its configuration has invalid settings or labels");
        json_put(labels, IMAGE_RULES_RUNTIME, json_string(version));
        return 0;
}

/* A history tells of each layer; if it is missing, a part of one would tell of the wrong layer. */
static void add_to_config(json_t *config, const struct image_layer *layer) {
        json_t *history = json_object_get(config, "history");

        json_add(json_object_get(json_object_get(config, "rootfs"), "diff_ids"), json_string(layer->diff_id));
        if (json_array_size(history) > 0)
                json_add(history,
                         json_pack("{s:s, s:s, s:s}", "created", "1970-01-01T00:00:00Z", "created_by",
                                   "berth image runtime", "comment", IMAGE_RUNTIME_PATH));
}

/*
 * The bytes must be what the digests say: the caller's manifest came by one, and it names the
 * configuration by another.
 */
static int check_digests(const struct image_documents *image, const json_t *manifest,
                         struct image_verdict *ret, struct arena *arena, struct error *err) {
        image_rules_judge_manifest(manifest, image->type, ret, arena);
        if (!ret->problem)
                image_rules_judge_config(image->config, image->config_length, ret, arena);
        if (ret->problem)
                return error_set(err, "it %s", ret->seen);
        if (!ret->config || strcmp(ret->config, digest_of(image->config, image->config_length, arena)) != 0)
                return error_set(err, "its configuration is not what its manifest says");
        return 0;
}

static const char *plain_json(const json_t *json, struct arena *arena) {
        char *text TEXT_CLEANUP = json_plain(json);

        return arena_strdup(arena, text);
}

static json_t *descriptor_of(const struct image_layer *layer, const char *type) {
        bool docker = strcmp(type, image_rules_docker_manifest) == 0;

        return json_pack("{s:s, s:s, s:I}", "mediaType", docker ? docker_layer : oci_layer, "digest",
                         layer->digest, "size", (json_int_t)layer->length);
}

/* The configuration first: the manifest names it by its digest. */
static void write_documents(json_t *manifest, const json_t *config, struct arena *arena,
                            struct image_layered *ret) {
        json_t *of_config = json_object_get(manifest, "config");

        ret->config = plain_json(config, arena);
        ret->config_digest = digest_of(ret->config, strlen(ret->config), arena);
        json_put(of_config, "digest", json_string(ret->config_digest));
        json_put(of_config, "size", json_integer((json_int_t)strlen(ret->config)));
        /* A registry that is told a type beside the manifest wants the same in it. */
        json_put(manifest, "mediaType", json_string(ret->type));
        ret->manifest = plain_json(manifest, arena);
        ret->manifest_digest = digest_of(ret->manifest, strlen(ret->manifest), arena);
}

/* Written again, the same content would have other digests. */
static void keep_documents(const struct image_documents *image, const char *config_digest,
                           struct arena *arena, struct image_layered *ret) {
        ret->same = true;
        ret->config = arena_strndup(arena, image->config, image->config_length);
        ret->config_digest = config_digest;
        ret->manifest = arena_strndup(arena, image->manifest, image->manifest_length);
        ret->manifest_digest = digest_of(image->manifest, image->manifest_length, arena);
}

int image_layer_add(const struct image_documents *image, const struct image_layer *layer, struct arena *arena,
                    struct image_layered *ret, struct error *err) {
        json_t *manifest JSON_CLEANUP =
                parse_object(image->manifest, image->manifest_length, "manifest", err);
        json_t *config JSON_CLEANUP =
                manifest ? parse_object(image->config, image->config_length, "configuration", err) : NULL;
        const char *version = image_rules_runtime(image->config, image->config_length, arena);
        struct image_verdict verdict = { 0 };
        struct image_layered layered = { 0 };
        bool has;

        if (!config || check_digests(image, manifest, &verdict, arena, err) < 0 ||
            check_layers(manifest, config, err) < 0)
                return -1;
        layered.type = verdict.media_type;
        has = has_layer(json_object_get(manifest, "layers"), layer->digest);
        layered.size = verdict.size + (has ? 0 : (int64_t)layer->length);
        if (has && version && strcmp(version, layer->version) == 0) {
                keep_documents(image, verdict.config, arena, &layered);
                *ret = layered;
                return 0;
        }
        if (set_label(config, layer->version, err) < 0)
                return -1;
        if (!has) {
                add_to_config(config, layer);
                json_add(json_object_get(manifest, "layers"), descriptor_of(layer, layered.type));
        }
        write_documents(manifest, config, arena, &layered);
        *ret = layered;
        return 0;
}
