/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts in requests come from manifests, which the schema has checked, or out of JSON that was read: both are UTF-8, which
 * json_pack() needs. Manifests are asked for in every form that a repository may hold, so that each comes as it was pushed: the
 * verdict must be on the bytes that the digest names.
 */
#include "providers/aws/services/ecr.h"

#include "base/digest.h"
#include "base/json.h"
#include "base/text.h"
#include "providers/image_rules.h"

#include <string.h>

#define ACCOUNT_LENGTH 12 /* digits, by which a registry is named in requests */

/* Schema 1, which nothing runs any more: asked for, so that the verdict can say so. */
static const char docker_v1[] = "application/vnd.docker.distribution.manifest.v1+prettyjws";

/* A call about one repository; the reference to `more`, its other members, is taken. */
static struct aws_request on_repository(const char *operation, const char *repository, json_t *more,
                                        struct arena *arena) {
        json_t *body = json_pack("{s:s}", "repositoryName", repository);

        if (more) {
                json_object_update(body, more);
                json_decref(more);
        }
        return aws_json_request(AWS_ECR, operation, body, arena);
}

size_t ecr_registry_in_front(const char *repository) {
        const char *slash = strchr(repository, '/');

        if (!slash || strspn(repository, "0123456789") != ACCOUNT_LENGTH ||
            !text_begins_with(repository + ACCOUNT_LENGTH, ".dkr.ecr."))
                return 0;
        return (size_t)(slash - repository);
}

/* The same of a call that only reads, and so may be about another registry. */
static struct aws_request read_repository(const char *operation, const char *repository, json_t *more,
                                          struct arena *arena) {
        size_t length = ecr_registry_in_front(repository);

        if (length == 0)
                return on_repository(operation, repository, more, arena);
        json_object_set_new(more, "registryId", json_stringn(repository, ACCOUNT_LENGTH));
        return on_repository(operation, repository + length + 1, more, arena);
}

struct aws_request ecr_describe_repositories(const char *token, struct arena *arena) {
        json_t *body = json_pack("{s:i}", "maxResults", 1000);

        json_set_text(body, "nextToken", token);
        return aws_json_request(AWS_ECR, "DescribeRepositories", body, arena);
}

bool ecr_next_page(const struct aws_response *page, const struct aws_request *first, const char *context,
                   struct arena *arena, struct aws_request *ret) {
        (void)context;
        return aws_json_next(page, first, "nextToken", arena, ret);
}

struct aws_request ecr_describe_repository(const char *repository, struct arena *arena) {
        return aws_json_request(AWS_ECR, "DescribeRepositories",
                                json_pack("{s:[s]}", "repositoryNames", repository), arena);
}

static void put_mutability(json_t *body, struct ecr_mutability wanted) {
        const struct value *tags = wanted.mutable_tags;
        bool immutable = wanted.immutable_tags && wanted.immutable_tags->boolean;
        bool excepting = immutable && tags && tags->type == VALUE_LIST && tags->count > 0;
        json_t *filters;

        if (!wanted.immutable_tags)
                return;
        json_set_text(body, "imageTagMutability",
                      excepting   ? "IMMUTABLE_WITH_EXCLUSION"
                      : immutable ? "IMMUTABLE"
                                  : "MUTABLE");
        if (!excepting)
                return;
        filters = json_array();
        for (uint32_t i = 0; i < tags->count; i++)
                json_add(filters, json_pack("{s:s, s:s}", "filterType", "WILDCARD", "filter",
                                            value_text_of(&tags->items[i])));
        json_put(body, "imageTagMutabilityExclusionFilters", filters);
}

/* With exceptions it is still immutable. Those to MUTABLE (MUTABLE_WITH_EXCLUSION) no manifest can name. */
bool ecr_read_mutability(const json_t *repository, struct arena *arena,
                         const struct value **ret_mutable_tags) {
        const char *mutability = json_text(repository, "imageTagMutability");
        bool immutable = mutability && strncmp(mutability, "IMMUTABLE", 9) == 0;
        struct value *tags = value_new_list(arena);
        const json_t *filter;
        size_t i;

        json_array_foreach (json_object_get(repository, "imageTagMutabilityExclusionFilters"), i, filter) {
                const char *text = json_text(filter, "filter");

                if (text && immutable)
                        value_append(arena, tags, value_text(arena, text));
        }
        *ret_mutable_tags = tags->count > 0 ? tags : NULL;
        return immutable;
}

struct aws_request ecr_create_repository(const char *repository, const struct value *tags,
                                         const struct value *scan_on_push, struct ecr_mutability mutability,
                                         struct arena *arena) {
        json_t *body = json_pack("{s:s, s:o}", "repositoryName", repository, "tags", aws_json_tag_list(tags));

        if (scan_on_push)
                json_object_set_new(body, "imageScanningConfiguration",
                                    json_pack("{s:b}", "scanOnPush", scan_on_push->boolean));
        put_mutability(body, mutability);
        return aws_json_request(AWS_ECR, "CreateRepository", body, arena);
}

struct aws_request ecr_delete_repository(const char *repository, struct arena *arena) {
        return on_repository("DeleteRepository", repository, NULL, arena);
}

struct aws_request ecr_put_scanning(const char *repository, bool scan_on_push, struct arena *arena) {
        return on_repository("PutImageScanningConfiguration", repository,
                             json_pack("{s:{s:b}}", "imageScanningConfiguration", "scanOnPush", scan_on_push),
                             arena);
}

struct aws_request ecr_put_mutability(const char *repository, struct ecr_mutability mutability,
                                      struct arena *arena) {
        json_t *body = json_object();

        put_mutability(body, mutability);
        return on_repository("PutImageTagMutability", repository, body, arena);
}

struct aws_request ecr_get_lifecycle_policy(const char *repository, struct arena *arena) {
        return on_repository("GetLifecyclePolicy", repository, NULL, arena);
}

struct aws_request ecr_put_lifecycle_policy(const char *repository, const char *policy, struct arena *arena) {
        return on_repository("PutLifecyclePolicy", repository,
                             json_pack("{s:s}", "lifecyclePolicyText", policy), arena);
}

struct aws_request ecr_delete_lifecycle_policy(const char *repository, struct arena *arena) {
        return on_repository("DeleteLifecyclePolicy", repository, NULL, arena);
}

struct aws_request ecr_list_tags(const char *arn, struct arena *arena) {
        return aws_json_request(AWS_ECR, "ListTagsForResource", json_pack("{s:s}", "resourceArn", arn),
                                arena);
}

struct aws_request ecr_tag(const char *arn, const struct value *tags, struct arena *arena) {
        return aws_json_request(AWS_ECR, "TagResource",
                                json_pack("{s:s, s:o}", "resourceArn", arn, "tags", aws_json_tag_list(tags)),
                                arena);
}

struct aws_request ecr_untag(const char *arn, const struct value *keys, struct arena *arena) {
        return aws_json_request(AWS_ECR, "UntagResource",
                                json_pack("{s:s, s:o}", "resourceArn", arn, "tagKeys", aws_json_keys(keys)),
                                arena);
}

struct aws_request ecr_list_one_image(const char *repository, struct arena *arena) {
        return on_repository("ListImages", repository, json_pack("{s:i}", "maxResults", 1), arena);
}

struct aws_request ecr_batch_get_image(const char *repository, json_t *ids, struct arena *arena) {
        return read_repository("BatchGetImage", repository,
                               json_pack("{s:o, s:[s,s,s,s,s]}", "imageIds", ids, "acceptedMediaTypes",
                                         image_rules_oci_manifest, image_rules_docker_manifest,
                                         image_rules_oci_index, image_rules_docker_list, docker_v1),
                               arena);
}

struct aws_request ecr_batch_delete_image(const char *repository, json_t *ids, struct arena *arena) {
        return on_repository("BatchDeleteImage", repository, json_pack("{s:o}", "imageIds", ids), arena);
}

struct aws_request ecr_download_url(const char *repository, const char *digest, struct arena *arena) {
        return read_repository("GetDownloadUrlForLayer", repository,
                               json_pack("{s:s}", "layerDigest", digest), arena);
}

static struct aws_request page_of(const char *operation, const char *repository, int size, const char *token,
                                  struct arena *arena) {
        json_t *body = json_pack("{s:i}", "maxResults", size);

        json_set_text(body, "nextToken", token);
        return read_repository(operation, repository, body, arena);
}

struct aws_request ecr_describe_images(const char *repository, const char *token, struct arena *arena) {
        return page_of("DescribeImages", repository, 1000, token, arena);
}

/* --- pushing an image --- */

struct aws_request ecr_initiate_upload(const char *repository, struct arena *arena) {
        return on_repository("InitiateLayerUpload", repository, NULL, arena);
}

struct aws_request ecr_upload_part(const char *repository, const char *upload, size_t first,
                                   const void *bytes, size_t length, struct arena *arena) {
        char *text = arena_alloc(arena, 4 * ((length + 2) / 3) + 1);

        digest_base64(bytes, length, text);
        return on_repository("UploadLayerPart", repository,
                             json_pack("{s:s, s:I, s:I, s:s}", "uploadId", upload, "partFirstByte",
                                       (json_int_t)first, "partLastByte", (json_int_t)(first + length - 1),
                                       "layerPartBlob", text),
                             arena);
}

struct aws_request ecr_complete_upload(const char *repository, const char *upload, const char *digest,
                                       struct arena *arena) {
        return on_repository("CompleteLayerUpload", repository,
                             json_pack("{s:s, s:[s]}", "uploadId", upload, "layerDigests", digest), arena);
}

struct aws_request ecr_put_image(const char *repository, const char *tag, const char *type,
                                 const char *manifest, const char *digest, struct arena *arena) {
        return on_repository("PutImage", repository,
                             json_pack("{s:s, s:s, s:s, s:s}", "imageManifest", manifest,
                                       "imageManifestMediaType", type, "imageTag", tag, "imageDigest",
                                       digest),
                             arena);
}
