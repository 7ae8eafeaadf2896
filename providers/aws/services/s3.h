/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Amazon S3 (rest-xml, 2006-03-01): one function a call, and one for each answer that is read.
 *
 * The first return a request for aws_call() or aws_step_call(); its texts live in the arena, or are
 * borrowed for as long as the request is used. All but CreateBucket say in
 * x-amz-expected-bucket-owner whose bucket it must be: bucket names are global, and one of ours
 * that another account took first must not get our data (403 then). The functions that read answers
 * take the response's body; what they give lives in the arena.
 */
#ifndef BERTH_PROVIDERS_AWS_SERVICES_S3_H
#define BERTH_PROVIDERS_AWS_SERVICES_S3_H

#include "base/arena.h"
#include "providers/aws/client/aws_client.h"
#include "providers/aws/client/xml.h"
#include "schema/value.h"

#define S3_NAMESPACE "http://s3.amazonaws.com/doc/2006-03-01/"
#define S3_CONTROL_NAMESPACE "http://awss3control.amazonaws.com/doc/2018-08-20/"

struct s3_bucket {
        const char *name;
        const char *account; /* its owner; NULL: not said */
};

/*
 * PUT / with <CreateBucketConfiguration><LocationConstraint>region</...>, which us-east-1 does not take, and <Tags><Tag>... of
 * `tags` (NULL: none), which needs s3:TagResource. 409
 * BucketAlreadyOwnedByYou where it is the caller's already (us-east-1 says 200 then), BucketAlreadyExists where it is
 * another account's, OperationAborted while a bucket of that name is still being deleted.
 */
struct aws_request s3_create_bucket(const struct s3_bucket *bucket, const char *region,
                                    const struct value *tags, struct arena *arena);
/* HEAD /: an error has no body, so its code is that of the status: NotFound. */
struct aws_request s3_head_bucket(const struct s3_bucket *bucket);
/* DELETE /. 409 BucketNotEmpty. */
struct aws_request s3_delete_bucket(const struct s3_bucket *bucket);

/* GET ?tagging -> <Tagging><TagSet><Tag><Key/><Value/>. 404 NoSuchTagSet, NoSuchBucket. */
struct aws_request s3_get_bucket_tagging(const struct s3_bucket *bucket);
int s3_read_tagging(const struct aws_response *response, struct arena *arena, struct value **ret,
                    struct error *err) MUST_USE;
/* GET ?versioning -> <VersioningConfiguration><Status>Enabled, Suspended; none where it never was. *ret: Enabled. */
struct aws_request s3_get_bucket_versioning(const struct s3_bucket *bucket);
int s3_read_versioning(const struct aws_response *response, struct arena *arena, bool *ret,
                       struct error *err) MUST_USE;
/* PUT ?tagging: replaces all tags. `tags`: a map of texts. */
struct aws_request s3_put_bucket_tagging(const struct s3_bucket *bucket, const struct value *tags,
                                         struct arena *arena);

/*
 * S3 Control, of the bucket's ARN in this partition: adds tags, or takes tags away, and leaves the others. Buckets with access control
 * by tags (ABAC) take these alone, and refuse PutBucketTagging ("Enabling ABAC in general purpose buckets").
 * POST /v20180820/tags/{arn} <TagResourceRequest><Tags><Tag>... -> 204.
 */
struct aws_request s3_tag_resource(const struct s3_bucket *bucket, const char *partition,
                                   const struct value *tags, struct arena *arena);
/* DELETE /v20180820/tags/{arn}?tagKeys=... -> 204: some of the keys of `tags`, from *from on, which is moved behind them. */
struct aws_request s3_untag_resource(const struct s3_bucket *bucket, const char *partition,
                                     const struct value *tags, uint32_t *from, struct arena *arena);

/* GET ?encryption. 404 ServerSideEncryptionConfigurationNotFoundError. */
struct aws_request s3_get_bucket_encryption(const struct s3_bucket *bucket);
/*
 * A map: algorithm "AES256", "aws:kms", "aws:kms:dsse"; key, of KMS, as it was set; bucketKey, true
 * where there is one; blocked, a list of texts: the kinds of encryption that no object may come
 * with (SSE-C). What the answer does not name is absent.
 */
int s3_read_encryption(const struct aws_response *response, struct arena *arena, struct value **ret,
                       struct error *err) MUST_USE;
/*
 * PUT ?encryption: new objects are encrypted with this key of KMS, by way of a bucket key, or with S3's own keys (AES256)
 * where `key` is NULL. `blocked` as above, or NULL: the PUT replaces all of the settings.
 */
struct aws_request s3_put_bucket_encryption(const struct s3_bucket *bucket, const char *key,
                                            const struct value *blocked, struct arena *arena);

/* GET ?publicAccessBlock. 404 NoSuchPublicAccessBlockConfiguration. */
struct aws_request s3_get_public_access_block(const struct s3_bucket *bucket);
/* Whether all four settings are on. */
int s3_read_public_access_block(const struct aws_response *response, struct arena *arena, bool *ret,
                                struct error *err) MUST_USE;
/* PUT ?publicAccessBlock: all four on. */
struct aws_request s3_put_public_access_block(const struct s3_bucket *bucket, struct arena *arena);

/* GET ?policy -> the document, JSON. 404 NoSuchBucketPolicy. */
struct aws_request s3_get_bucket_policy(const struct s3_bucket *bucket);
/* PUT ?policy. `text` is borrowed. */
struct aws_request s3_put_bucket_policy(const struct s3_bucket *bucket, const char *text);

/* GET ?lifecycle -> <LifecycleConfiguration><Rule>... 404 NoSuchLifecycleConfiguration. */
struct aws_request s3_get_lifecycle(const struct s3_bucket *bucket);
/* The document, with its rules as they came: the caller's. */
int s3_read_lifecycle(const struct aws_response *response, struct xml_document **ret,
                      struct error *err) MUST_USE;
/*
 * PUT ?lifecycle: replaces all rules; takes no If-Match. `minimum_size` is that of the answer to the GET (a setting of
 * the whole document, which would fall back to S3's default if it were left out), or "". Texts are borrowed.
 */
struct aws_request s3_put_lifecycle(const struct s3_bucket *bucket, const char *text, size_t length,
                                    const char *minimum_size);
/* DELETE ?lifecycle -> 204. */
struct aws_request s3_delete_lifecycle(const struct s3_bucket *bucket);

struct s3_object {
        const char *key;
        const char *etag;    /* with its quotes, as in struct aws_response */
        const char *version; /* of s3_read_versions() only; "null" in a bucket without versions */
        int64_t size;        /* bytes; 0 where the answer has none that can be read */
        int64_t modified_ms; /* LastModified; 0 where the answer has none that can be read */
        bool is_marker;      /* a delete marker: no data */
        bool is_noncurrent;  /* a version that another one, or a delete marker, has taken the place of */
        const char *only;    /* of s3_delete_objects() only: the ETag that it must still have; NULL: any */
};
struct s3_page {
        struct s3_object *objects;
        size_t count;
        const char **prefixes; /* CommonPrefixes, where a delimiter was asked for */
        size_t prefix_count;
        const char *next, *next_version; /* where the next page begins; NULL on the last one */
};

/* GET ?list-type=2&encoding-type=url&prefix= [&continuation-token=], 1,000 objects a page, by key in byte order. */
struct aws_request s3_list_objects(const struct s3_bucket *bucket, const char *prefix, const char *token);
/* One page of at most `limit` behind the key `after` (NULL: from the first on). */
struct aws_request s3_list_objects_after(const struct s3_bucket *bucket, const char *prefix,
                                         const char *after, size_t limit, struct arena *arena);
int s3_read_objects(const struct aws_response *response, struct arena *arena, struct s3_page *ret,
                    struct error *err) MUST_USE;
/* The following pages of s3_list_objects(), for aws_ahead_pages(). */
bool s3_next_objects(const struct aws_response *page, const struct aws_request *first, const char *context,
                     struct arena *arena, struct aws_request *ret);
/*
 * GET ?versions&encoding-type=url&prefix= [&delimiter=] [&key-marker=&version-id-marker=]: every version and delete
 * marker, which in a bucket without versions are just its objects. Keys are encoded since they may hold what XML
 * cannot.
 */
struct aws_request s3_list_versions(const struct s3_bucket *bucket, const char *prefix, const char *delimiter,
                                    const char *key_marker, const char *version_marker);
int s3_read_versions(const struct aws_response *response, struct arena *arena, struct s3_page *ret,
                     struct error *err) MUST_USE;

/* GET /key?tagging [&versionId=]; s3_read_tagging() reads the answer. 404 NoSuchKey, NoSuchVersion. */
struct aws_request s3_get_object_tagging(const struct s3_bucket *bucket, const char *key, const char *version,
                                         struct arena *arena);

/* POST ?delete <Delete><Quiet>true</Quiet><Object><Key/><VersionId/><ETag/></Object>...: 1,000 at most, each s3_is_for_xml(). */
struct aws_request s3_delete_objects(const struct s3_bucket *bucket, const struct s3_object *objects,
                                     size_t count, struct arena *arena);
/* The answer is 200 even where objects stayed: fails with the first of them. */
int s3_read_deleted(const struct aws_response *response, struct arena *arena, struct error *err) MUST_USE;
/*
 * The same for objects that had `only`: *ret are the keys of those that stay since they are other
 * versions now, in the arena. A missing one is as good as deleted.
 */
int s3_read_deleted_but(const struct aws_response *response, struct arena *arena, const char ***ret,
                        size_t *ret_count, struct error *err) MUST_USE;
/* Whether XML can tell of it. One call of DeleteObjects fails for all, where one key has a control character: that goes by s3_delete_object(). */
bool s3_is_for_xml(const char *key);

/* GET /key. 404 NoSuchKey. */
struct aws_request s3_get_object(const struct s3_bucket *bucket, const char *key, struct arena *arena);
/*
 * The same of `length` bytes from `from` on, or as many as there are: 206; of an object that ends before them 416 InvalidRange. With `etag`
 * only of that version: 412.
 */
struct aws_request s3_get_object_part(const struct s3_bucket *bucket, const char *key, uint64_t from,
                                      uint64_t length, const char *etag, struct arena *arena);
/* HEAD /key: an error has no body, so its code is that of the status: NotFound. */
struct aws_request s3_head_object(const struct s3_bucket *bucket, const char *key, struct arena *arena);

/* A PUT of an object whatever its conditions; what is NULL or false is not said. All borrowed. */
struct s3_write {
        const char *key;
        const char *body;
        size_t length;
        const struct aws_file *file; /* in place of them; or NULL */
        const char *content_type;
        const char *if_match; /* as of s3_put_object() */
        bool if_absent;       /* If-None-Match: * */
        const char *tagging;  /* x-amz-tagging: "name=value&..." with each of them encoded */
};
struct aws_request s3_write_object(const struct s3_bucket *bucket, const struct s3_write *write,
                                   struct arena *arena);

/*
 * PUT /key. With `if_match` (an ETag) only over that very version: 412 PreconditionFailed, 404
 * NoSuchKey; without it only if absent (If-None-Match: *): 412. 409 ConditionalRequestConflict
 * where two raced: try again.
 */
struct aws_request s3_put_object(const struct s3_bucket *bucket, const char *key, const char *body,
                                 size_t length, const char *content_type, const char *if_match,
                                 struct arena *arena);
/*
 * PUT /key with x-amz-copy-source: an object of the same bucket under another key, with its tags and all it has. Only if it still is
 * `etag`: 412. The answer may be 200 and yet an error: s3_read_copied().
 */
struct aws_request s3_copy_object(const struct s3_bucket *bucket, const char *from, const char *etag,
                                  const char *to, struct arena *arena);
/* The copy's ETag, in the arena. */
int s3_read_copied(const struct aws_response *response, struct arena *arena, const char **ret_etag,
                   struct error *err) MUST_USE;
/* DELETE /key with If-Match -> 204; 412 PreconditionFailed. */
struct aws_request s3_delete_object(const struct s3_bucket *bucket, const char *key, const char *if_match,
                                    struct arena *arena);

#endif
