/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/services/ecr.h"

#include "providers/aws/client/support.h"

static void requests_say_what_they_ask(void **state) {
        struct value *tags = value_new_map(arena);
        struct value yes = value_boolean(true), no = value_boolean(false);

        (void)state;
        value_set_text(arena, tags, "berth:stack", "s");
        assert_string_equal(
                ecr_create_repository("a/b", tags, &yes, &no, arena).body,
                "{\"imageScanningConfiguration\":{\"scanOnPush\":true},\"imageTagMutability\":\"MUTABLE\","
                "\"repositoryName\":\"a/b\",\"tags\":[{\"Key\":\"berth:stack\",\"Value\":\"s\"}]}");
        assert_string_equal(ecr_create_repository("a/b", NULL, NULL, NULL, arena).body,
                            "{\"repositoryName\":\"a/b\",\"tags\":[]}");
        assert_string_equal(ecr_delete_repository("a/b", arena).body, "{\"repositoryName\":\"a/b\"}");
        assert_string_equal(ecr_untag("arn", tags, arena).body,
                            "{\"resourceArn\":\"arn\",\"tagKeys\":[\"berth:stack\"]}");
        assert_string_equal(ecr_describe_images("a", "t", arena).body,
                            "{\"maxResults\":1000,\"nextToken\":\"t\",\"repositoryName\":\"a\"}");
        assert_string_equal(ecr_download_url("a", DIGEST, arena).body,
                            "{\"layerDigest\":\"" DIGEST "\",\"repositoryName\":\"a\"}");
        assert_string_equal(ecr_put_mutability("a", true, arena).body,
                            "{\"imageTagMutability\":\"IMMUTABLE\",\"repositoryName\":\"a\"}");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(requests_say_what_they_ask),
        };

        return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
