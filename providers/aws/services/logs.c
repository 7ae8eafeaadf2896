/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/services/logs.h"

#include "base/json.h"

struct aws_request logs_describe_groups(const char *prefix, const char *token, struct arena *arena) {
        json_t *body = json_pack("{s:s, s:i}", "logGroupNamePrefix", prefix, "limit", 50);

        json_set_text(body, "nextToken", token);
        return aws_json_request(AWS_LOGS, "DescribeLogGroups", body, arena);
}

struct aws_request logs_create_group(const char *group, const struct value *tags, struct arena *arena) {
        json_t *body = json_pack("{s:s}", "logGroupName", group);

        if (tags && tags->count > 0)
                json_object_set_new(body, "tags", aws_json_map(tags));
        return aws_json_request(AWS_LOGS, "CreateLogGroup", body, arena);
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
