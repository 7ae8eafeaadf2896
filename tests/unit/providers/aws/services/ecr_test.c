/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/services/ecr.h"

#include "providers/aws/client/support.h"

static void requests_say_what_they_ask(void **state) {
        struct value *tags = value_new_map(arena), *moved = value_new_list(arena);
        struct value yes = value_boolean(true), no = value_boolean(false);

        (void)state;
        value_set_text(arena, tags, "berth:stack", "s");
        assert_string_equal(
                ecr_create_repository("a/b", tags, &yes, (struct ecr_mutability){ &no, NULL }, arena).body,
                "{\"imageScanningConfiguration\":{\"scanOnPush\":true},\"imageTagMutability\":\"MUTABLE\","
                "\"repositoryName\":\"a/b\",\"tags\":[{\"Key\":\"berth:stack\",\"Value\":\"s\"}]}");
        assert_string_equal(
                ecr_create_repository("a/b", NULL, NULL, (struct ecr_mutability){ 0 }, arena).body,
                "{\"repositoryName\":\"a/b\",\"tags\":[]}");
        assert_string_equal(ecr_delete_repository("a/b", arena).body, "{\"repositoryName\":\"a/b\"}");
        assert_string_equal(ecr_untag("arn", tags, arena).body,
                            "{\"resourceArn\":\"arn\",\"tagKeys\":[\"berth:stack\"]}");
        assert_string_equal(ecr_describe_images("a", "t", arena).body,
                            "{\"maxResults\":1000,\"nextToken\":\"t\",\"repositoryName\":\"a\"}");
        assert_string_equal(ecr_download_url("a", DIGEST, arena).body,
                            "{\"layerDigest\":\"" DIGEST "\",\"repositoryName\":\"a\"}");
        assert_string_equal(ecr_put_mutability("a", (struct ecr_mutability){ &yes, NULL }, arena).body,
                            "{\"imageTagMutability\":\"IMMUTABLE\",\"repositoryName\":\"a\"}");
        value_append(arena, moved, value_text(arena, "dev-*"));
        assert_string_equal(
                ecr_put_mutability("a", (struct ecr_mutability){ &yes, moved }, arena).body,
                "{\"imageTagMutability\":\"IMMUTABLE_WITH_EXCLUSION\",\"imageTagMutabilityExclusionFilters\":"
                "[{\"filter\":\"dev-*\",\"filterType\":\"WILDCARD\"}],\"repositoryName\":\"a\"}");
}

/* Reading names the other registry; what changes anything is never sent there. */
static void another_registry_is_only_read(void **state) {
        const char *there = "999999999999.dkr.ecr.eu-west-1.amazonaws.com/team/tool";

        (void)state;
        assert_string_equal(ecr_download_url(there, DIGEST, arena).body,
                            "{\"layerDigest\":\"" DIGEST
                            "\",\"registryId\":\"999999999999\",\"repositoryName\":\"team/tool\"}");
        assert_string_equal(ecr_describe_images(there, NULL, arena).body,
                            "{\"maxResults\":1000,\"registryId\":\"999999999999\","
                            "\"repositoryName\":\"team/tool\"}");
        assert_non_null(strstr(ecr_batch_get_image(there, json_array(), arena).body,
                               "\"registryId\":\"999999999999\",\"repositoryName\":\"team/tool\"}"));
        assert_null(strstr(ecr_delete_repository(there, arena).body, "registryId"));
        assert_null(strstr(ecr_put_lifecycle_policy(there, "{}", arena).body, "registryId"));
        assert_int_equal(ecr_registry_in_front(there), 44);
        assert_int_equal(ecr_registry_in_front("team/tool"), 0);
        assert_int_equal(ecr_registry_in_front("999999999999.dkr.ecr.eu-west-1.amazonaws.com"), 0);
        assert_int_equal(ecr_registry_in_front("9999999999999.dkr.ecr.eu-west-1.amazonaws.com/a"), 0);
        assert_int_equal(ecr_registry_in_front("localhost:5000/a"), 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(requests_say_what_they_ask),
                cmocka_unit_test(another_registry_is_only_read),
        };

        return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
