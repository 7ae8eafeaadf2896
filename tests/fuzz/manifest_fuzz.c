/* SPDX-License-Identifier: Apache-2.0 */
/* Arbitrary bytes as a manifest, loaded and laid out. Seeds: tests/unit/schema/corpus, which corpus_test.c knows more about. */
#include "base/json.h"
#include "parts.h"
#include "schema/format.h"
#include "schema/manifests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Whatever loads must survive being stored. */
static void check_resource(struct arena *arena, const struct resource *resource) {
        static const uint8_t key[SHA256_SIZE] = { 1 };
        json_t *json JSON_CLEANUP = value_to_json(resource->spec, key);
        struct value read = value_from_json(arena, json);
        uint8_t before[SHA256_SIZE], after[SHA256_SIZE];

        if (!value_equal(resource->spec, &read, key))
                abort();
        value_fingerprint(resource->spec, key, before);
        value_fingerprint(&read, key, after);
        if (memcmp(before, after, SHA256_SIZE) != 0)
                abort();
}

static void load(const char *path) {
        static const struct load_options options = { 0 };
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct diagnostics diagnostics;
        struct manifests manifests;
        struct error err = { 0 };
        FILE *null = fopen("/dev/null", "we");

        diagnostics_init(&diagnostics, arena);
        if (manifests_load(path, &options, arena, &manifests, &diagnostics, &err) == 0) {
                for (size_t i = 0; i < manifests.count; i++)
                        check_resource(arena, &manifests.resources[i]);
        } else if (diagnostics.errors == 0) {
                abort();
        }
        if (null) {
                diagnostics_print(&diagnostics, null);
                fclose(null);
        }
        json_decref(diagnostics_to_json(&diagnostics));
}

/* A text that was laid out stays as it is. */
static void lay_out(const char *text, size_t length) {
        struct strbuf once STRBUF_CLEANUP = STRBUF_INIT, twice STRBUF_CLEANUP = STRBUF_INIT;
        struct error err;

        if (format_yaml(text, length, &once, &err) < 0)
                return;
        if (format_yaml(strbuf_text(&once), once.length, &twice, &err) < 0 || once.length != twice.length ||
            memcmp(strbuf_text(&once), strbuf_text(&twice), once.length) != 0)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        char path[MEMORY_PATH_SIZE];
        int descriptor = memory_file(data, size, path);

        load(path);
        close(descriptor);
        lay_out((const char *)data, size);
        return 0;
}
