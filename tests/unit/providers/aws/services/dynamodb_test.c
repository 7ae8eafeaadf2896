/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/services/dynamodb.h"

#include "base/json.h"
#include "providers/aws/client/support.h"

static void requests_say_what_they_ask(void **state) {
        struct value *tags = value_new_map(arena);
        struct dynamodb_table table = {
                .name = "t", .partition = "shard", .sort = "id", .protected = true, .tags = tags
        };
        const struct dynamodb_query query = {
                .table = "t",
                .condition = "#s = :s",
                .names = json_pack("{s:s}", "#s", "shard"),
                .values = json_pack("{s:o}", ":s", dynamodb_text("x")),
                .after = json_pack("{s:o}", "shard", dynamodb_text("x")),
                .backwards = true,
                .limit = 7,
        };

        (void)state;
        value_set_text(arena, tags, "berth:stack", "s");
        assert_string_equal(
                dynamodb_create_table(&table, arena).body,
                "{\"AttributeDefinitions\":[{\"AttributeName\":\"shard\",\"AttributeType\":\"S\"},{\"AttributeName\":\"id\","
                "\"AttributeType\":\"S\"}],\"BillingMode\":\"PAY_PER_REQUEST\",\"DeletionProtectionEnabled\":true,"
                "\"KeySchema\":[{\"AttributeName\":\"shard\",\"KeyType\":\"HASH\"},{\"AttributeName\":\"id\",\"KeyType\":\"RANGE\"}],"
                "\"SSESpecification\":{\"Enabled\":true,\"SSEType\":\"KMS\"},\"TableName\":\"t\",\"Tags\":[{\"Key\":\"berth:stack\",\"Value\":\"s\"}]}");
        table.kms_key = "arn:key";
        assert_non_null(strstr(
                dynamodb_create_table(&table, arena).body,
                "\"SSESpecification\":{\"Enabled\":true,\"KMSMasterKeyId\":\"arn:key\",\"SSEType\":\"KMS\"}"));
        assert_string_equal(
                dynamodb_query(&query, arena).body,
                "{\"ConsistentRead\":true,\"ExclusiveStartKey\":{\"shard\":{\"S\":\"x\"}},"
                "\"ExpressionAttributeNames\":{\"#s\":\"shard\"},\"ExpressionAttributeValues\":{\":s\":{\"S\":\"x\"}},"
                "\"KeyConditionExpression\":\"#s = :s\",\"Limit\":7,\"ScanIndexForward\":false,\"TableName\":\"t\"}");
        assert_string_equal(
                dynamodb_encrypt_table("t", NULL, arena).body,
                "{\"SSESpecification\":{\"Enabled\":true,\"SSEType\":\"KMS\"},\"TableName\":\"t\"}");
        assert_string_equal(dynamodb_set_expiry("t", "expires", true, arena).body,
                            "{\"TableName\":\"t\",\"TimeToLiveSpecification\":{\"AttributeName\":\"expires\","
                            "\"Enabled\":true}}");
        assert_string_equal(dynamodb_untag("arn", tags, arena).body,
                            "{\"ResourceArn\":\"arn\",\"TagKeys\":[\"berth:stack\"]}");
}

static void numbers(void **state) {
        static const struct {
                const char *text;
                bool fine;
                uint64_t number;
        } cases[] = {
                { "0", true, 0 },
                { "18446744073709551615", true, UINT64_MAX },
                { "18446744073709551616", false, 0 },
                { "", false, 0 },
                { "-1", false, 0 },
                { "1.5", false, 0 },
                { "1e3", false, 0 },
                { " 1", false, 0 },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                json_t *item JSON_CLEANUP = json_pack("{s:{s:s}}", "n", "N", cases[i].text);
                uint64_t number = 0;

                assert_int_equal(dynamodb_number_of(item, "n", &number), cases[i].fine ? 0 : -1);
                assert_int_equal(number, cases[i].number);
                assert_int_equal(dynamodb_number_of(item, "other", &number), -1);
        }
}

static void reasons_of_a_transaction(void **state) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;

        (void)state;
        assert_false(dynamodb_canceled_by(&response, DYNAMODB_REASON_CONDITION));
        strbuf_append(&response.body, "{\"CancellationReasons\":[{\"Code\":\"None\"},{},7,{\"Code\":"
                                      "\"ConditionalCheckFailed\"}]}");
        assert_true(dynamodb_canceled_by(&response, DYNAMODB_REASON_CONDITION));
        assert_false(dynamodb_canceled_by(&response, DYNAMODB_REASON_CONFLICT));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(requests_say_what_they_ask),
                cmocka_unit_test(numbers),
                cmocka_unit_test(reasons_of_a_transaction),
        };

        return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
