/* SPDX-License-Identifier: Apache-2.0 */
/* Amazon ECR (JSON 1.1, AmazonEC2ContainerRegistry_V20150921), one function a call. */
#ifndef BERTH_PROVIDERS_AWS_SERVICES_ECR_H
#define BERTH_PROVIDERS_AWS_SERVICES_ECR_H

#include "providers/aws/client/aws_json.h"

/*
 * A repository of another registry is named with that one in front: "111122223333.dkr.ecr.eu-west-1.amazonaws.com/team/tool".
 * ecr_batch_get_image(), ecr_download_url() and ecr_describe_images() turn it into registryId and repositoryName. The others
 * do not: what changes anything is only ever sent to the stack's own registry, which has no repository of such a name.
 */
size_t ecr_registry_in_front(const char *repository); /* its length; 0: none */

/* DescribeRepositories {maxResults 1000[, nextToken]} -> {repositories: [{repositoryName, repositoryArn,
 * imageTagMutability, imageTagMutabilityExclusionFilters?, imageScanningConfiguration: {scanOnPush}}], nextToken?} */
struct aws_request ecr_describe_repositories(const char *token, struct arena *arena);
/* Its following pages, and those of ecr_describe_images(), for aws_ahead_pages(). */
bool ecr_next_page(const struct aws_response *page, const struct aws_request *first, const char *context,
                   struct arena *arena, struct aws_request *ret);
/*
 * DescribeRepositories {repositoryNames: [repository]}: RepositoryNotFoundException if there is
 * none.
 */
struct aws_request ecr_describe_repository(const char *repository, struct arena *arena);
/* Which tags can be moved: a boolean, and with true a list of those that can nevertheless, or NULL. Both NULL: as it is. */
struct ecr_mutability {
        const struct value *immutable_tags, *mutable_tags;
};

/* CreateRepository {repositoryName, tags, imageScanningConfiguration?, imageTagMutability?,
 * imageTagMutabilityExclusionFilters?}; RepositoryAlreadyExistsException. */
struct aws_request ecr_create_repository(const char *repository, const struct value *tags,
                                         const struct value *scan_on_push, struct ecr_mutability mutability,
                                         struct arena *arena);
/* DeleteRepository {repositoryName}, never with force: RepositoryNotEmptyException where it holds an image. */
struct aws_request ecr_delete_repository(const char *repository, struct arena *arena);
/* PutImageScanningConfiguration {repositoryName, imageScanningConfiguration: {scanOnPush}} */
struct aws_request ecr_put_scanning(const char *repository, bool scan_on_push, struct arena *arena);
/* PutImageTagMutability {repositoryName, imageTagMutability: MUTABLE | IMMUTABLE}, or IMMUTABLE_WITH_EXCLUSION and
 * imageTagMutabilityExclusionFilters: [{filterType: WILDCARD, filter}] */
struct aws_request ecr_put_mutability(const char *repository, struct ecr_mutability mutability,
                                      struct arena *arena);
/* Of DescribeRepositories' answer. False: tags can be moved. *ret_mutable_tags: the exceptions, in the arena; NULL: no exceptions. */
bool ecr_read_mutability(const json_t *repository, struct arena *arena,
                         const struct value **ret_mutable_tags);
/* GetLifecyclePolicy {repositoryName} -> {lifecyclePolicyText}: LifecyclePolicyNotFoundException. */
struct aws_request ecr_get_lifecycle_policy(const char *repository, struct arena *arena);
/* PutLifecyclePolicy {repositoryName, lifecyclePolicyText}: replaces the whole. */
struct aws_request ecr_put_lifecycle_policy(const char *repository, const char *policy, struct arena *arena);
/* DeleteLifecyclePolicy {repositoryName}: LifecyclePolicyNotFoundException. */
struct aws_request ecr_delete_lifecycle_policy(const char *repository, struct arena *arena);
/* ListTagsForResource {resourceArn} -> {tags: [{Key, Value}]} */
struct aws_request ecr_list_tags(const char *arn, struct arena *arena);
/* TagResource {resourceArn, tags: [{Key, Value}]} */
struct aws_request ecr_tag(const char *arn, const struct value *tags, struct arena *arena);
/* UntagResource {resourceArn, tagKeys} */
struct aws_request ecr_untag(const char *arn, const struct value *keys, struct arena *arena);
/* ListImages {repositoryName, maxResults 1} -> {imageIds: [...]}: whether it holds any. */
struct aws_request ecr_list_one_image(const char *repository, struct arena *arena);

/*
 * BatchGetImage {repositoryName, imageIds (at most 100), acceptedMediaTypes} -> {images: [{imageId: {imageDigest,
 * imageTag?}, imageManifest, imageManifestMediaType}], failures: [{imageId, failureCode}]}: `ids` is taken.
 */
struct aws_request ecr_batch_get_image(const char *repository, json_t *ids, struct arena *arena);
/* BatchDeleteImage {repositoryName, imageIds} -> {imageIds, failures: [{failureCode}]}: `ids` is taken. An image whose last tag goes, goes. */
struct aws_request ecr_batch_delete_image(const char *repository, json_t *ids, struct arena *arena);
/* GetDownloadUrlForLayer {repositoryName, layerDigest} -> {downloadUrl}: a presigned URL, of any blob. */
struct aws_request ecr_download_url(const char *repository, const char *digest, struct arena *arena);
/* DescribeImages {repositoryName, maxResults 1000[, nextToken]} -> {imageDetails: [{imageDigest, imageTags?,
 * imagePushedAt (seconds), imageSizeInBytes, imageManifestMediaType}], nextToken?} */
struct aws_request ecr_describe_images(const char *repository, const char *token, struct arena *arena);

/*
 * Pushing, by ECR's own API. InitiateLayerUpload {repositoryName} -> {uploadId, partSize}; UploadLayerPart {repositoryName, uploadId,
 * partFirstByte, partLastByte, layerPartBlob}, one after the other, each but the last of 5 MiB and more, 10 MiB at most;
 * CompleteLayerUpload {repositoryName, uploadId, layerDigests} -> {layerDigest}: LayerAlreadyExistsException where the repository has
 * it, InvalidLayerException where it has another digest. Configurations are uploaded as layers are.
 */
struct aws_request ecr_initiate_upload(const char *repository, struct arena *arena);
struct aws_request ecr_upload_part(const char *repository, const char *upload, size_t first,
                                   const void *bytes, size_t length, struct arena *arena);
struct aws_request ecr_complete_upload(const char *repository, const char *upload, const char *digest,
                                       struct arena *arena);
/*
 * PutImage {repositoryName, imageManifest, imageManifestMediaType, imageTag, imageDigest} -> {image: {imageId}}:
 * ImageAlreadyExistsException where this tag names these bytes, ImageTagAlreadyExistsException where tags are immutable,
 * LayersNotFoundException, ImageDigestDoesNotMatchException.
 */
struct aws_request ecr_put_image(const char *repository, const char *tag, const char *type,
                                 const char *manifest, const char *digest, struct arena *arena);

#endif
