/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/services/ssm.h"

#include "base/json.h"

struct aws_request ssm_describe(json_t *names, const char *region, const char *token, struct arena *arena) {
        json_t *body = json_pack("{s:i}", "MaxResults", 50);
        struct aws_request request;

        if (names)
                json_object_set_new(
                        body, "ParameterFilters",
                        json_pack("[{s:s, s:s, s:o}]", "Key", "Name", "Option", "Equals", "Values", names));
        else
                json_object_set_new(body, "Shared", json_true());
        json_set_text(body, "NextToken", token);
        request = aws_json_request(AWS_SSM, "DescribeParameters", body, arena);
        request.region = region;
        return request;
}

struct aws_request ssm_get(json_t *arns, const char *region, struct arena *arena) {
        struct aws_request request = aws_json_request(
                AWS_SSM, "GetParameters", json_pack("{s:o, s:b}", "Names", arns, "WithDecryption", 1), arena);

        request.region = region;
        return request;
}
