/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/services/kms.h"

struct aws_request kms_describe_key(const char *key, struct arena *arena) {
        return aws_json_request(AWS_KMS, "DescribeKey", json_pack("{s:s}", "KeyId", key), arena);
}
