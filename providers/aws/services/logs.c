/* SPDX-License-Identifier: Apache-2.0 */
/* Groups are named in all calls but ListTagsForResource, which wants the ARN, and wants it without the ":*" that others give. */
#include "providers/aws/services/logs.h"

#include "base/json.h"

#include <string.h>

struct aws_request logs_describe_groups(const char *prefix, const char *token, struct arena *arena) {
        json_t *body = json_pack("{s:s, s:i}", "logGroupNamePrefix", prefix, "limit", 50);

        json_set_text(body, "nextToken", token);
        return aws_json_request(AWS_LOGS, "DescribeLogGroups", body, arena);
}

/* Groups come in order, so that a page which ends at `last` or beyond has all that was asked for. */
bool logs_next_groups(const struct aws_response *page, const struct aws_request *first, const char *last,
                      struct arena *arena, struct aws_request *ret) {
        const json_t *groups = json_object_get(page->json, "logGroups");
        const char *name = json_text(json_array_get(groups, json_array_size(groups) - 1), "logGroupName");

        if (name && strcmp(name, last) >= 0)
                return false;
        return aws_json_next(page, first, "nextToken", arena, ret);
}

struct aws_request logs_create_group(const char *group, const char *key, const struct value *tags,
                                     struct arena *arena) {
        json_t *body = json_pack("{s:s}", "logGroupName", group);

        json_set_text(body, "kmsKeyId", key);
        if (tags && tags->count > 0)
                json_object_set_new(body, "tags", aws_json_map(tags));
        return aws_json_request(AWS_LOGS, "CreateLogGroup", body, arena);
}

struct aws_request logs_associate_key(const char *group, const char *key, struct arena *arena) {
        return aws_json_request(AWS_LOGS, "AssociateKmsKey",
                                json_pack("{s:s, s:s}", "logGroupName", group, "kmsKeyId", key), arena);
}

struct aws_request logs_delete_group(const char *group, struct arena *arena) {
        return aws_json_request(AWS_LOGS, "DeleteLogGroup", json_pack("{s:s}", "logGroupName", group), arena);
}

struct aws_request logs_put_retention(const char *group, int64_t days, struct arena *arena) {
        return aws_json_request(
                AWS_LOGS, "PutRetentionPolicy",
                json_pack("{s:s, s:I}", "logGroupName", group, "retentionInDays", (json_int_t)days), arena);
}

struct aws_request logs_delete_retention(const char *group, struct arena *arena) {
        return aws_json_request(AWS_LOGS, "DeleteRetentionPolicy", json_pack("{s:s}", "logGroupName", group),
                                arena);
}

struct aws_request logs_list_tags(const char *arn, struct arena *arena) {
        return aws_json_request(AWS_LOGS, "ListTagsForResource", json_pack("{s:s}", "resourceArn", arn),
                                arena);
}

struct aws_request logs_tag(const char *arn, const struct value *tags, struct arena *arena) {
        return aws_json_request(AWS_LOGS, "TagResource",
                                json_pack("{s:s, s:o}", "resourceArn", arn, "tags", aws_json_map(tags)),
                                arena);
}

struct aws_request logs_untag(const char *arn, const struct value *tags, struct arena *arena) {
        json_t *keys = json_array();

        for (uint32_t i = 0; i < tags->count; i++)
                json_array_append_new(keys, json_string(tags->members[i].name));
        return aws_json_request(AWS_LOGS, "UntagResource",
                                json_pack("{s:s, s:o}", "resourceArn", arn, "tagKeys", keys), arena);
}
