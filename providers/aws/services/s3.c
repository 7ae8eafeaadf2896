/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Configuration documents are small and replaced whole: each is sent with a checksum, which S3 demands of them, and signed
 * with the hash of its body.
 */
#include "providers/aws/services/s3.h"

#include "base/array.h"
#include "base/text.h"
#include "providers/aws/client/aws_xml_answer.h"
#include "providers/aws/client/encode.h"
#include "providers/aws/client/xml.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A request of this file has four headers at the most; AWS_HEADERS_MAX are more. */
static void add_header(struct aws_request *request, const char *name, const char *value) {
        size_t i = 0;

        while (request->headers[i].name)
                i++;
        request->headers[i] = (struct aws_query){ name, value };
}

static struct aws_request s3_request(const struct s3_bucket *bucket, const char *operation,
                                     const char *method, const char *path) {
        struct aws_request request = { .service = AWS_S3,
                                       .operation = operation,
                                       .method = method,
                                       .path = path,
                                       .bucket = bucket->name };

        if (bucket->account)
                add_header(&request, "x-amz-expected-bucket-owner", bucket->account);
        return request;
}

/* A request about a setting of the bucket: ?tagging, ?policy ... */
static struct aws_request setting(const struct s3_bucket *bucket, const char *operation, const char *method,
                                  const char *name) {
        struct aws_request request = s3_request(bucket, operation, method, "/");

        request.query[0] = (struct aws_query){ name, NULL };
        return request;
}

static void set_text_body(struct aws_request *request, const char *text, size_t length, const char *type) {
        request->body = text;
        request->body_length = length;
        request->content_type = type;
        request->checksum = true;
}

static void set_xml_body(struct aws_request *request, struct xml_document *document, struct arena *arena) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        xml_write(document, &text);
        set_text_body(request, arena_strndup(arena, strbuf_text(&text), text.length), text.length,
                      "application/xml");
}

static void put_tags(struct xml_node *set, const struct value *tags) {
        for (uint32_t i = 0; tags && i < tags->count; i++) {
                struct xml_node *tag = xml_add(set, "Tag", NULL);

                xml_add(tag, "Key", tags->members[i].name);
                xml_add(tag, "Value", value_text_of(&tags->members[i].value));
        }
}

struct aws_request s3_create_bucket(const struct s3_bucket *bucket, const char *region,
                                    const struct value *tags, struct arena *arena) {
        const struct s3_bucket unowned = { .name = bucket->name };
        struct aws_request request = s3_request(&unowned, "CreateBucket", "PUT", "/");
        bool away = strcmp(region, "us-east-1") != 0, tagged = tags && tags->count > 0;
        struct xml_document *document XML_CLEANUP = NULL;

        if (!away && !tagged)
                return request;
        document = xml_new("CreateBucketConfiguration", S3_NAMESPACE);
        if (away)
                xml_add(xml_root(document), "LocationConstraint", region);
        if (tagged)
                put_tags(xml_add(xml_root(document), "Tags", NULL), tags);
        set_xml_body(&request, document, arena);
        request.checksum = false;
        return request;
}

struct aws_request s3_head_bucket(const struct s3_bucket *bucket) {
        return s3_request(bucket, "HeadBucket", "HEAD", "/");
}

struct aws_request s3_delete_bucket(const struct s3_bucket *bucket) {
        return s3_request(bucket, "DeleteBucket", "DELETE", "/");
}

struct aws_request s3_get_bucket_tagging(const struct s3_bucket *bucket) {
        return setting(bucket, "GetBucketTagging", "GET", "tagging");
}

int s3_read_tagging(const struct aws_response *response, struct arena *arena, struct value **ret,
                    struct error *err) {
        struct xml_document *document XML_CLEANUP = NULL;

        if (aws_answer_xml(response, "s3 GetBucketTagging", "Tagging", &document, err) < 0)
                return -1;
        *ret = aws_tags_from_xml(xml_child(xml_root(document), "TagSet"), "Tag", arena);
        return 0;
}

struct aws_request s3_get_bucket_versioning(const struct s3_bucket *bucket) {
        return setting(bucket, "GetBucketVersioning", "GET", "versioning");
}

int s3_read_versioning(const struct aws_response *response, struct arena *arena, bool *ret,
                       struct error *err) {
        struct xml_document *document XML_CLEANUP = NULL;
        const char *status;

        if (aws_answer_xml(response, "s3 GetBucketVersioning", "VersioningConfiguration", &document, err) < 0)
                return -1;
        status = xml_text(xml_root(document), "Status", arena);
        *ret = status && strcmp(status, "Enabled") == 0;
        return 0;
}

struct aws_request s3_put_bucket_tagging(const struct s3_bucket *bucket, const struct value *tags,
                                         struct arena *arena) {
        struct aws_request request = setting(bucket, "PutBucketTagging", "PUT", "tagging");
        struct xml_document *document XML_CLEANUP = xml_new("Tagging", S3_NAMESPACE);

        put_tags(xml_add(xml_root(document), "TagSet", NULL), tags);
        set_xml_body(&request, document, arena);
        return request;
}

static struct aws_request control(const struct s3_bucket *bucket, const char *partition,
                                  const char *operation, const char *method, struct arena *arena) {
        struct aws_request request = { .service = AWS_S3_CONTROL,
                                       .operation = operation,
                                       .method = method,
                                       .path = arena_printf(arena, "/v20180820/tags/arn:%s:s3:::%s",
                                                            partition, bucket->name),
                                       .account = bucket->account };

        if (bucket->account)
                add_header(&request, "x-amz-account-id", bucket->account);
        return request;
}

struct aws_request s3_tag_resource(const struct s3_bucket *bucket, const char *partition,
                                   const struct value *tags, struct arena *arena) {
        struct aws_request request = control(bucket, partition, "TagResource", "POST", arena);
        struct xml_document *document XML_CLEANUP = xml_new("TagResourceRequest", S3_CONTROL_NAMESPACE);

        put_tags(xml_add(xml_root(document), "Tags", NULL), tags);
        set_xml_body(&request, document, arena);
        request.checksum = false;
        return request;
}

struct aws_request s3_untag_resource(const struct s3_bucket *bucket, const char *partition,
                                     const struct value *tags, uint32_t *from, struct arena *arena) {
        struct aws_request request = control(bucket, partition, "UntagResource", "DELETE", arena);

        for (size_t i = 0; i < AWS_QUERY_MAX && *from < tags->count; i++, (*from)++)
                request.query[i] = (struct aws_query){ "tagKeys", tags->members[*from].name };
        return request;
}

struct aws_request s3_get_bucket_encryption(const struct s3_bucket *bucket) {
        return setting(bucket, "GetBucketEncryption", "GET", "encryption");
}

int s3_read_encryption(const struct aws_response *response, struct arena *arena, struct value **ret,
                       struct error *err) {
        struct xml_document *document XML_CLEANUP = NULL;
        const struct xml_node *rule, *chosen, *kind;
        struct value *result, *blocked;
        const char *bucket_key;

        if (aws_answer_xml(response, "s3 GetBucketEncryption", "ServerSideEncryptionConfiguration", &document,
                           err) < 0)
                return -1;
        rule = xml_child(xml_root(document), "Rule");
        chosen = xml_child(rule, "ApplyServerSideEncryptionByDefault");
        bucket_key = xml_text(rule, "BucketKeyEnabled", arena);
        result = value_new_map(arena);
        value_set_text(arena, result, "algorithm", xml_text(chosen, "SSEAlgorithm", arena));
        value_set_text(arena, result, "key", xml_text(chosen, "KMSMasterKeyID", arena));
        if (bucket_key && strcasecmp(bucket_key, "true") == 0)
                value_set_boolean(arena, result, "bucketKey", true);
        blocked = value_new_list(arena);
        for (kind = xml_child(xml_child(rule, "BlockedEncryptionTypes"), "EncryptionType"); kind;
             kind = xml_next(kind, "EncryptionType"))
                value_append(arena, blocked, value_text(arena, xml_text(kind, "", arena)));
        if (blocked->count > 0)
                value_set(arena, result, "blocked", *blocked);
        *ret = result;
        return 0;
}

struct aws_request s3_put_bucket_encryption(const struct s3_bucket *bucket, const char *key,
                                            const struct value *blocked, struct arena *arena) {
        struct aws_request request = setting(bucket, "PutBucketEncryption", "PUT", "encryption");
        struct xml_document *document XML_CLEANUP =
                xml_new("ServerSideEncryptionConfiguration", S3_NAMESPACE);
        struct xml_node *rule = xml_add(xml_root(document), "Rule", NULL), *chosen, *list;

        chosen = xml_add(rule, "ApplyServerSideEncryptionByDefault", NULL);
        xml_add(chosen, "SSEAlgorithm", key ? "aws:kms" : "AES256");
        if (key) {
                xml_add(chosen, "KMSMasterKeyID", key);
                xml_add(rule, "BucketKeyEnabled", "true");
        }
        if (blocked && blocked->count > 0) {
                list = xml_add(rule, "BlockedEncryptionTypes", NULL);
                for (uint32_t i = 0; i < blocked->count; i++)
                        xml_add(list, "EncryptionType", value_text_of(&blocked->items[i]));
        }
        set_xml_body(&request, document, arena);
        return request;
}

static const char *const access_blocks[] = { "BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy",
                                             "RestrictPublicBuckets" };
#define ACCESS_BLOCKS (sizeof(access_blocks) / sizeof(access_blocks[0]))

struct aws_request s3_get_public_access_block(const struct s3_bucket *bucket) {
        return setting(bucket, "GetPublicAccessBlock", "GET", "publicAccessBlock");
}

int s3_read_public_access_block(const struct aws_response *response, struct arena *arena, bool *ret,
                                struct error *err) {
        struct xml_document *document XML_CLEANUP = NULL;
        bool all = true;

        if (aws_answer_xml(response, "s3 GetPublicAccessBlock", "PublicAccessBlockConfiguration", &document,
                           err) < 0)
                return -1;
        for (size_t i = 0; i < ACCESS_BLOCKS; i++) {
                const char *text = xml_text(xml_root(document), access_blocks[i], arena);

                all = all && text && strcasecmp(text, "true") == 0;
        }
        *ret = all;
        return 0;
}

struct aws_request s3_put_public_access_block(const struct s3_bucket *bucket, struct arena *arena) {
        struct aws_request request = setting(bucket, "PutPublicAccessBlock", "PUT", "publicAccessBlock");
        struct xml_document *document XML_CLEANUP = xml_new("PublicAccessBlockConfiguration", S3_NAMESPACE);

        for (size_t i = 0; i < ACCESS_BLOCKS; i++)
                xml_add(xml_root(document), access_blocks[i], "true");
        set_xml_body(&request, document, arena);
        return request;
}

struct aws_request s3_get_bucket_policy(const struct s3_bucket *bucket) {
        return setting(bucket, "GetBucketPolicy", "GET", "policy");
}

struct aws_request s3_put_bucket_policy(const struct s3_bucket *bucket, const char *text) {
        struct aws_request request = setting(bucket, "PutBucketPolicy", "PUT", "policy");

        set_text_body(&request, text, strlen(text), "application/json");
        return request;
}

struct aws_request s3_get_lifecycle(const struct s3_bucket *bucket) {
        return setting(bucket, "GetBucketLifecycleConfiguration", "GET", "lifecycle");
}

int s3_read_lifecycle(const struct aws_response *response, struct xml_document **ret, struct error *err) {
        return aws_answer_xml(response, "s3 GetBucketLifecycleConfiguration", "LifecycleConfiguration", ret,
                              err);
}

struct aws_request s3_put_lifecycle(const struct s3_bucket *bucket, const char *text, size_t length,
                                    const char *minimum_size) {
        struct aws_request request = setting(bucket, "PutBucketLifecycleConfiguration", "PUT", "lifecycle");

        set_text_body(&request, text, length, "application/xml");
        if (minimum_size && *minimum_size)
                add_header(&request, "x-amz-transition-default-minimum-object-size", minimum_size);
        return request;
}

struct aws_request s3_delete_lifecycle(const struct s3_bucket *bucket) {
        return setting(bucket, "DeleteBucketLifecycle", "DELETE", "lifecycle");
}

struct aws_request s3_list_objects(const struct s3_bucket *bucket, const char *prefix, const char *token) {
        struct aws_request request = s3_request(bucket, "ListObjectsV2", "GET", "/");

        request.query[0] = (struct aws_query){ "list-type", "2" };
        request.query[1] = (struct aws_query){ "encoding-type", "url" };
        request.query[2] = (struct aws_query){ "prefix", prefix };
        if (token)
                request.query[3] = (struct aws_query){ "continuation-token", token };
        return request;
}

struct aws_request s3_list_objects_after(const struct s3_bucket *bucket, const char *prefix,
                                         const char *after, size_t limit, struct arena *arena) {
        struct aws_request request = s3_list_objects(bucket, prefix, NULL);

        request.query[3] = (struct aws_query){ "max-keys", arena_printf(arena, "%zu", limit) };
        if (after)
                request.query[4] = (struct aws_query){ "start-after", after };
        return request;
}

/* A key as it is; some servers leave it as it is though they were asked to encode it, and say so (is_encoded). */
static const char *read_key(const struct xml_node *node, const char *name, bool encoded,
                            struct arena *arena) {
        char *text = arena_strdup(arena, xml_text(node, name, arena));

        if (text && encoded)
                encode_undo(text, true);
        return text;
}

static size_t count_children(const struct xml_node *node) {
        size_t count = 0;

        for (const struct xml_node *child = xml_child(node, NULL); child; child = xml_next(child, NULL))
                count++;
        return count;
}

/* "2026-01-31T12:00:00.000Z": S3 knows no other form. */
static int64_t read_time(const struct xml_node *node, struct arena *arena) {
        const char *text = xml_text(node, "LastModified", arena);
        struct tm parts = { 0 };

        return text && strptime(text, "%Y-%m-%dT%H:%M:%S", &parts) ? (int64_t)timegm(&parts) * 1000 : 0;
}

/*
 * One without a key cannot be named and is left out; a caller that compares an ETag must know that
 * it may be "".
 */
static void read_object(const struct xml_node *node, bool encoded, struct arena *arena,
                        struct s3_page *page) {
        const char *size = xml_text(node, "Size", arena), *etag = xml_text(node, "ETag", arena),
                   *latest = xml_text(node, "IsLatest", arena);
        struct s3_object *object = &page->objects[page->count];

        object->key = read_key(node, "Key", encoded, arena);
        object->etag = etag ? etag : "";
        object->version = xml_text(node, "VersionId", arena);
        object->size = size ? strtoll(size, NULL, 10) : 0;
        if (object->size < 0)
                object->size = 0;
        object->modified_ms = read_time(node, arena);
        object->is_marker = strcmp(xml_name(node), "DeleteMarker") == 0;
        object->is_noncurrent = latest && strcmp(latest, "false") == 0;
        page->count += object->key != NULL;
}

/* ListBucketResult and ListVersionsResult alike: elements in the order in which they come. */
static void read_page(struct xml_node *root, bool encoded, struct arena *arena, struct s3_page *ret) {
        size_t count = count_children(root);

        ret->objects = arena_array(arena, count, sizeof(*ret->objects));
        ret->prefixes = arena_array(arena, count, sizeof(*ret->prefixes));
        for (struct xml_node *child = xml_child(root, NULL); child; child = xml_next(child, NULL)) {
                const char *name = xml_name(child);

                if (strcmp(name, "CommonPrefixes") == 0) {
                        const char *prefix = read_key(child, "Prefix", encoded, arena);

                        if (prefix)
                                ret->prefixes[ret->prefix_count++] = prefix;
                } else if (strcmp(name, "Contents") == 0 || strcmp(name, "Version") == 0 ||
                           strcmp(name, "DeleteMarker") == 0) {
                        read_object(child, encoded, arena, ret);
                }
        }
}

/* Whether keys are percent-encoded, as was asked for: they may hold what XML cannot. */
static bool is_encoded(const struct xml_node *root, struct arena *arena) {
        const char *encoding = xml_text(root, "EncodingType", arena);

        return encoding && strcmp(encoding, "url") == 0;
}

static bool is_truncated(const struct xml_node *root, struct arena *arena) {
        const char *text = xml_text(root, "IsTruncated", arena);

        return text && strcmp(text, "true") == 0;
}

/* A page that says it is not the last and names no next one would end the listing early, as if the rest did not exist. */
int s3_read_objects(const struct aws_response *response, struct arena *arena, struct s3_page *ret,
                    struct error *err) {
        struct xml_document *document XML_CLEANUP = NULL;
        struct s3_page page = { 0 };

        if (aws_answer_xml(response, "s3 ListObjectsV2", "ListBucketResult", &document, err) < 0)
                return -1;
        read_page(xml_root(document), is_encoded(xml_root(document), arena), arena, &page);
        if (is_truncated(xml_root(document), arena)) {
                page.next = xml_text(xml_root(document), "NextContinuationToken", arena);
                if (!page.next || !*page.next)
                        return error_set(err,
                                         "the answer to s3 ListObjectsV2 says there is more, but not where");
        }
        *ret = page;
        return 0;
}

bool s3_next_objects(const struct aws_response *page, const struct aws_request *first, const char *context,
                     struct arena *arena, struct aws_request *ret) {
        struct s3_page objects;
        struct error ignored; /* the taker of the page reads it again */
        size_t last = 0;

        (void)context;
        if (s3_read_objects(page, arena, &objects, &ignored) < 0 || !objects.next)
                return false;
        *ret = *first;
        while (ret->query[last].name)
                last++;
        ret->query[last] = (struct aws_query){ "continuation-token", objects.next };
        return true;
}

struct aws_request s3_list_versions(const struct s3_bucket *bucket, const char *prefix, const char *delimiter,
                                    const char *key_marker, const char *version_marker) {
        struct aws_request request = setting(bucket, "ListObjectVersions", "GET", "versions");
        size_t count = 1;

        request.query[count++] = (struct aws_query){ "encoding-type", "url" };
        if (*prefix)
                request.query[count++] = (struct aws_query){ "prefix", prefix };
        if (delimiter)
                request.query[count++] = (struct aws_query){ "delimiter", delimiter };
        if (key_marker)
                request.query[count++] = (struct aws_query){ "key-marker", key_marker };
        if (key_marker && version_marker)
                request.query[count++] = (struct aws_query){ "version-id-marker", version_marker };
        return request;
}

int s3_read_versions(const struct aws_response *response, struct arena *arena, struct s3_page *ret,
                     struct error *err) {
        struct xml_document *document XML_CLEANUP = NULL;
        struct s3_page page = { 0 };
        struct xml_node *root;
        bool encoded;

        if (aws_answer_xml(response, "s3 ListObjectVersions", "ListVersionsResult", &document, err) < 0)
                return -1;
        root = xml_root(document);
        encoded = is_encoded(root, arena);
        read_page(root, encoded, arena, &page);
        if (is_truncated(root, arena)) {
                page.next = read_key(root, "NextKeyMarker", encoded, arena);
                page.next_version = xml_text(root, "NextVersionIdMarker", arena);
                if (!page.next || !*page.next)
                        return error_set(err,
                                         "the answer to s3 ListObjectVersions says there is more, but not "
                                         "where");
        }
        *ret = page;
        return 0;
}

struct aws_request s3_delete_objects(const struct s3_bucket *bucket, const struct s3_object *objects,
                                     size_t count, struct arena *arena) {
        struct aws_request request = setting(bucket, "DeleteObjects", "POST", "delete");
        struct xml_document *document XML_CLEANUP = xml_new("Delete", S3_NAMESPACE);

        for (size_t i = 0; i < count; i++) {
                struct xml_node *object = xml_add(xml_root(document), "Object", NULL);

                xml_add(object, "Key", objects[i].key);
                if (objects[i].version)
                        xml_add(object, "VersionId", objects[i].version);
                if (objects[i].only)
                        xml_add(object, "ETag", objects[i].only);
        }
        xml_add(xml_root(document), "Quiet", "true");
        set_xml_body(&request, document, arena);
        return request;
}

/* `ret` NULL: each that stays is an error. */
static int read_deleted(const struct aws_response *response, struct arena *arena, const char ***ret,
                        size_t *ret_count, struct error *err) {
        static const char *const changed[] = { "PreconditionFailed", "ConditionalRequestConflict", NULL };
        struct xml_document *document XML_CLEANUP = NULL;

        if (response->body.length == 0)
                return 0;
        if (aws_answer_xml(response, "s3 DeleteObjects", "DeleteResult", &document, err) < 0)
                return -1;
        for (const struct xml_node *failure = xml_child(xml_root(document), "Error"); failure;
             failure = xml_next(failure, "Error")) {
                const char *key = xml_text(failure, "Key", arena), *code = xml_text(failure, "Code", arena),
                           *message = xml_text(failure, "Message", arena);

                if (ret && key && code && text_is_among(code, changed)) {
                        *ret = array_grow(arena, *ret, *ret_count, sizeof(**ret));
                        (*ret)[(*ret_count)++] = key;
                } else if (!ret || !code || strcmp(code, "NoSuchKey") != 0) {
                        return error_set(err, "s3 DeleteObjects: %s stays: %s: %s", key ? key : "an object",
                                         code ? code : "no code", message ? message : "no reason given");
                }
        }
        return 0;
}

int s3_read_deleted(const struct aws_response *response, struct arena *arena, struct error *err) {
        return read_deleted(response, arena, NULL, NULL, err);
}

int s3_read_deleted_but(const struct aws_response *response, struct arena *arena, const char ***ret,
                        size_t *ret_count, struct error *err) {
        *ret = NULL;
        *ret_count = 0;
        return read_deleted(response, arena, ret, ret_count, err);
}

/* U+FFFE and U+FFFF are no characters of XML either. */
bool s3_is_for_xml(const char *key) {
        for (const char *at = key; *at; at++) {
                if ((unsigned char)*at < ' ')
                        return false;
        }
        return !strstr(key, "\xef\xbf\xbe") && !strstr(key, "\xef\xbf\xbf");
}

static const char *object_path(const char *key, struct arena *arena) {
        return arena_printf(arena, "/%s", key);
}

struct aws_request s3_get_object_tagging(const struct s3_bucket *bucket, const char *key, const char *version,
                                         struct arena *arena) {
        struct aws_request request = s3_request(bucket, "GetObjectTagging", "GET", object_path(key, arena));

        request.query[0] = (struct aws_query){ "tagging", NULL };
        if (version)
                request.query[1] = (struct aws_query){ "versionId", version };
        return request;
}

struct aws_request s3_get_object(const struct s3_bucket *bucket, const char *key, struct arena *arena) {
        return s3_request(bucket, "GetObject", "GET", object_path(key, arena));
}

struct aws_request s3_get_object_part(const struct s3_bucket *bucket, const char *key, uint64_t from,
                                      uint64_t length, const char *etag, struct arena *arena) {
        struct aws_request request = s3_get_object(bucket, key, arena);

        if (etag)
                add_header(&request, "If-Match", etag);
        add_header(&request, "Range",
                   arena_printf(arena, "bytes=%" PRIu64 "-%" PRIu64, from, from + length - 1));
        return request;
}

struct aws_request s3_head_object(const struct s3_bucket *bucket, const char *key, struct arena *arena) {
        return s3_request(bucket, "HeadObject", "HEAD", object_path(key, arena));
}

struct aws_request s3_write_object(const struct s3_bucket *bucket, const struct s3_write *write,
                                   struct arena *arena) {
        struct aws_request request = s3_request(bucket, "PutObject", "PUT", object_path(write->key, arena));

        set_text_body(&request, write->body ? write->body : "", write->length, write->content_type);
        if (write->file && write->file->length)
                request.file = write->file;
        if (request.file)
                request.body = NULL;
        if (write->if_match)
                add_header(&request, "If-Match", write->if_match);
        else if (write->if_absent)
                add_header(&request, "If-None-Match", "*");
        if (write->tagging)
                add_header(&request, "x-amz-tagging", write->tagging);
        return request;
}

struct aws_request s3_put_object(const struct s3_bucket *bucket, const char *key, const char *body,
                                 size_t length, const char *content_type, const char *if_match,
                                 struct arena *arena) {
        const struct s3_write write = { .key = key,
                                        .body = body,
                                        .length = length,
                                        .content_type = content_type,
                                        .if_match = if_match,
                                        .if_absent = !if_match };

        return s3_write_object(bucket, &write, arena);
}

struct aws_request s3_copy_object(const struct s3_bucket *bucket, const char *from, const char *etag,
                                  const char *to, struct arena *arena) {
        struct aws_request request = s3_request(bucket, "CopyObject", "PUT", object_path(to, arena));
        struct strbuf source STRBUF_CLEANUP = STRBUF_INIT;

        strbuf_printf(&source, "%s/", bucket->name);
        encode_percent(&source, from, strlen(from), true);
        add_header(&request, "x-amz-copy-source", arena_strdup(arena, strbuf_text(&source)));
        add_header(&request, "x-amz-copy-source-if-match", etag);
        if (bucket->account)
                add_header(&request, "x-amz-source-expected-bucket-owner", bucket->account);
        return request;
}

int s3_read_copied(const struct aws_response *response, struct arena *arena, const char **ret_etag,
                   struct error *err) {
        struct xml_document *document XML_CLEANUP = NULL;
        const char *etag;

        if (aws_answer_xml(response, "s3 CopyObject", "CopyObjectResult", &document, err) < 0)
                return -1;
        etag = xml_text(xml_root(document), "ETag", arena);
        if (!etag || !*etag)
                return error_set(err, "the answer to s3 CopyObject has no ETag");
        *ret_etag = etag;
        return 0;
}

struct aws_request s3_delete_object(const struct s3_bucket *bucket, const char *key, const char *if_match,
                                    struct arena *arena) {
        struct aws_request request = s3_request(bucket, "DeleteObject", "DELETE", object_path(key, arena));

        if (if_match)
                add_header(&request, "If-Match", if_match);
        return request;
}
