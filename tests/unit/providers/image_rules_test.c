/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "providers/image_rules.h"

#include <string.h>

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void test_manifests(void **state) {
        static const struct {
                const char *text, *type; /* as the registry says, besides */
                const char *problem, *seen;
        } rows[] = {
                { "{\"config\": {\"digest\": \"d\"}, \"layers\": [{\"size\": 5}, {\"size\": 7}]}", NULL, NULL,
                  NULL },
                { "{\"mediaType\": \"application/vnd.docker.distribution.manifest.v2+json\"}", NULL, NULL,
                  NULL },
                { "{}", "application/vnd.oci.image.manifest.v1+json", NULL, NULL },
                { "{}", NULL, "media-type", "unknown" },
                { "{}", "", "media-type", "unknown" },
                { NULL, NULL, "media-type", "unknown" },
                { "{\"manifests\": []}", NULL, "index", "nothing" },
                { "{\"manifests\": [{\"platform\": {\"os\": \"linux\", \"architecture\": \"arm64\"}}, {}]}",
                  NULL, "index", "linux/arm64, ?/?" },
                { "{\"config\": {}}", "application/vnd.oci.image.index.v1+json", "index",
                  "index of several" },
                { "{\"config\": {\"mediaType\": \"application/vnd.cncf.helm.config.v1+json\"}}", NULL,
                  "media-type", "helm" },
                { "{\"config\": {}, \"layers\": [{\"size\": 10737418240}]}", NULL, NULL, NULL },
                { "{\"config\": {}, \"layers\": [{\"size\": 10737418240}, {\"size\": 1}]}", NULL, "size",
                  "10.0 GB" },
                { "{\"config\": {}, \"layers\": [{\"size\": 9223372036854775807}, {\"size\": 9223372036854775807}]}",
                  NULL, "size", "at most 10 GB" },
                { "{\"config\": {}, \"layers\": [{\"size\": -5}]}", NULL, NULL, NULL },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                json_t *manifest JSON_CLEANUP = rows[i].text ? json_loads(rows[i].text, 0, NULL) : NULL;
                struct image_verdict verdict = { 0 };

                image_rules_judge_manifest(manifest, rows[i].type, &verdict, arena);
                if (rows[i].problem) {
                        assert_non_null(verdict.problem);
                        assert_string_equal(verdict.problem, rows[i].problem);
                        assert_non_null(strstr(verdict.seen, rows[i].seen));
                } else {
                        assert_null(verdict.problem);
                }
        }
}

static void test_what_a_manifest_tells(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        json_t *manifest JSON_CLEANUP = json_loads(
                "{\"config\": {\"digest\": \"sha256:c\"}, \"layers\": [{\"size\": 5}, {\"size\": 7}]}", 0,
                NULL);
        struct image_verdict verdict = { 0 };

        (void)state;
        image_rules_judge_manifest(manifest, NULL, &verdict, arena);
        assert_string_equal(verdict.config, "sha256:c");
        assert_string_equal(verdict.media_type, image_rules_oci_manifest);
        assert_int_equal(verdict.size, 12);
        assert_null(verdict.platform);
}

static void test_configurations(void **state) {
        static const struct {
                const char *text, *platform, *problem;
        } rows[] = {
                { "{\"os\": \"linux\", \"architecture\": \"amd64\"}", "linux/amd64", NULL },
                { "{\"os\": \"linux\", \"architecture\": \"arm64\"}", "linux/arm64", "platform" },
                { "{\"os\": \"windows\", \"architecture\": \"amd64\"}", "windows/amd64", "platform" },
                { "{\"os\": \"\", \"architecture\": \"amd64\"}", NULL, "platform" },
                { "{\"architecture\": \"amd64\"}", NULL, "platform" },
                { "[]", NULL, "platform" },
                { "not JSON", NULL, "platform" },
                { "", NULL, "platform" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                struct image_verdict verdict = { 0 };

                image_rules_judge_config(rows[i].text, strlen(rows[i].text), &verdict, arena);
                if (rows[i].platform)
                        assert_string_equal(verdict.platform, rows[i].platform);
                else
                        assert_null(verdict.platform);
                if (rows[i].problem)
                        assert_string_equal(verdict.problem, rows[i].problem);
                else
                        assert_null(verdict.problem);
        }
}

static void test_names(void **state) {
        static const struct {
                const char *text;
                bool (*is)(const char *text);
                bool expected;
        } rows[] = {
                { "data/etl", image_rules_is_repository, true },
                { "my.team/a-b_c", image_rules_is_repository, true },
                { "x2", image_rules_is_repository, true },
                { "x", image_rules_is_repository, false },
                { "", image_rules_is_repository, false },
                { "/a/b", image_rules_is_repository, false },
                { "a/b/", image_rules_is_repository, false },
                { "a//b", image_rules_is_repository, false },
                { "../a", image_rules_is_repository, false },
                { "a/../b", image_rules_is_repository, false },
                { "a/.b", image_rules_is_repository, false },
                { "A/b", image_rules_is_repository, false },
                { "a b", image_rules_is_repository, false },
                { "1.10", image_rules_is_tag, true },
                { "Latest_1-x", image_rules_is_tag, true },
                { "", image_rules_is_tag, false },
                { ".x", image_rules_is_tag, false },
                { "-x", image_rules_is_tag, false },
                { "a/b", image_rules_is_tag, false },
                { "sha256:" HEX, image_rules_is_digest, true },
                { "sha256:" HEX "0", image_rules_is_digest, false },
                { "sha256:../../../../../../../../../../../../../../../../../../../etc/x",
                  image_rules_is_digest, false },
                { "sha512:" HEX, image_rules_is_digest, false },
                { "sha256:", image_rules_is_digest, false },
                { "", image_rules_is_digest, false },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                if (rows[i].is(rows[i].text) != rows[i].expected)
                        fail_msg("row %zu: %s", i, rows[i].text);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_manifests),
                cmocka_unit_test(test_what_a_manifest_tells),
                cmocka_unit_test(test_configurations),
                cmocka_unit_test(test_names),
        };

        return cmocka_run_group_tests_name("image_rules", tests, NULL, NULL);
}
