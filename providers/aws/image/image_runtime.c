/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of the image only two documents are read, manifest and configuration, each believed only as far as its digest holds. Its layers
 * stay where they are: the new image is in the same repository, which has them, and what goes there is the runtime's layer, a
 * configuration and a manifest. Of an index of several images the one for linux/amd64 is taken.
 */
#include "providers/aws/image/image_runtime.h"

#include "base/digest.h"
#include "base/json.h"
#include "providers/aws/client/aws_json.h"
#include "providers/aws/image/image_catalog.h"
#include "providers/aws/registry/admission.h"
#include "providers/aws/registry/ecr_uri.h"
#include "providers/aws/services/ecr.h"
#include "providers/image_layer.h"
#include "providers/image_rules.h"

#include <string.h>

#define DOCUMENT_MAX ((size_t)4 << 20)
#define PART_BYTES ((size_t)10 << 20)
#define INDEX_IMAGES_MAX 1000
#define UPLOADS_MAX 3

struct push {
        struct provider *provider;
        struct arena *arena;
        struct ecr_reference image;
        const char *name; /* for people */
        const char *tag;  /* of the result */
        const struct image_layer *layer;
        struct image_documents documents;
};

/* --- reading --- */

static bool has_digest(const char *bytes, size_t length, const char *digest) {
        char hex[SHA256_HEX_SIZE];

        digest_sha256_hex(bytes, length, hex);
        return image_rules_is_digest(digest) && strcmp(digest + strlen("sha256:"), hex) == 0;
}

static int read_manifest(struct push *push, const struct ecr_reference *image, struct error *err) {
        json_t *ids = image->digest ? json_pack("[{s:s}]", "imageDigest", image->digest)
                                    : json_pack("[{s:s}]", "imageTag", image->tag);
        struct aws_request request = ecr_batch_get_image(image->repository, ids, push->arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        const json_t *found;
        const char *text, *digest;

        if (aws_call(push->provider->client, &request, &response, err) < 0)
                return -1;
        found = json_array_get(json_object_get(response.json, "images"), 0);
        text = json_text(found, "imageManifest");
        digest = image->digest ? image->digest : json_text(json_object_get(found, "imageId"), "imageDigest");
        if (!text)
                return error_set_kind(err, ERROR_NOT_FOUND, "%s does not exist: berth images lists what does",
                                      ecr_reference_name(image, push->arena));
        if (!digest || strlen(text) > DOCUMENT_MAX || !has_digest(text, strlen(text), digest))
                return error_set(err, "%s cannot be read: its manifest is not what its digest says",
                                 ecr_reference_name(image, push->arena));
        push->image.resolved = arena_strdup(push->arena, digest);
        push->documents.manifest = arena_strdup(push->arena, text);
        push->documents.manifest_length = strlen(text);
        push->documents.type = arena_strdup(push->arena, json_text(found, "imageManifestMediaType"));
        return 0;
}

static bool is_index(const json_t *manifest, const char *type) {
        if (!type)
                type = json_text(manifest, "mediaType");
        return type ? strcmp(type, image_rules_oci_index) == 0 || strcmp(type, image_rules_docker_list) == 0
                    : json_object_get(manifest, "manifests") != NULL;
}

/* The digest of the one for linux/amd64; NULL if absent, or more than one. */
static const char *choose_amd64(const json_t *index, struct arena *arena) {
        const json_t *list = json_object_get(index, "manifests"), *item;
        const char *found = NULL;
        size_t i;

        if (json_array_size(list) > INDEX_IMAGES_MAX)
                return NULL;
        json_array_foreach (list, i, item) {
                const json_t *platform = json_object_get(item, "platform");
                const char *digest = json_text(item, "digest");

                if (!aws_json_says(platform, "os", "linux") ||
                    !aws_json_says(platform, "architecture", "amd64"))
                        continue;
                if (found || !digest || !image_rules_is_digest(digest))
                        return NULL;
                found = arena_strdup(arena, digest);
        }
        return found;
}

/* An index is followed once: no tool makes one in an index. */
static int read_single(struct push *push, struct error *err) {
        struct ecr_reference inner = { .repository = push->image.repository };
        json_t *manifest JSON_CLEANUP = NULL;

        if (read_manifest(push, &push->image, err) < 0)
                return -1;
        if (json_measure(push->documents.manifest, push->documents.manifest_length).depth > 32)
                return error_set(err, "%s cannot be read: its manifest nests too deep", push->name);
        manifest = json_loadb(push->documents.manifest, push->documents.manifest_length, 0, NULL);
        if (!is_index(manifest, push->documents.type))
                return 0;
        inner.digest = choose_amd64(manifest, push->arena);
        if (!inner.digest)
                return error_set(err, "%s is an index in which not just one image is for linux/amd64",
                                 push->name);
        return read_manifest(push, &inner, err);
}

static int fetch_config(struct push *push, struct error *err) {
        json_t *manifest JSON_CLEANUP =
                json_loadb(push->documents.manifest, push->documents.manifest_length, 0, NULL);
        const char *digest = json_text(json_object_get(manifest, "config"), "digest"), *url;
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT;
        struct aws_request request;

        if (!digest || !image_rules_is_digest(digest))
                return error_set(err, "%s cannot be read: its manifest names no configuration", push->name);
        request = ecr_download_url(push->image.repository, digest, push->arena);
        if (aws_call(push->provider->client, &request, &response, err) < 0)
                return -1;
        url = json_text(response.json, "downloadUrl");
        if (!url)
                return error_set(err, "%s cannot be read: ECR gives no address for its configuration",
                                 push->name);
        if (aws_fetch_presigned(push->provider->client, url, DOCUMENT_MAX, &bytes, err) < 0)
                return error_context(err, "the configuration of %s", push->name);
        push->documents.config = arena_strndup(push->arena, strbuf_text(&bytes), bytes.length);
        push->documents.config_length = bytes.length;
        return 0;
}

/* --- writing --- */

/*
 * Both calls take these for an answer: what comes again, because an answer was lost, ECR does not know any more, or has had. Then a new
 * upload tells: of a blob that did arrive it says that it is there.
 */
static const char *const lost[] = { "UploadNotFoundException", "InvalidLayerPartException", NULL };

/* 1 where the upload is lost. */
static int upload_parts(struct push *push, const char *upload, const char *bytes, size_t length,
                        struct error *err) {
        for (size_t at = 0; at < length; at += PART_BYTES) {
                size_t size = length - at < PART_BYTES ? length - at : PART_BYTES;
                struct arena *part ARENA_CLEANUP = arena_new();
                struct aws_request request =
                        ecr_upload_part(push->image.repository, upload, at, bytes + at, size, part);
                struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;

                if (aws_call_accepting(push->provider->client, &request, lost, &response, err) < 0)
                        return -1;
                if (*response.error_code)
                        return 1;
        }
        return 0;
}

/* ECR works the digest out of what came, and so decides whether that is the blob. 1 where the upload is lost. */
static int complete(struct push *push, const char *id, const char *digest, struct error *err) {
        static const char *const answers[] = { "LayerAlreadyExistsException", "UploadNotFoundException",
                                               NULL };
        struct aws_request request = ecr_complete_upload(push->image.repository, id, digest, push->arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;

        if (aws_call_accepting(push->provider->client, &request, answers, &response, err) < 0)
                return -1;
        if (aws_failed_with_any(&response, lost))
                return 1;
        if (!*response.error_code && !aws_json_says(response.json, "layerDigest", digest))
                return error_set(err, "ECR has kept other bytes than those of %s", digest);
        return 0;
}

static int upload_once(struct push *push, const char *digest, const void *bytes, size_t length,
                       struct error *err) {
        struct aws_request request = ecr_initiate_upload(push->image.repository, push->arena);
        struct aws_response begun AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        const char *id;
        int result;

        if (aws_call(push->provider->client, &request, &begun, err) < 0)
                return -1;
        id = json_text(begun.json, "uploadId");
        if (!id)
                return error_set(err, "ECR gives no id for an upload to %s", push->image.repository);
        result = upload_parts(push, id, bytes, length, err);
        return result != 0 ? result : complete(push, id, digest, err);
}

static int upload(struct push *push, const char *digest, const void *bytes, size_t length,
                  struct error *err) {
        for (int i = 0; i < UPLOADS_MAX; i++) {
                int result = upload_once(push, digest, bytes, length, err);

                if (result <= 0)
                        return result;
        }
        return error_set(err, "ECR forgets what is uploaded to %s", push->image.repository);
}

static int put_image(struct push *push, const struct image_layered *image, struct error *err) {
        static const char *const there[] = { "ImageAlreadyExistsException", NULL };
        struct aws_request request = ecr_put_image(push->image.repository, push->tag, image->type,
                                                   image->manifest, image->manifest_digest, push->arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;

        if (aws_call_accepting(push->provider->client, &request, there, &response, err) < 0) {
                if (aws_failed_with(&response, "ImageTagAlreadyExistsException"))
                        return error_set(
                                err,
                                "tags of %s are immutable: name another one for the new image: berth "
                                "image runtime %s TAG --push",
                                push->image.repository, push->name);
                return -1;
        }
        return 0;
}

static void fill_row(const struct push *push, const struct image_layered *image, struct image_row *ret) {
        *ret = (struct image_row){ .repository = push->image.repository,
                                   .tags = arena_array(push->arena, 1, sizeof(*ret->tags)),
                                   .tag_count = 1,
                                   .digest = image->manifest_digest,
                                   .size = image->size,
                                   .media_type = image->type,
                                   .runtime = push->layer->version,
                                   .platform = "linux/amd64" };
        ret->tags[0] = push->tag;
        if (image->same)
                ret->note = "it had this runtime already";
}

int image_runtime_push(struct provider *provider, const struct image_runtime_request *request,
                       struct arena *arena, struct image_row *ret, struct error *err) {
        struct push push = {
                .provider = provider, .arena = arena, .name = request->reference, .layer = request->layer
        };
        struct image_layered image;

        if (image_reference_parse(provider, request->reference, arena, &push.image, err) < 0)
                return -1;
        push.tag = request->tag ? request->tag : push.image.tag;
        if (!push.tag)
                return error_set(err,
                                 "%s is a digest: say under which tag the new image is pushed: berth image "
                                 "runtime %s TAG --push",
                                 request->reference, request->reference);
        if (!image_rules_is_tag(push.tag))
                return error_set(err, "\"%s\" is no tag", push.tag);
        if (ecr_registry_in_front(push.image.repository) > 0)
                return error_set(err,
                                 "%s is in another account's registry, which Berth only reads: do it there",
                                 request->reference);
        if (read_single(&push, err) < 0 || fetch_config(&push, err) < 0)
                return -1;
        if (image_layer_add(&push.documents, push.layer, arena, &image, err) < 0)
                return error_context(err, "%s", request->reference);
        if (!image.same &&
            (upload(&push, push.layer->digest, push.layer->bytes, push.layer->length, err) < 0 ||
             upload(&push, image.config_digest, image.config, strlen(image.config), err) < 0))
                return -1;
        if (put_image(&push, &image, err) < 0)
                return -1;
        fill_row(&push, &image, ret);
        return 0;
}
