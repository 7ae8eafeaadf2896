/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/services/dynamodb.h"

#include "base/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A server that does not answer within it has lost the request: DynamoDB needs milliseconds. */
#define ITEM_TIMEOUT_MS 10000

json_t *dynamodb_text(const char *text) {
        return json_checked(json_pack("{s:s}", "S", text));
}

json_t *dynamodb_number(uint64_t number) {
        char text[24];

        snprintf(text, sizeof(text), "%" PRIu64, number);
        return json_checked(json_pack("{s:s}", "N", text));
}

const char *dynamodb_text_of(const json_t *item, const char *name) {
        return json_text(json_object_get(item, name), "S");
}

int dynamodb_number_of(const json_t *item, const char *name, uint64_t *ret) {
        const char *text = json_text(json_object_get(item, name), "N");
        unsigned long long number;
        char *end;

        if (!text || strspn(text, "0123456789") != strlen(text) || !*text)
                return -1;
        errno = 0;
        number = strtoull(text, &end, 10);
        if (errno != 0)
                return -1;
        *ret = number;
        return 0;
}

static struct aws_request of_items(const char *operation, json_t *body, struct arena *arena) {
        struct aws_request request = aws_json_request(AWS_DYNAMODB, operation, json_checked(body), arena);

        request.timeout_ms = ITEM_TIMEOUT_MS;
        return request;
}

static struct aws_request of_table(const char *operation, json_t *body, struct arena *arena) {
        return aws_json_request(AWS_DYNAMODB, operation, json_checked(body), arena);
}

struct aws_request dynamodb_get_item(const char *table, json_t *key, struct arena *arena) {
        return of_items(
                "GetItem",
                json_pack("{s:s, s:o, s:b}", "TableName", table, "Key", key, "ConsistentRead", (int)true),
                arena);
}

struct aws_request dynamodb_delete_item(const char *table, json_t *key, struct arena *arena) {
        return of_items("DeleteItem", json_pack("{s:s, s:o}", "TableName", table, "Key", key), arena);
}

struct aws_request dynamodb_query(const struct dynamodb_query *query, struct arena *arena) {
        json_t *body = json_checked(json_pack(
                "{s:s, s:s, s:o, s:o, s:b, s:b, s:I}", "TableName", query->table, "KeyConditionExpression",
                query->condition, "ExpressionAttributeNames", query->names, "ExpressionAttributeValues",
                query->values, "ConsistentRead", (int)true, "ScanIndexForward", (int)!query->backwards,
                "Limit", (json_int_t)query->limit));

        if (query->after)
                json_put(body, "ExclusiveStartKey", query->after);
        return of_items("Query", body, arena);
}

struct aws_request dynamodb_count(const char *table, const char *filter, json_t *names, json_t *after,
                                  struct arena *arena) {
        json_t *body = json_checked(json_pack("{s:s, s:s, s:o, s:b, s:s}", "TableName", table,
                                              "FilterExpression", filter, "ExpressionAttributeNames", names,
                                              "ConsistentRead", (int)true, "Select", "COUNT"));

        if (after)
                json_put(body, "ExclusiveStartKey", after);
        return of_items("Scan", body, arena);
}

struct aws_request dynamodb_transact_write(json_t *changes, const char *token, struct arena *arena) {
        return of_items("TransactWriteItems",
                        json_pack("{s:o, s:s}", "TransactItems", changes, "ClientRequestToken", token),
                        arena);
}

bool dynamodb_canceled_by(const struct aws_response *response, const char *code) {
        json_t *body JSON_CLEANUP =
                json_loadb(strbuf_text(&response->body), response->body.length, JSON_ALLOW_NUL, NULL);
        const json_t *reason;
        size_t i;

        json_array_foreach (json_object_get(body, "CancellationReasons"), i, reason) {
                if (aws_json_says(reason, "Code", code))
                        return true;
        }
        return false;
}

struct aws_request dynamodb_describe_table(const char *table, struct arena *arena) {
        return of_table("DescribeTable", json_pack("{s:s}", "TableName", table), arena);
}

static json_t *encryption(const char *kms_key) {
        return json_checked(json_pack("{s:b, s:s, s:s*}", "Enabled", (int)true, "SSEType", "KMS",
                                      "KMSMasterKeyId", kms_key));
}

struct aws_request dynamodb_create_table(const struct dynamodb_table *table, struct arena *arena) {
        json_t *body = json_checked(json_pack(
                "{s:s, s:[{s:s, s:s}, {s:s, s:s}], s:[{s:s, s:s}, {s:s, s:s}], s:s, s:b}", "TableName",
                table->name, "AttributeDefinitions", "AttributeName", table->partition, "AttributeType", "S",
                "AttributeName", table->sort, "AttributeType", "S", "KeySchema", "AttributeName",
                table->partition, "KeyType", "HASH", "AttributeName", table->sort, "KeyType", "RANGE",
                "BillingMode", "PAY_PER_REQUEST", "DeletionProtectionEnabled", (int)table->protected));

        json_put(body, "SSESpecification", encryption(table->kms_key));
        if (table->tags && table->tags->count > 0)
                json_put(body, "Tags", aws_json_tag_list(table->tags));
        return of_table("CreateTable", body, arena);
}

struct aws_request dynamodb_protect_table(const char *table, bool protect, struct arena *arena) {
        return of_table(
                "UpdateTable",
                json_pack("{s:s, s:b}", "TableName", table, "DeletionProtectionEnabled", (int)protect),
                arena);
}

struct aws_request dynamodb_encrypt_table(const char *table, const char *kms_key, struct arena *arena) {
        return of_table("UpdateTable",
                        json_pack("{s:s, s:o}", "TableName", table, "SSESpecification", encryption(kms_key)),
                        arena);
}

struct aws_request dynamodb_pay_per_request(const char *table, struct arena *arena) {
        return of_table("UpdateTable",
                        json_pack("{s:s, s:s}", "TableName", table, "BillingMode", "PAY_PER_REQUEST"), arena);
}

struct aws_request dynamodb_delete_table(const char *table, struct arena *arena) {
        return of_table("DeleteTable", json_pack("{s:s}", "TableName", table), arena);
}

struct aws_request dynamodb_describe_expiry(const char *table, struct arena *arena) {
        return of_table("DescribeTimeToLive", json_pack("{s:s}", "TableName", table), arena);
}

struct aws_request dynamodb_set_expiry(const char *table, const char *attribute, bool enabled,
                                       struct arena *arena) {
        return of_table("UpdateTimeToLive",
                        json_pack("{s:s, s:{s:b, s:s}}", "TableName", table, "TimeToLiveSpecification",
                                  "Enabled", (int)enabled, "AttributeName", attribute),
                        arena);
}

struct aws_request dynamodb_list_tags(const char *arn, const char *token, struct arena *arena) {
        json_t *body = json_checked(json_pack("{s:s}", "ResourceArn", arn));

        json_set_text(body, "NextToken", token);
        return of_table("ListTagsOfResource", body, arena);
}

struct aws_request dynamodb_tag(const char *arn, const struct value *tags, struct arena *arena) {
        return of_table("TagResource",
                        json_pack("{s:s, s:o}", "ResourceArn", arn, "Tags", aws_json_tag_list(tags)), arena);
}

struct aws_request dynamodb_untag(const char *arn, const struct value *tags, struct arena *arena) {
        return of_table("UntagResource",
                        json_pack("{s:s, s:o}", "ResourceArn", arn, "TagKeys", aws_json_keys(tags)), arena);
}
