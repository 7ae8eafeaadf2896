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

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(uris_come_apart),
                cmocka_unit_test(partitions_have_their_own_domains),
        };

        return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
