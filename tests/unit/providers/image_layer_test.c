/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/image_layer.h"

#include "base/digest.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "providers/image_rules.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define OLD "sha256:1111111111111111111111111111111111111111111111111111111111111111"
#define NEW "sha256:2222222222222222222222222222222222222222222222222222222222222222"
#define TAR "sha256:3333333333333333333333333333333333333333333333333333333333333333"
#define OCI "application/vnd.oci.image.manifest.v1+json"
#define DOCKER "application/vnd.docker.distribution.manifest.v2+json"
#define CONFIG_TYPE "application/vnd.oci.image.config.v1+json"
#define PLATFORM "\"os\": \"linux\", \"architecture\": \"amd64\""
#define ONE_ID "\"rootfs\": {\"type\": \"layers\", \"diff_ids\": [\"" TAR "\"]}"
#define ONE_LAYER "[{\"mediaType\": \"x\", \"digest\": \"" OLD "\", \"size\": 3}]"

static struct arena *arena;
static const struct image_layer layer = {
        .bytes = "layer", .length = 5, .digest = NEW, .diff_id = TAR, .version = "1.2.3"
};

static int open_arena(void **state) {
        (void)state;
        arena = arena_new();
        return 0;
}

static int close_arena(void **state) {
        (void)state;
        arena_free(arena);
        return 0;
}

/* The two documents of an image, the manifest with the configuration's true digest. */
static struct image_documents make(const char *type, const char *layers, const char *config) {
        char hex[SHA256_HEX_SIZE];
        struct image_documents image = { .config = config, .config_length = strlen(config), .type = type };

        digest_sha256_hex(config, strlen(config), hex);
        image.manifest = arena_printf(arena,
                                      "{\"schemaVersion\": 2, \"config\": {\"mediaType\": \"" CONFIG_TYPE
                                      "\", \"digest\": \"sha256:%s\", \"size\": %zu}, \"layers\": %s}",
                                      hex, strlen(config), layers);
        image.manifest_length = strlen(image.manifest);
        return image;
}

static struct image_documents documents_of(const struct image_layered *layered) {
        return (struct image_documents){ .manifest = layered->manifest,
                                         .config = layered->config,
                                         .manifest_length = strlen(layered->manifest),
                                         .config_length = strlen(layered->config),
                                         .type = layered->type };
}

static void the_layer_comes_on_top(void **state) {
        static const struct {
                const char *type, *of_layer;
        } forms[] = { { OCI, "application/vnd.oci.image.layer.v1.tar+gzip" },
                      { DOCKER, "application/vnd.docker.image.rootfs.diff.tar.gzip" } };

        (void)state;
        for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
                struct image_documents image = make(
                        forms[i].type, ONE_LAYER,
                        "{" PLATFORM
                        ", \"created\": \"2020-01-01T00:00:00Z\", \"config\": {\"Cmd\": [\"a\"], "
                        "\"Labels\": {\"mine\": \"kept\"}}, \"history\": [{\"created_by\": \"b\"}], " ONE_ID
                        "}");
                json_t *manifest JSON_CLEANUP = NULL, *config JSON_CLEANUP = NULL;
                const json_t *added, *labels;
                struct image_layered layered;
                struct error err;

                assert_int_equal(image_layer_add(&image, &layer, arena, &layered, &err), 0);
                manifest = json_loads(layered.manifest, 0, NULL);
                config = json_loads(layered.config, 0, NULL);
                assert_false(layered.same);
                assert_int_equal(layered.size, 3 + 5);
                assert_string_equal(layered.type, forms[i].type);
                assert_string_equal(json_text(manifest, "mediaType"), forms[i].type);
                assert_int_equal(json_array_size(json_object_get(manifest, "layers")), 2);
                added = json_array_get(json_object_get(manifest, "layers"), 1);
                assert_string_equal(json_text(added, "mediaType"), forms[i].of_layer);
                assert_string_equal(json_text(added, "digest"), NEW);
                assert_int_equal(json_integer_or(added, "size", 0), 5);
                assert_string_equal(json_text(json_object_get(manifest, "config"), "digest"),
                                    layered.config_digest);
                assert_int_equal(
                        json_array_size(json_object_get(json_object_get(config, "rootfs"), "diff_ids")), 2);
                assert_int_equal(json_array_size(json_object_get(config, "history")), 2);
                assert_string_equal(json_text(config, "created"), "2020-01-01T00:00:00Z");
                labels = json_object_get(json_object_get(config, "config"), "Labels");
                assert_string_equal(json_text(labels, "mine"), "kept");
                assert_string_equal(json_text(labels, IMAGE_RULES_RUNTIME), "1.2.3");
                assert_string_equal(image_rules_runtime(layered.config, strlen(layered.config), arena),
                                    "1.2.3");
        }
}

static void twice_is_once(void **state) {
        struct image_documents image = make(OCI, ONE_LAYER, "{" PLATFORM ", \"config\": null, " ONE_ID "}"),
                               again;
        struct image_layer renamed = layer;
        struct image_layered first, second;
        struct error err;
        json_t *manifest JSON_CLEANUP = NULL;

        (void)state;
        assert_int_equal(image_layer_add(&image, &layer, arena, &first, &err), 0);
        again = documents_of(&first);
        assert_int_equal(image_layer_add(&again, &layer, arena, &second, &err), 0);
        assert_true(second.same);
        assert_string_equal(second.manifest_digest, first.manifest_digest);
        assert_string_equal(second.config_digest, first.config_digest);
        /* The bytes are there and the label says another version: the label alone changes. */
        renamed.version = "1.2.4";
        assert_int_equal(image_layer_add(&again, &renamed, arena, &second, &err), 0);
        assert_false(second.same);
        manifest = json_loads(second.manifest, 0, NULL);
        assert_int_equal(json_array_size(json_object_get(manifest, "layers")), 2);
        assert_string_equal(image_rules_runtime(second.config, strlen(second.config), arena), "1.2.4");
}

static const struct {
        const char *type, *layers, *config, *says;
} bad[] = {
        { OCI, ONE_LAYER, "{" PLATFORM ", \"rootfs\": {\"diff_ids\": []}}",
          "names 1 layers and its configuration 0" },
        { OCI, ONE_LAYER, "{" PLATFORM "}", "names 1 layers" },
        { OCI, "{}", "{" PLATFORM ", " ONE_ID "}", "names 0 layers" },
        { OCI, "[{\"digest\": \"sha256:../../etc\"}]", "{" PLATFORM ", " ONE_ID "}", "by no digest" },
        { OCI, "[7]", "{" PLATFORM ", " ONE_ID "}", "by no digest" },
        { OCI, ONE_LAYER, "{\"os\": \"linux\", \"architecture\": \"arm64\", " ONE_ID "}", "linux/arm64" },
        { OCI, ONE_LAYER, "{" PLATFORM ", \"config\": 7, " ONE_ID "}", "has invalid settings or labels" },
        { OCI, ONE_LAYER, "{" PLATFORM ", \"config\": {\"Labels\": []}, " ONE_ID "}",
          "has invalid settings or labels" },
        { OCI, ONE_LAYER, "{" PLATFORM ", \"os\": \"linux\", " ONE_ID "}", "no JSON object" },
        { OCI, ONE_LAYER, "[]", "no JSON object" },
        { "application/vnd.oci.image.index.v1+json", ONE_LAYER, "{" PLATFORM ", " ONE_ID "}", "an index" },
};

static void what_does_not_fit_is_refused(void **state) {
        struct image_documents image = make(OCI, ONE_LAYER, "{" PLATFORM ", " ONE_ID "}");
        struct image_layered layered;
        struct error err;
        char *deep = arena_alloc(arena, 200001);

        (void)state;
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                struct image_documents one = make(bad[i].type, bad[i].layers, bad[i].config);

                print_message("  %s\n", bad[i].says);
                assert_int_equal(image_layer_add(&one, &layer, arena, &layered, &err), -1);
                assert_non_null(strstr(err.message, bad[i].says));
        }
        /* Another configuration than the manifest's. */
        image.config = "{" PLATFORM ",  " ONE_ID "}";
        image.config_length = strlen(image.config);
        assert_int_equal(image_layer_add(&image, &layer, arena, &layered, &err), -1);
        assert_non_null(strstr(err.message, "not what its manifest says"));
        memset(deep, '[', 200000);
        deep[200000] = '\0';
        image.manifest = deep;
        image.manifest_length = 200000;
        assert_int_equal(image_layer_add(&image, &layer, arena, &layered, &err), -1);
        assert_null(image_rules_runtime(deep, 200000, arena));
}

static void as_many_layers_as_lambda_takes(void **state) {
        struct strbuf layers STRBUF_CLEANUP = STRBUF_INIT, ids STRBUF_CLEANUP = STRBUF_INIT;
        struct image_documents image;
        struct image_layered layered;
        struct error err;

        (void)state;
        for (int i = 0; i < IMAGE_LAYERS_MAX; i++) {
                if (i == IMAGE_LAYERS_MAX - 1) {
                        image = make(OCI, arena_printf(arena, "[%s]", strbuf_text(&layers)),
                                     arena_printf(arena, "{" PLATFORM ", \"rootfs\": {\"diff_ids\": [%s]}}",
                                                  strbuf_text(&ids)));
                        assert_int_equal(image_layer_add(&image, &layer, arena, &layered, &err), 0);
                }
                strbuf_append(&layers, i ? ", {\"digest\": \"" OLD "\"}" : "{\"digest\": \"" OLD "\"}");
                strbuf_append(&ids, i ? ", \"" TAR "\"" : "\"" TAR "\"");
        }
        image = make(
                OCI, arena_printf(arena, "[%s]", strbuf_text(&layers)),
                arena_printf(arena, "{" PLATFORM ", \"rootfs\": {\"diff_ids\": [%s]}}", strbuf_text(&ids)));
        assert_int_equal(image_layer_add(&image, &layer, arena, &layered, &err), -1);
        assert_non_null(strstr(err.message, "127 layers"));
}

static void a_label_is_a_version_or_none(void **state) {
        static const struct {
                const char *config, *version;
        } labels[] = {
                { "{\"config\": {\"Labels\": {\"berth.runtime\": \"0.2.0-rc1\"}}}", "0.2.0-rc1" },
                { "{\"config\": {\"Labels\": {\"berth.runtime\": \"\"}}}", NULL },
                { "{\"config\": {\"Labels\": {\"berth.runtime\": \"1\\u001b[31m\"}}}", NULL },
                { "{\"config\": {\"Labels\": {\"berth.runtime\": 7}}}", NULL },
                { "{\"config\": {\"Labels\": null}}", NULL },
                { "{}", NULL },
                { "", NULL },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++) {
                const char *version = image_rules_runtime(labels[i].config, strlen(labels[i].config), arena);

                print_message("  %s\n", labels[i].config);
                if (labels[i].version)
                        assert_string_equal(version, labels[i].version);
                else
                        assert_null(version);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_layer_comes_on_top),
                cmocka_unit_test(twice_is_once),
                cmocka_unit_test(what_does_not_fit_is_refused),
                cmocka_unit_test(as_many_layers_as_lambda_takes),
                cmocka_unit_test(a_label_is_a_version_or_none),
        };

        return cmocka_run_group_tests(tests, open_arena, close_arena);
}
