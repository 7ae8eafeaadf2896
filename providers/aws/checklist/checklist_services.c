/* SPDX-License-Identifier: Apache-2.0 */
/* Transactions and expiry of DynamoDB, in the Stack's table; and a push to ECR, into a repository of our own. */
#include "base/digest.h"
#include "base/json.h"
#include "providers/aws/checklist/checklist_parts.h"
#include "providers/aws/services/dynamodb.h"
#include "providers/aws/services/ecr.h"
#include "providers/aws/shared/records_table.h"
#include "providers/image_rules.h"

#include <stdio.h>
#include <string.h>

#define SHARD "doctor"
#define EXPIRES_S 3600 /* what a death leaves, DynamoDB deletes */

/* --- DynamoDB --- */

static json_t *item_key(const struct checklist *list, const char *name) {
        return json_checked(json_pack(
                "{s:o, s:o}", RECORDS_TABLE_SHARD, dynamodb_text(SHARD), RECORDS_TABLE_ID,
                dynamodb_text(arena_printf(list->arena, "%s-%s", list->provider->stack_name, name))));
}

/* It must not exist yet. */
static json_t *making(const struct checklist *list, const char *name) {
        int64_t now_s = aws_client_wall_ms(list->client) / 1000;

        return json_checked(json_pack(
                "{s:{s:s, s:o, s:s, s:s, s:{s:s, s:s}, s:{s:o}}}", "Update", "TableName", list->table, "Key",
                item_key(list, name), "UpdateExpression", "SET #expires = :expires", "ConditionExpression",
                "attribute_not_exists(#id)", "ExpressionAttributeNames", "#id", RECORDS_TABLE_ID, "#expires",
                RECORDS_TABLE_EXPIRES, "ExpressionAttributeValues", ":expires",
                dynamodb_number((uint64_t)(now_s + EXPIRES_S))));
}

static int has_item(const struct checklist *list, const char *name, bool *ret, struct error *err) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_request request = dynamodb_get_item(list->table, item_key(list, name), list->arena);

        if (aws_call(list->client, &request, &response, err) < 0)
                return -1;
        *ret = json_object_size(json_object_get(response.json, "Item")) > 0;
        return 0;
}

/* 1: it was made; 0: a condition has kept it from that. */
static int transact(const struct checklist *list, json_t *changes, const char *name, struct error *err) {
        static const char *const canceled[] = { DYNAMODB_CANCELED, NULL };
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        char token[37], hex[SHA256_HEX_SIZE];
        const char *seed = arena_printf(list->arena, "%s %s %lld", list->owner, name,
                                        (long long)aws_client_wall_ms(list->client));
        struct aws_request request;

        digest_sha256_hex(seed, strlen(seed), hex);
        snprintf(token, sizeof(token), "%.36s", hex);
        request = dynamodb_transact_write(changes, token, list->arena);
        if (aws_call_accepting(list->client, &request, canceled, &response, err) < 0)
                return -1;
        if (!*response.error_code)
                return 1;
        if (dynamodb_canceled_by(&response, DYNAMODB_REASON_CONDITION))
                return 0;
        return error_set(err, "a transaction was canceled, but not by its condition: %s",
                         response.error_message);
}

static int try_records(struct checklist *list, struct error *err) {
        bool first = false, other = true;
        int result = transact(list, json_checked(json_pack("[o, o]", making(list, "1"), making(list, "2"))),
                              "first", err);

        if (result < 0)
                return -1;
        if (result == 0)
                return error_set(err, "records of an earlier check are still in the table %s", list->table);
        result = transact(list, json_checked(json_pack("[o, o]", making(list, "3"), making(list, "2"))),
                          "second", err);
        if (result < 0 || has_item(list, "1", &first, err) < 0 || has_item(list, "3", &other, err) < 0)
                return -1;
        if (result > 0 || !first || other)
                return error_set(err, "a transaction whose condition does not hold has changed something");
        return 0;
}

static int try_expiry(struct checklist *list, struct error *err) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_request request = dynamodb_describe_expiry(list->table, list->arena);
        const json_t *expiry;
        const char *status, *name;

        if (aws_call(list->client, &request, &response, err) < 0)
                return -1;
        expiry = json_object_get(response.json, "TimeToLiveDescription");
        status = json_text(expiry, "TimeToLiveStatus");
        name = json_text(expiry, "AttributeName");
        if (status && strcmp(status, "ENABLED") == 0 && name && strcmp(name, RECORDS_TABLE_EXPIRES) == 0)
                return 0;
        return error_set(err, "the table %s does not delete what has expired: its TTL is %s%s%s", list->table,
                         status ? status : "not told", name ? ", on " : "", name ? name : "");
}

void checklist_records(struct checklist *list) {
        struct error err;

        if (!list->table) {
                checklist_skipped(list, "records", "the Stack has no `sessions: {table: NAME}`");
                checklist_skipped(list, "expiry", "the Stack has no `sessions: {table: NAME}`");
                return;
        }
        if (checklist_remove_records(list, &err) < 0 || try_records(list, &err) < 0)
                checklist_found(list, "records", &err, " ");
        else
                checklist_found(list, "records", NULL,
                                "a transaction under conditions in %s is made whole or not at all",
                                list->table);
        if (try_expiry(list, &err) < 0)
                checklist_found(list, "expiry", &err, " ");
        else
                checklist_found(list, "expiry", NULL, "%s deletes what has expired (TTL on %s)", list->table,
                                RECORDS_TABLE_EXPIRES);
}

int checklist_remove_records(struct checklist *list, struct error *err) {
        static const char *const names[] = { "1", "2", "3" };
        static const char *const absent[] = { DYNAMODB_NO_TABLE, NULL };

        for (size_t i = 0; list->table && i < sizeof(names) / sizeof(names[0]); i++) {
                struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
                struct aws_request request =
                        dynamodb_delete_item(list->table, item_key(list, names[i]), list->arena);

                if (aws_call_accepting(list->cleaner, &request, absent, &response, err) < 0)
                        return -1;
        }
        return 0;
}

/* --- ECR --- */

static const char *const no_repository[] = { "RepositoryNotFoundException", NULL };

static int upload(struct checklist *list, const char *bytes, size_t length, char sha256[SHA256_HEX_SIZE],
                  struct error *err) {
        static const char *const there[] = { "LayerAlreadyExistsException", NULL };
        struct aws_response begun AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_response part AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_response done AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_request request = ecr_initiate_upload(list->name, list->arena);
        const char *id;

        digest_sha256_hex(bytes, length, sha256);
        if (aws_call(list->client, &request, &begun, err) < 0)
                return -1;
        id = json_text(begun.json, "uploadId");
        if (!id)
                return error_set(err, "the answer to InitiateLayerUpload names no upload");
        request = ecr_upload_part(list->name, id, 0, bytes, length, list->arena);
        if (aws_call(list->client, &request, &part, err) < 0)
                return -1;
        request = ecr_complete_upload(list->name, id, arena_printf(list->arena, "sha256:%s", sha256),
                                      list->arena);
        return aws_call_accepting(list->client, &request, there, &done, err);
}

/* An image of one layer in which nothing is. */
static int push(struct checklist *list, struct error *err) {
        static const char layer[1024]; /* the end of an archive of tar, and nothing before it */
        struct aws_response put AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_response got AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        char layer_hex[SHA256_HEX_SIZE], config_hex[SHA256_HEX_SIZE], hex[SHA256_HEX_SIZE];
        const char *config, *manifest, *digest, *found;
        struct aws_request request;

        if (upload(list, layer, sizeof(layer), layer_hex, err) < 0)
                return -1;
        config = arena_printf(list->arena,
                              "{\"architecture\":\"amd64\",\"os\":\"linux\",\"rootfs\":{\"type\":\"layers\","
                              "\"diff_ids\":[\"sha256:%s\"]}}",
                              layer_hex);
        if (upload(list, config, strlen(config), config_hex, err) < 0)
                return -1;
        manifest = arena_printf(
                list->arena,
                "{\"schemaVersion\":2,\"mediaType\":\"%s\",\"config\":{\"mediaType\":"
                "\"application/vnd.oci.image.config.v1+json\",\"digest\":\"sha256:%s\",\"size\":%zu},\"layers\":[{"
                "\"mediaType\":\"application/vnd.oci.image.layer.v1.tar\",\"digest\":\"sha256:%s\",\"size\":%zu}]}",
                image_rules_oci_manifest, config_hex, strlen(config), layer_hex, sizeof(layer));
        digest_sha256_hex(manifest, strlen(manifest), hex);
        digest = arena_printf(list->arena, "sha256:%s", hex);
        request =
                ecr_put_image(list->name, "doctor", image_rules_oci_manifest, manifest, digest, list->arena);
        if (aws_call(list->client, &request, &put, err) < 0)
                return -1;
        request = ecr_batch_get_image(list->name, json_checked(json_pack("[{s:s}]", "imageTag", "doctor")),
                                      list->arena);
        if (aws_call(list->client, &request, &got, err) < 0)
                return -1;
        found = json_text(json_object_get(json_array_get(json_object_get(got.json, "images"), 0), "imageId"),
                          "imageDigest");
        return found && strcmp(found, digest) == 0
                       ? 0
                       : error_set(err, "ECR gives the image that was pushed another digest");
}

static int make_repository(struct checklist *list, struct error *err) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct value *tags = value_new_map(list->arena);
        struct aws_request request;

        value_set_text(list->arena, tags, CHECKLIST_TAG, list->owner);
        request = ecr_create_repository(list->name, tags, NULL, (struct ecr_mutability){ 0 }, list->arena);
        return aws_call(list->client, &request, &response, err);
}

void checklist_registry(struct checklist *list) {
        struct error err;

        if (checklist_remove_repository(list, &err) < 0 || make_repository(list, &err) < 0 ||
            push(list, &err) < 0)
                checklist_found(list, "registry", &err, " ");
        else
                checklist_found(list, "registry", NULL, "an image was pushed to a new repository %s",
                                list->name);
}

/* 1: it is there, and has our tag. */
static int is_our_repository(struct checklist *list, struct error *err) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_response tags AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_request request = ecr_describe_repository(list->name, list->arena);
        const char *arn;
        const json_t *tag;
        size_t i;

        if (aws_call_accepting(list->cleaner, &request, no_repository, &response, err) < 0)
                return -1;
        if (*response.error_code)
                return 0;
        arn = json_text(json_array_get(json_object_get(response.json, "repositories"), 0), "repositoryArn");
        if (!arn)
                return error_set(err, "the answer to DescribeRepositories names no repository");
        request = ecr_list_tags(arn, list->arena);
        if (aws_call(list->cleaner, &request, &tags, err) < 0)
                return -1;
        json_array_foreach (json_object_get(tags.json, "tags"), i, tag) {
                const char *name = json_text(tag, "Key"), *value = json_text(tag, "Value");

                if (name && value && strcmp(name, CHECKLIST_TAG) == 0 && strcmp(value, list->owner) == 0)
                        return 1;
        }
        return error_set(
                err,
                "there is a repository %s that is not this check's (it lacks the tag %s): it stays, and its "
                "name is needed",
                list->name, CHECKLIST_TAG);
}

int checklist_remove_repository(struct checklist *list, struct error *err) {
        struct aws_response images AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_request request;
        int ours = is_our_repository(list, err);

        if (ours <= 0)
                return ours;
        request = ecr_batch_delete_image(list->name, json_checked(json_pack("[{s:s}]", "imageTag", "doctor")),
                                         list->arena);
        if (aws_call_accepting(list->cleaner, &request, no_repository, &images, err) < 0)
                return -1;
        request = ecr_delete_repository(list->name, list->arena);
        return aws_call_accepting(list->cleaner, &request, no_repository, &response, err);
}
