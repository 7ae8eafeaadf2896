/* SPDX-License-Identifier: Apache-2.0 */
/* Amazon ECR (JSON 1.1, AmazonEC2ContainerRegistry_V20150921), one function a call; and tags resolved to digests. */
#ifndef BERTH_PROVIDERS_AWS_ECR_H
#define BERTH_PROVIDERS_AWS_ECR_H

#include "providers/aws/client/body.h"
#include "providers/aws/provider_aws.h"

/* "{account}.dkr.ecr.{region}.amazonaws.com": the stack's own registry. */
const char *ecr_registry(const struct provider *provider, struct arena *arena);
const char *ecr_repository_arn(const struct provider *provider, const char *repository, struct arena *arena);

/* "REGISTRY/REPOSITORY[:TAG][@sha256:HEX]" */
struct ecr_uri {
        const char *repository; /* with its registry in front where that is not the stack's own */
        const char *tag;        /* or NULL */
        const char *digest;     /* "sha256:" and 64 hex digits, or NULL */
};
bool ecr_uri_parse(const struct provider *provider, const char *uri, struct arena *arena,
                   struct ecr_uri *ret);

/* DescribeRepositories {maxResults 1000[, nextToken]} -> {repositories: [{repositoryName, repositoryArn,
 * imageTagMutability, imageScanningConfiguration: {scanOnPush}}], nextToken?} */
struct aws_request ecr_describe_repositories(const char *token, struct arena *arena);
/* DescribeRepositories {repositoryNames: [repository]}: RepositoryNotFoundException where there is none. */
struct aws_request ecr_describe_repository(const char *repository, struct arena *arena);
/* CreateRepository {repositoryName, tags, imageScanningConfiguration?, imageTagMutability?};
 * RepositoryAlreadyExistsException. */
struct aws_request ecr_create_repository(const char *repository, const struct value *tags,
                                         const struct value *scan_on_push, const struct value *immutable_tags,
                                         struct arena *arena);
/* DeleteRepository {repositoryName}, never with force: RepositoryNotEmptyException where it holds an image. */
struct aws_request ecr_delete_repository(const char *repository, struct arena *arena);
/* PutImageScanningConfiguration {repositoryName, imageScanningConfiguration: {scanOnPush}} */
struct aws_request ecr_put_scanning(const char *repository, bool scan_on_push, struct arena *arena);
/* PutImageTagMutability {repositoryName, imageTagMutability: IMMUTABLE | MUTABLE} */
struct aws_request ecr_put_mutability(const char *repository, bool immutable, struct arena *arena);
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
/* GetDownloadUrlForLayer {repositoryName, layerDigest} -> {downloadUrl}: a presigned URL, of any blob. */
struct aws_request ecr_download_url(const char *repository, const char *digest, struct arena *arena);
/* DescribeImages {repositoryName, maxResults 1000[, nextToken]} -> {imageDetails: [{imageDigest, imageTags?,
 * imagePushedAt (seconds), imageSizeInBytes, imageManifestMediaType}], nextToken?} */
struct aws_request ecr_describe_images(const char *repository, const char *token, struct arena *arena);
/* StartLifecyclePolicyPreview {repositoryName, lifecyclePolicyText}: changes nothing; one at a time, else
 * LifecyclePolicyPreviewInProgressException. */
struct aws_request ecr_start_preview(const char *repository, const char *policy, struct arena *arena);
/* GetLifecyclePolicyPreview {repositoryName, maxResults 100[, nextToken]} -> {status: IN_PROGRESS | COMPLETE | EXPIRED |
 * FAILED, previewResults: [{imageDigest, action: {type: EXPIRE}}], nextToken?} */
struct aws_request ecr_get_preview(const char *repository, const char *token, struct arena *arena);

/* An image by name, what that name means today, and what stands behind it. Texts are static, or in the arena. */
struct ecr_reference {
        const char *repository; /* in the stack's own registry */
        const char *tag;        /* or NULL where the digest is given */
        const char *digest;     /* given, or NULL */
        bool watched; /* nobody needs the answer: a call that fails for watched ones only is no error */
        /* Results: */
        const char
                *resolved; /* the digest that the name leads to, of use or not; NULL where it leads nowhere */
        const char *problem; /* "repository", "missing", "denied", "unread", or of the digest itself: "index",
                                 "media-type", "size", "platform"; NULL: none known */
        const char *seen; /* of the digest itself: what was seen, to follow a name ("is an index of ...") */
        const char *message;               /* the problem as a sentence without its full stop */
        const char *media_type, *platform; /* "linux/amd64"; NULL where not known */
        const char *config;                /* the digest of the configuration */
        int64_t size;                      /* of the layers, as they are stored */
};

/* "REPOSITORY:TAG" or "REPOSITORY@DIGEST" of a reference. */
const char *ecr_reference_name(const struct ecr_reference *reference, struct arena *arena);
/* Sets a problem of the digest itself, and the message that follows from it. `problem` is static. */
void ecr_reference_refuse(struct ecr_reference *reference, const char *problem, const char *seen,
                          struct arena *arena);

/*
 * BatchGetImage as few times as can be: once for each repository and hundred of names. What cannot be used is a problem
 * of that reference, not an error. admission.h goes on from here.
 */
int ecr_resolve(struct provider *provider, struct ecr_reference *references, size_t count,
                struct arena *arena, struct error *err) MUST_USE;

#endif
