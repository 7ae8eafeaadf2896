/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/images/image_prepare.h"

#include "base/files.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "providers/local/images/image_source.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* What Docker's drivers take. */
#define LAYERS_MAX 127

struct import {
        struct arena *arena;
        const struct local_reference *name;
        struct image_store *store;
        struct image_source source;
        struct image_source_manifest manifest;
        struct image_verdict verdict;
        json_t *document; /* the manifest's */
        json_t *config;
        struct unpack_tally tally;
        bool present; /* it was unpacked by an earlier import */
};

static void end_prepare(struct import *import) {
        image_source_close(&import->source);
        json_decref(import->document);
        json_decref(import->config);
}

static int read_manifest(struct import *import, struct error *err) {
        struct image_source_manifest *manifest = &import->manifest;

        if (image_source_manifest(&import->source, import->name->repository, import->name->tag, import->arena,
                                  manifest, err) < 0)
                return -1;
        import->document = json_loadb(manifest->bytes, manifest->length, JSON_REJECT_DUPLICATES, NULL);
        image_rules_judge_manifest(import->document, manifest->type, &import->verdict, import->arena);
        if (import->verdict.problem)
                return 0;
        if (!json_is_object(import->document))
                return error_set(err, "its manifest is no JSON object");
        return image_store_stage_bytes(import->store, manifest->bytes, manifest->length, manifest->digest,
                                       err);
}

/* Copies what a descriptor names into the store. */
static int stage(struct import *import, const json_t *descriptor, uint64_t size_max, struct error *err) {
        const char *digest = json_text(descriptor, "digest");
        json_int_t size = json_integer_or(descriptor, "size", -1);
        int blob DESCRIPTOR_CLEANUP = -1;

        if (!digest || !image_rules_is_digest(digest))
                return error_set(err, "it is named by no digest of SHA-256");
        if (size < 0 || (uint64_t)size > size_max)
                return error_set(err, "a size of %lld bytes is said of it, and at most %" PRIu64 " are taken",
                                 (long long)size, size_max);
        if (image_source_blob(&import->source, digest, &blob, err) < 0)
                return -1;
        return image_store_stage(import->store, blob, digest, (uint64_t)size, err);
}

static int stage_config(struct import *import, struct error *err) {
        const json_t *descriptor = json_object_get(import->document, "config");
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        int file DESCRIPTOR_CLEANUP = -1;

        if (stage(import, descriptor, IMAGE_SOURCE_JSON_MAX, err) < 0)
                return error_context(err, "configuration");
        file = image_store_blob(import->store, json_text(descriptor, "digest"));
        if (file < 0 || descriptor_read(file, IMAGE_SOURCE_JSON_MAX, &text) != 0)
                return error_set(err, "configuration: it cannot be read back: %s", strerror(errno));
        image_rules_judge_config(strbuf_text(&text), text.length, &import->verdict, import->arena);
        if (import->verdict.problem)
                return 0;
        import->config = json_loadb(strbuf_text(&text), text.length, 0, NULL);
        return 0;
}

/* Tars, plain or compressed; not those that are encrypted, nor what charts and the like put there. */
static bool is_layer_type(const char *type) {
        static const char *const types[] = {
                "application/vnd.oci.image.layer.v1.tar",
                "application/vnd.oci.image.layer.v1.tar+gzip",
                "application/vnd.oci.image.layer.v1.tar+zstd",
                "application/vnd.oci.image.layer.nondistributable.v1.tar",
                "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
                "application/vnd.oci.image.layer.nondistributable.v1.tar+zstd",
                "application/vnd.docker.image.rootfs.diff.tar",
                "application/vnd.docker.image.rootfs.diff.tar.gzip",
                "application/vnd.docker.image.rootfs.diff.tar.zstd",
                "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
        };

        for (size_t i = 0; type && i < sizeof(types) / sizeof(types[0]); i++) {
                if (strcmp(type, types[i]) == 0)
                        return true;
        }
        return false;
}

static int stage_layer(struct import *import, const json_t *layer, struct error *err) {
        const char *type = json_text(layer, "mediaType");

        if (!is_layer_type(type))
                return error_set(err, "its media type %s is not that of a layer", type ? type : "(none)");
        return stage(import, layer, IMAGE_RULES_SIZE_MAX, err);
}

static int unpack_layer(struct import *import, struct unpack *unpack, const json_t *layer, size_t number,
                        struct error *err) {
        const json_t *ids = json_object_get(json_object_get(import->config, "rootfs"), "diff_ids");
        const char *diff_id = json_string_value(json_array_get(ids, number));
        int blob DESCRIPTOR_CLEANUP = -1;

        if (!diff_id)
                return error_set(err, "its configuration gives it no diff_id");
        blob = image_store_blob(import->store, json_text(layer, "digest"));
        return image_unpack_layer(unpack, blob, number == 0, diff_id, err);
}

static int take_layers(struct import *import, struct unpack *unpack, struct error *err) {
        const json_t *layers = json_object_get(import->document, "layers"), *layer;
        const json_t *ids = json_object_get(json_object_get(import->config, "rootfs"), "diff_ids");
        size_t count = json_array_size(layers), i;

        if (count == 0 || count > LAYERS_MAX)
                return error_set(err, "it has %zu layers, and 1 to %d are taken", count, LAYERS_MAX);
        if (json_array_size(ids) != count)
                return error_set(err, "its configuration speaks of %zu layers, its manifest of %zu",
                                 json_array_size(ids), count);
        json_array_foreach (layers, i, layer) {
                const char *digest = json_text(layer, "digest");

                if (stage_layer(import, layer, err) < 0 ||
                    (!import->present && unpack_layer(import, unpack, layer, i, err) < 0))
                        return err->kind == ERROR_INTERRUPTED
                                       ? -1
                                       : error_context(err, "layer %zu of %zu (%s)", i + 1, count,
                                                       digest && image_rules_is_digest(digest) ? digest
                                                                                               : "no digest");
        }
        return 0;
}

static int take_content(struct import *import, struct error *err) {
        struct unpack unpack = { .root = import->store->root, .limits = unpack_limits_default };

        import->present = image_store_has(import->store, import->manifest.digest);
        if (take_layers(import, &unpack, err) < 0)
                return -1;
        if (!import->present && image_unpack_finish(&unpack, err) < 0)
                return -1;
        import->tally = unpack.tally;
        return 0;
}

int image_prepare(struct image_store *store, int given, const char *path, const struct local_reference *name,
                  struct arena *arena, struct image_prepared *ret, struct error *err) {
        struct import import __attribute__((cleanup(end_prepare))) = {
                .arena = arena,
                .name = name,
                .store = store,
                .source = IMAGE_SOURCE_INIT,
        };

        if (image_source_open(given, path, store->archive, &import.source, err) < 0)
                return -1;
        if (read_manifest(&import, err) < 0 || (!import.verdict.problem && stage_config(&import, err) < 0) ||
            (!import.verdict.problem && take_content(&import, err) < 0))
                return err->kind == ERROR_INTERRUPTED ? -1 : error_context(err, "%s", path);
        *ret = (struct image_prepared){
                .digest = import.manifest.digest,
                .present = import.present,
                .verdict = import.verdict,
                .tally = import.tally,
        };
        return 0;
}
