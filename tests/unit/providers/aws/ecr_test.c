/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"
#include "providers/aws/ecr.h"

#include <string.h>

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define DIGEST "sha256:" HEX
#define REGISTRY "123456789012.dkr.ecr.eu-west-1.amazonaws.com"

static const struct provider provider = {
        .stack_name = "s", .prefix = "p", .region = "eu-west-1", .partition = "aws", .account = "123456789012"
};

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

static void assert_text(const char *found, const char *expected) {
        if (!expected)
                assert_null(found);
        else
                assert_string_equal(found ? found : "(null)", expected);
}

static void uris_come_apart(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();

        (void)state;
        for (size_t i = 0; i < sizeof(uris) / sizeof(*uris); i++) {
                struct ecr_uri parts = { 0 };

                print_message("  %s\n", uris[i].uri);
                assert_int_equal(ecr_uri_parse(&provider, uris[i].uri, arena, &parts),
                                 uris[i].repository != NULL);
                assert_text(parts.repository, uris[i].repository);
                assert_text(parts.tag, uris[i].tag);
                assert_text(parts.digest, uris[i].digest);
        }
}

static void china_has_its_own_domain(void **state) {
        struct provider china = provider;
        struct arena *arena ARENA_CLEANUP = arena_new();

        (void)state;
        china.partition = "aws-cn";
        china.region = "cn-north-1";
        assert_string_equal(ecr_registry(&china, arena), "123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn");
        assert_string_equal(ecr_repository_arn(&china, "a/b", arena),
                            "arn:aws-cn:ecr:cn-north-1:123456789012:repository/a/b");
}

#define OCI "application/vnd.oci.image.manifest.v1+json"
#define DOCKER "application/vnd.docker.distribution.manifest.v2+json"
#define INDEX "application/vnd.oci.image.index.v1+json"
#define LIST "application/vnd.docker.distribution.manifest.list.v2+json"
#define ID "\"imageId\": {\"imageDigest\": \"" DIGEST "\", \"imageTag\": \"t\"}"
#define MANIFEST(text) "\"imageManifest\": \"" text "\""

static const struct {
        const char *name, *image;
        const char *problem; /* NULL: of use */
        const char *says;    /* part of the message */
} images[] = {
        { "OCI", "{" ID ", \"imageManifestMediaType\": \"" OCI "\"}", NULL, NULL },
        { "Docker", "{" ID ", \"imageManifestMediaType\": \"" DOCKER "\"}", NULL, NULL },
        { "type only in the manifest", "{" ID ", " MANIFEST("{\\\"mediaType\\\": \\\"" OCI "\\\"}") "}", NULL,
          NULL },
        { "type nowhere, but a config", "{" ID ", " MANIFEST("{\\\"config\\\": {}}") "}", NULL, NULL },
        { "index",
          "{" ID ", \"imageManifestMediaType\": \"" INDEX "\", " MANIFEST(
                  "{\\\"manifests\\\": [{\\\"platform\\\": {\\\"os\\\": \\\"linux\\\", \\\"architecture\\\": "
                  "\\\"arm64\\\"}}, {\\\"platform\\\": {\\\"os\\\": \\\"unknown\\\", \\\"architecture\\\": "
                  "\\\"unknown\\\"}}]}") "}",
          "index", "linux/arm64, an attestation" },
        { "Docker's list", "{" ID ", \"imageManifestMediaType\": \"" LIST "\"}", "index", "r:t is an index" },
        { "index without type", "{" ID ", " MANIFEST("{\\\"manifests\\\": []}") "}", "index", "(nothing;" },
        { "schema 1",
          "{" ID ", \"imageManifestMediaType\": \"application/vnd.docker.distribution.manifest.v1+json\"}",
          "media-type", "manifest.v1+json" },
        { "not an image at all", "{" ID ", " MANIFEST("not JSON") "}", "media-type", "unknown" },
        { "no digest", "{\"imageManifestMediaType\": \"" OCI "\"}", "missing", "no digest" },
};

static void manifests_are_judged(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();

        (void)state;
        for (size_t i = 0; i < sizeof(images) / sizeof(*images); i++) {
                struct ecr_reference reference = { .repository = "r", .tag = "t" };
                json_t *image JSON_CLEANUP = json_loads(images[i].image, 0, NULL);

                print_message("  %s\n", images[i].name);
                assert_non_null(image);
                ecr_judge_manifest(image, &reference, arena);
                assert_text(reference.problem, images[i].problem);
                assert_text(reference.resolved, images[i].problem ? NULL : DIGEST);
                if (images[i].says)
                        assert_non_null(strstr(reference.message, images[i].says));
        }
}

static void requests_say_what_they_ask(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();
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
        assert_string_equal(ecr_put_mutability("a", true, arena).body,
                            "{\"imageTagMutability\":\"IMMUTABLE\",\"repositoryName\":\"a\"}");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(uris_come_apart),
                cmocka_unit_test(china_has_its_own_domain),
                cmocka_unit_test(manifests_are_judged),
                cmocka_unit_test(requests_say_what_they_ask),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
