/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/registry/ecr_uri.h"

#include "providers/aws/shared/support.h"

static const struct {
        const char *uri, *repository, *tag, *digest; /* repository NULL: not an image's URI */
} uris[] = {
        { REGISTRY "/a/b@" DIGEST, "a/b", NULL, DIGEST },
        { REGISTRY "/a/b:1.0", "a/b", "1.0", NULL },
        { REGISTRY "/a:t@" DIGEST, "a", "t", DIGEST },
        { REGISTRY "/a", "a", NULL, NULL },
        { "999999999999.dkr.ecr.eu-west-1.amazonaws.com/a:t",
          "999999999999.dkr.ecr.eu-west-1.amazonaws.com/a", "t", NULL },
        { "localhost:5000/a/b:t", "localhost:5000/a/b", "t", NULL },
        { REGISTRY ".evil.example/a:t", REGISTRY ".evil.example/a", "t", NULL },
        /* As moto writes ResolvedImageUri: no digest that could be believed. */
        { REGISTRY "/a@sha256@sha256:" HEX, "a", NULL, NULL },
        { REGISTRY "/a@sha256:0123", "a", NULL, NULL },
        { "a:t", NULL, NULL, NULL },
        { "/a:t", NULL, NULL, NULL },
        { "", NULL, NULL, NULL },
};

static void uris_come_apart(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(uris) / sizeof(*uris); i++) {
                struct ecr_uri parts = { 0 };

                print_message("  %s\n", uris[i].uri);
                assert_int_equal(ecr_uri_parse(&team, uris[i].uri, arena, &parts),
                                 uris[i].repository != NULL);
                assert_text(parts.repository, uris[i].repository);
                assert_text(parts.tag, uris[i].tag);
                assert_text(parts.digest, uris[i].digest);
        }
}

static void partitions_have_their_own_domains(void **state) {
        struct provider there = team;

        (void)state;
        there.partition = "aws-eusc";
        there.region = "eusc-de-east-1";
        assert_string_equal(ecr_registry(&there, arena), "123456789012.dkr.ecr.eusc-de-east-1.amazonaws.eu");
        there.partition = "aws-cn";
        there.region = "cn-north-1";
        assert_string_equal(ecr_registry(&there, arena), "123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn");
        assert_string_equal(ecr_repository_arn(&there, "a/b", arena),
                            "arn:aws-cn:ecr:cn-north-1:123456789012:repository/a/b");
}

#define OTHER "999999999999.dkr.ecr.eu-west-1.amazonaws.com"

/* Two repositories of the same name in two registries are two. */
static void another_registry_stands_in_front(void **state) {
        struct ecr_uri parts;
        struct provider there = team;

        (void)state;
        assert_string_equal(ecr_repository_known_as(&team, NULL, "a/b", arena), "a/b");
        assert_string_equal(ecr_repository_known_as(&team, REGISTRY, "a/b", arena), "a/b");
        assert_string_equal(ecr_repository_known_as(&team, OTHER, "a/b", arena), OTHER "/a/b");
        assert_true(ecr_uri_parse(&team, OTHER "/a/b@" DIGEST, arena, &parts));
        assert_string_equal(parts.repository, ecr_repository_known_as(&team, OTHER, "a/b", arena));
        assert_string_equal(ecr_name_in_registry(OTHER "/a/b"), "a/b");
        assert_string_equal(ecr_name_in_registry("a/b"), "a/b");
        assert_string_equal(ecr_registry_of(&team, OTHER "/a/b", arena), OTHER);
        assert_string_equal(ecr_registry_of(&team, "a/b", arena), REGISTRY);
        assert_string_equal(ecr_other_account(OTHER "/a/b", arena), "999999999999");
        assert_null(ecr_other_account("a/b", arena));
        assert_string_equal(ecr_repository_arn(&team, OTHER "/a/b", arena),
                            "arn:aws:ecr:eu-west-1:999999999999:repository/a/b");

        assert_true(ecr_registry_is_near(&team, "a/b", arena));
        assert_true(ecr_registry_is_near(&team, OTHER "/a/b", arena));
        assert_false(ecr_registry_is_near(&team, "999999999999.dkr.ecr.eu-west-2.amazonaws.com/a/b", arena));
        assert_false(ecr_registry_is_near(&team, OTHER ".cn/a/b", arena));
        assert_false(ecr_registry_is_near(&team, OTHER ".evil.example/a/b", arena));
        there.partition = "aws-cn";
        there.region = "cn-north-1";
        assert_true(
                ecr_registry_is_near(&there, "999999999999.dkr.ecr.cn-north-1.amazonaws.com.cn/a", arena));
        assert_false(ecr_registry_is_near(&there, "999999999999.dkr.ecr.cn-north-1.amazonaws.com/a", arena));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(uris_come_apart),
                cmocka_unit_test(another_registry_stands_in_front),
                cmocka_unit_test(partitions_have_their_own_domains),
        };

        return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
