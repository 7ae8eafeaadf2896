/* SPDX-License-Identifier: Apache-2.0 */
/* Amazon ECR (JSON 1.1, AmazonEC2ContainerRegistry_V20150921), one function a call; and tags resolved to digests. */
#ifndef BERTH_PROVIDERS_AWS_ECR_H
#define BERTH_PROVIDERS_AWS_ECR_H

#include "providers/aws/body.h"
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

/* An image by name, and what that name means today. */
struct ecr_reference {
        const char *repository; /* in the stack's own registry */
        const char *tag;        /* or NULL where the digest is given */
        const char *digest;     /* given, or NULL */
        /* Results: */
        const char *resolved; /* the digest, where it is an image that Lambda takes; else NULL */
        const char *problem; /* "repository", "missing", "index", "media-type", "denied"; static; else NULL */
        const char *message; /* what was seen, a sentence without its full stop */
};

/*
 * BatchGetImage {repositoryName, imageIds (at most 100), acceptedMediaTypes} -> {images: [{imageId: {imageDigest,
 * imageTag?}, imageManifest, imageManifestMediaType}], failures: [{imageId, failureCode}]}, as few times as can be:
 * once for each repository and hundred of names. What cannot be used is a problem of that reference, not an error.
 */
int ecr_resolve(struct provider *provider, struct ecr_reference *references, size_t count,
                struct arena *arena, struct error *err) MUST_USE;

/* The pure part: what one image of BatchGetImage's answer means for a reference. */
void ecr_judge_manifest(const json_t *image, struct ecr_reference *reference, struct arena *arena);

#endif
