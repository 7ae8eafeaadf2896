/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Amazon DynamoDB (JSON 1.0, DynamoDB_20120810): tables with a partition and a sort key, both texts, and items in them. An item is an
 * object of attributes, each {"S": text} or {"N": digits as text}; expressions name attributes by #name and values by :name, so that no
 * word of theirs is one that DynamoDB keeps for itself. References to JSON that is given are taken.
 */
#ifndef BERTH_PROVIDERS_AWS_SERVICES_DYNAMODB_H
#define BERTH_PROVIDERS_AWS_SERVICES_DYNAMODB_H

#include "providers/aws/client/aws_json.h"

#define DYNAMODB_NO_TABLE "ResourceNotFoundException"
#define DYNAMODB_IN_USE "ResourceInUseException" /* also: it exists already */
#define DYNAMODB_CANCELED "TransactionCanceledException"
#define DYNAMODB_INVALID "ValidationException"
/* Why one change of a transaction kept it from being made: the codes of its reasons. */
#define DYNAMODB_REASON_NONE "None"
#define DYNAMODB_REASON_CONDITION "ConditionalCheckFailed"
#define DYNAMODB_REASON_CONFLICT "TransactionConflict"

/* Attribute values: new references. */
json_t *dynamodb_text(const char *text);
json_t *dynamodb_number(uint64_t number);
/* Borrowed, of an item's attribute; NULL where it is absent or no text. */
const char *dynamodb_text_of(const json_t *item, const char *name);
/* Of an item's attribute that is a whole number of at most 64 bits; -1 if it is not a number. */
int dynamodb_number_of(const json_t *item, const char *name, uint64_t *ret) MUST_USE;

/* GetItem {TableName, Key, ConsistentRead true} -> {"Item"?}. */
struct aws_request dynamodb_get_item(const char *table, json_t *key, struct arena *arena);

/* DeleteItem {TableName, Key}, whether it is there or not. */
struct aws_request dynamodb_delete_item(const char *table, json_t *key, struct arena *arena);

struct dynamodb_query {
        const char *table;
        const char *condition;  /* KeyConditionExpression */
        json_t *names, *values; /* of the expression */
        json_t *after;          /* the last page's LastEvaluatedKey; NULL: the first page */
        bool backwards;
        size_t limit;
};
/*
 * Query {TableName, KeyConditionExpression, ..., ConsistentRead true, ScanIndexForward, Limit[, ExclusiveStartKey]} -> {"Items": [],
 * "LastEvaluatedKey"?}, in the order of sort keys, bytewise; a page ends at 1 MiB of items.
 */
struct aws_request dynamodb_query(const struct dynamodb_query *query, struct arena *arena);
/*
 * Scan {TableName, ConsistentRead true, Select COUNT, FilterExpression[, ExclusiveStartKey]} ->
 * {"Count", "LastEvaluatedKey"?}: counts in at most 1 MiB of items. Reads all that the filter
 * leaves out as well: for people's questions, never while a client waits for code.
 */
struct aws_request dynamodb_count(const char *table, const char *filter, json_t *names, json_t *after,
                                  struct arena *arena);

/*
 * TransactWriteItems {TransactItems: [{"Update" | "Delete": ...}], ClientRequestToken}: all, or none with TransactionCanceledException and
 * {"CancellationReasons": [{"Code"}]} in the order of the changes. At most 100 changes of different items, 4 MB. The same request with
 * the same token (1 to 36 characters) within 10 minutes is answered as the first one was when that was done.
 * TransactionInProgressException while that is under way.
 */
struct aws_request dynamodb_transact_write(json_t *changes, const char *token, struct arena *arena);
/* Whether a reason of the transaction that was refused has this code. */
bool dynamodb_canceled_by(const struct aws_response *response, const char *code);

/*
 * DescribeTable {TableName} -> {"Table": {TableName, TableArn, TableStatus, KeySchema: [{AttributeName, KeyType}], AttributeDefinitions:
 * [{AttributeName, AttributeType}], BillingModeSummary: {BillingMode}?, SSEDescription: {Status, SSEType, KMSMasterKeyArn}?,
 * DeletionProtectionEnabled, ItemCount}}; ItemCount runs hours behind.
 */
struct aws_request dynamodb_describe_table(const char *table, struct arena *arena);

struct dynamodb_table {
        const char *name;
        const char *partition, *sort; /* names of the key's attributes, both texts */
        const char *kms_key;          /* ARN; NULL: the one that AWS keeps in the account for DynamoDB */
        const struct value *tags;
        bool protected;
};
/* CreateTable, on demand (PAY_PER_REQUEST). ResourceInUseException where it exists. It is CREATING until it is ACTIVE. */
struct aws_request dynamodb_create_table(const struct dynamodb_table *table, struct arena *arena);
/*
 * UpdateTable {TableName, DeletionProtectionEnabled | SSESpecification | BillingMode PAY_PER_REQUEST}: one of them a call.
 * ResourceInUseException where it is not ACTIVE.
 */
struct aws_request dynamodb_protect_table(const char *table, bool protect, struct arena *arena);
struct aws_request dynamodb_encrypt_table(const char *table, const char *kms_key, struct arena *arena);
struct aws_request dynamodb_pay_per_request(const char *table, struct arena *arena);
/* DeleteTable {TableName}: ValidationException while it is protected. */
struct aws_request dynamodb_delete_table(const char *table, struct arena *arena);

/* DescribeTimeToLive {TableName} -> {"TimeToLiveDescription": {TimeToLiveStatus, AttributeName?}}. */
struct aws_request dynamodb_describe_expiry(const char *table, struct arena *arena);
/*
 * UpdateTimeToLive {TableName, TimeToLiveSpecification {Enabled, AttributeName}}. ValidationException where it is so already, and for an hour
 * after it was changed. One attribute at a time: another one's has to be off.
 */
struct aws_request dynamodb_set_expiry(const char *table, const char *attribute, bool enabled,
                                       struct arena *arena);

/* ListTagsOfResource {ResourceArn[, NextToken]} -> {"Tags": [{Key, Value}], "NextToken"?}. */
struct aws_request dynamodb_list_tags(const char *arn, const char *token, struct arena *arena);
/* TagResource {ResourceArn, Tags} and UntagResource {ResourceArn, TagKeys}, of the keys of `tags`. */
struct aws_request dynamodb_tag(const char *arn, const struct value *tags, struct arena *arena);
struct aws_request dynamodb_untag(const char *arn, const struct value *tags, struct arena *arena);

#endif
