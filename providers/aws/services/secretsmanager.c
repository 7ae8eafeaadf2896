/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/services/secretsmanager.h"

#include "base/json.h"

struct aws_request secretsmanager_describe(const char *arn, const char *region, struct arena *arena) {
        struct aws_request request =
                aws_json_request(AWS_SECRETS, "DescribeSecret", json_pack("{s:s}", "SecretId", arn), arena);

        request.region = region;
        return request;
}

struct aws_request secretsmanager_get_value(const char *arn, const char *region, const char *version_id,
                                            const char *stage, struct arena *arena) {
        json_t *body = json_pack("{s:s}", "SecretId", arn);
        struct aws_request request;

        json_set_text(body, "VersionId", version_id);
        json_set_text(body, "VersionStage", stage);
        request = aws_json_request(AWS_SECRETS, "GetSecretValue", body, arena);
        request.region = region;
        return request;
}
