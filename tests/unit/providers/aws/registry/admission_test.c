/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/registry/admission.h"

#include "providers/aws/shared/support.h"

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
        { "a chart",
          "{" ID ", \"imageManifestMediaType\": \"" OCI "\", " MANIFEST(
                  "{\\\"config\\\": {\\\"mediaType\\\": \\\"application/vnd.cncf.helm.config.v1+json\\\"}}") "}",
          "media-type", "helm.config" },
        { "as large as can be",
          "{" ID ", \"imageManifestMediaType\": \"" OCI
          "\", " MANIFEST("{\\\"layers\\\": [{\\\"size\\\": 10737418239}, {\\\"size\\\": 1}]}") "}",
          NULL, NULL },
        { "a byte too large",
          "{" ID ", \"imageManifestMediaType\": \"" OCI
          "\", " MANIFEST("{\\\"layers\\\": [{\\\"size\\\": 10737418240}, {\\\"size\\\": 1}]}") "}",
          "size", "10.0 GB" },
        { "sizes that would overflow, and one that lies",
          "{" ID ", \"imageManifestMediaType\": \"" OCI "\", " MANIFEST(
                  "{\\\"layers\\\": [{\\\"size\\\": 9223372036854775807}, {\\\"size\\\": -5}, {\\\"size\\\": 1}]}") "}",
          "size", NULL },
        { "no digest", "{\"imageManifestMediaType\": \"" OCI "\"}", "unread", "no digest" },
        { "what is no digest", "{\"imageId\": {\"imageDigest\": \"latest\"}}", "unread", "no digest" },
        { "a digest with more behind it",
          "{\"imageId\": {\"imageDigest\": \"" DIGEST "/x\"}, \"imageManifestMediaType\": \"" OCI "\"}",
          "unread", "no digest" },
};

static void manifests_are_judged(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(images) / sizeof(*images); i++) {
                struct ecr_reference reference = { .repository = "r", .tag = "t" };
                json_t *image JSON_CLEANUP = json_loads(images[i].image, 0, NULL);

                print_message("  %s\n", images[i].name);
                assert_non_null(image);
                admission_judge_manifest(image, &reference, arena);
                assert_text(reference.problem, images[i].problem);
                /* Of use or not, it is what the name means. */
                assert_text(reference.resolved,
                            strcmp(reference.problem ? reference.problem : "", "unread") ? DIGEST : NULL);
                if (images[i].says)
                        assert_non_null(strstr(reference.message, images[i].says));
        }
}

static const struct {
        const char *config, *platform;
        const char *problem, *says;
} configs[] = {
        { "{\"os\": \"linux\", \"architecture\": \"amd64\"}", "linux/amd64", NULL, NULL },
        { "{\"os\": \"linux\", \"architecture\": \"amd64\", \"variant\": \"v2\"}", "linux/amd64", NULL,
          NULL },
        { "{\"os\": \"linux\", \"architecture\": \"arm64\"}", "linux/arm64", "platform",
          "r:t is built for linux/arm64, and environments run linux/amd64 only" },
        { "{\"os\": \"windows\", \"architecture\": \"amd64\"}", "windows/amd64", "platform",
          "windows/amd64" },
        { "{\"os\": \"linux\"}", NULL, "platform", "names no platform" },
        { "{\"os\": 1, \"architecture\": 2}", NULL, "platform", "names no platform" },
        { "{\"os\": \"\", \"architecture\": \"\"}", NULL, "platform", "names no platform" },
        { "[]", NULL, "platform", "names no platform" },
        { "not JSON", NULL, "platform", "names no platform" },
        { "", NULL, "platform", "names no platform" },
};

static void configurations_are_judged(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(configs) / sizeof(*configs); i++) {
                struct ecr_reference reference = { .repository = "r", .tag = "t", .resolved = DIGEST };

                print_message("  %s\n", configs[i].config);
                admission_judge_config(configs[i].config, strlen(configs[i].config), &reference, arena);
                assert_text(reference.platform, configs[i].platform);
                assert_text(reference.problem, configs[i].problem);
                if (configs[i].says)
                        assert_non_null(strstr(reference.message, configs[i].says));
        }
}

static void only_what_the_digest_says_is_kept(void **state) {
        struct ecr_reference good = {
                .repository = "r", .tag = "t", .resolved = DIGEST, .platform = "linux/amd64"
        };
        struct ecr_reference missing = {
                .repository = "r", .tag = "t", .problem = "missing", .message = "x"
        };
        struct ecr_reference unread = {
                .repository = "r", .tag = "t", .resolved = DIGEST, .problem = "unread", .message = "x"
        };
        struct ecr_reference unjudged = { .repository = "r", .tag = "t", .resolved = DIGEST };
        struct ecr_reference bad = {
                .repository = "r", .tag = "t", .resolved = DIGEST, .platform = "linux/arm64"
        };
        const struct value *verdict;

        (void)state;
        assert_null(admission_verdict(&missing, arena));
        assert_null(admission_verdict(&unread, arena));
        assert_null(admission_verdict(&unjudged, arena));
        verdict = admission_verdict(&good, arena);
        assert_text(value_get_text(verdict, "digest"), DIGEST);
        assert_null(value_get(verdict, "problem"));
        ecr_reference_refuse(&bad, "platform", "is built for linux/arm64", arena);
        verdict = admission_verdict(&bad, arena);
        assert_text(value_get_text(verdict, "problem"), "platform");
        assert_text(value_get_text(verdict, "seen"), "is built for linux/arm64");
}

/* A verdict of an earlier run, on the same digest under another name, needs no call: the client is NULL. */
static void what_is_known_is_not_asked_again(void **state) {
        struct admission_memory memory = { .arena = arena };
        struct provider offline = team;
        struct value *verdict = value_new_map(arena);
        struct ecr_reference references[] = {
                { .repository = "r", .tag = "t", .resolved = DIGEST },
                { .repository = "other", .digest = DIGEST, .resolved = DIGEST },
                { .repository = "r",
                  .tag = "gone",
                  .problem = "missing",
                  .message = "r:gone does not exist" },
                { .repository = "r", .tag = "watched", .resolved = "sha256:other", .watched = true },
        };
        struct error err;

        (void)state;
        value_set_text(arena, verdict, "digest", DIGEST);
        value_set_text(arena, verdict, "platform", "linux/arm64");
        value_set_text(arena, verdict, "problem", "platform");
        value_set_text(arena, verdict, "seen", "is built for linux/arm64");
        admission_remember(&memory, NULL);
        admission_remember(&memory, value_new_map(arena));
        for (int i = 0; i < 40; i++)
                admission_remember(&memory, verdict);
        assert_int_equal(memory.count, 1);
        assert_int_equal(admission_check(&offline, references, 4, &memory, arena, &err), 0);
        assert_text(references[0].message, "r:t is built for linux/arm64");
        assert_text(references[1].message, "other@" DIGEST " is built for linux/arm64");
        assert_text(references[2].problem, "missing");
        assert_null(references[3].problem);
}

static void remedies_can_be_copied(void **state) {
        (void)state;
        assert_string_equal(
                admission_build_command(&team, "a/b", "v1", arena),
                "docker buildx build --platform linux/amd64 --provenance=false --sbom=false --push "
                "-t 123456789012.dkr.ecr.eu-west-1.amazonaws.com/a/b:v1 .");
        assert_non_null(strstr(admission_remedy(&team, "a/b", "v1", "repository", arena),
                               "aws ecr create-repository --region eu-west-1 --repository-name a/b\n"));
        assert_null(strstr(admission_remedy(&team, "a/b", "v1", "index", arena), "create-repository"));
        assert_non_null(strstr(admission_remedy(&team, "a/b", NULL, "missing", arena), "a/b:TAG ."));
        assert_non_null(strstr(admission_remedy(&team, "a/b", "v1", "denied", arena), "ecr:BatchGetImage"));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(manifests_are_judged),
                cmocka_unit_test(configurations_are_judged),
                cmocka_unit_test(only_what_the_digest_says_is_kept),
                cmocka_unit_test(what_is_known_is_not_asked_again),
                cmocka_unit_test(remedies_can_be_copied),
        };

        return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
