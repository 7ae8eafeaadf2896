/* SPDX-License-Identifier: Apache-2.0 */
/* CloudWatch Logs (JSON 1.1, Logs_20140328), one function a call. */
#ifndef BERTH_PROVIDERS_AWS_SERVICES_LOGS_H
#define BERTH_PROVIDERS_AWS_SERVICES_LOGS_H

#include "providers/aws/client/aws_json.h"

/*
 * DescribeLogGroups {logGroupNamePrefix, limit 50[, nextToken]} -> {"logGroups": [{logGroupName, retentionInDays?,
 * kmsKeyId?, storedBytes, creationTime}], "nextToken"?}, in byte order of the names. storedBytes runs some hours behind, creationTime is
 * in milliseconds since 1970.
 */
struct aws_request logs_describe_groups(const char *prefix, const char *token, struct arena *arena);
/* Its following pages, for aws_ahead_pages(), as far as the group `last`. */
bool logs_next_groups(const struct aws_response *page, const struct aws_request *first, const char *last,
                      struct arena *arena, struct aws_request *ret);
/* CreateLogGroup {logGroupName, tags[, kmsKeyId]}: ResourceAlreadyExistsException where it exists. `key` is an ARN or NULL. */
struct aws_request logs_create_group(const char *group, const char *key, const struct value *tags,
                                     struct arena *arena);
/* AssociateKmsKey {logGroupName, kmsKeyId}: encrypts what comes from now on. InvalidParameterException where it cannot. */
struct aws_request logs_associate_key(const char *group, const char *key, struct arena *arena);
/* DeleteLogGroup {logGroupName}: ResourceNotFoundException where it does not exist. */
struct aws_request logs_delete_group(const char *group, struct arena *arena);
/* PutRetentionPolicy {logGroupName, retentionInDays}; only the days that AWS lists are taken. */
struct aws_request logs_put_retention(const char *group, int64_t days, struct arena *arena);
/* DeleteRetentionPolicy {logGroupName}: events are kept forever. */
struct aws_request logs_delete_retention(const char *group, struct arena *arena);
/*
 * ListTagsForResource {resourceArn} -> {"tags": {}}; `arn` is the group's without the ":*" at its end.
 * ResourceNotFoundException where it does not exist.
 */
struct aws_request logs_list_tags(const char *arn, struct arena *arena);
/* TagResource {resourceArn, tags} and UntagResource {resourceArn, tagKeys}, of the keys of `tags`; `arn` as above. */
struct aws_request logs_tag(const char *arn, const struct value *tags, struct arena *arena);
struct aws_request logs_untag(const char *arn, const struct value *tags, struct arena *arena);

#endif
