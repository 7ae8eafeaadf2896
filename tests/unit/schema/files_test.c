/* SPDX-License-Identifier: Apache-2.0 */
/* Manifests given as bytes are read and judged as those in a folder are, under the names that they were given. */
#include "support.h"

#define HEAD(kind, name) "apiVersion: berth/v1\nkind: " kind "\nmetadata: {name: " name "}\nspec:\n"
#define ENVIRONMENT(name) HEAD("Environment", name) "  image: {prebuilt: python}\n"
#define MARK "\xEF\xBB\xBF"
#define FOLDER "host/team/agents@0123456789ab:"

/* What both ways must say the same about; files in byte order. */
static const struct {
        const char *name, *bytes;
} sets[][3] = {
        { { "a.yaml", ENVIRONMENT("a") }, { "b/b.yml", ENVIRONMENT("b") "  memoryMB: 1\n" } },
        { { "a.yaml", ENVIRONMENT("a") }, { "b.yaml", ENVIRONMENT("a") } },
        { { "a.yaml", ENVIRONMENT("a") "  variables: {X: {value: secret, sensitive: true}\n" } },
        { { "a.yaml", MARK ENVIRONMENT("a") }, { "b.yaml", "" }, { "c.yaml", "# nothing\n" } },
        { { "a.yaml", "\xFF\xFE" } },
        { { "a.yaml", "kind: \x01\n" } },
        { { "a.yaml", HEAD("Agent", "x") "  environment: nowhere\n" } },
        { { "a.yaml", "" } },
        { { NULL, NULL } },
};

static void load_files(struct loaded *loaded, const struct manifest_file *files, size_t count) {
        static const struct load_options none = { 0 };

        loaded->result = manifests_load_files(FOLDER, files, count, &none, loaded->arena, &loaded->manifests,
                                              &loaded->diagnostics, &loaded->err);
        for (size_t i = 0; i < loaded->diagnostics.count; i++)
                say(loaded, &loaded->diagnostics.items[i]);
}

/* The messages of the folder, with what memory calls it in its place. */
static const char *renamed(struct loaded *loaded) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        for (size_t i = 0; i < loaded->diagnostics.count; i++) {
                struct diagnostic *item = &loaded->diagnostics.items[i];
                const char *name = item->file + strlen(loaded->folder);
                const char *place = strstr(item->message, loaded->folder);

                strbuf_printf(&text, "%s%s:%u:%u: %s\n", FOLDER, *name == '/' ? name + 1 : name, item->line,
                              item->column, place ? place + strlen(loaded->folder) + 1 : item->message);
        }
        return arena_strdup(loaded->arena, strbuf_text(&text));
}

static const char *as_given(struct loaded *loaded) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        for (size_t i = 0; i < loaded->diagnostics.count; i++) {
                struct diagnostic *item = &loaded->diagnostics.items[i];
                const char *place = strstr(item->message, FOLDER);

                strbuf_printf(&text, "%s:%u:%u: %s\n", item->file, item->line, item->column,
                              place ? place + strlen(FOLDER) : item->message);
        }
        return arena_strdup(loaded->arena, strbuf_text(&text));
}

static void same_as_a_folder(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
                struct loaded folder, memory;
                struct manifest_file files[3];
                size_t count = 0;

                loaded_begin(&folder);
                loaded_begin(&memory);
                for (; count < 3 && sets[i][count].name; count++) {
                        loaded_write(&folder, sets[i][count].name, sets[i][count].bytes);
                        files[count] = (struct manifest_file){
                                .name = arena_printf(memory.arena, "%s%s", FOLDER, sets[i][count].name),
                                .bytes = sets[i][count].bytes,
                                .length = strlen(sets[i][count].bytes),
                        };
                }
                loaded_load(&folder, "", NULL);
                load_files(&memory, files, count);
                assert_string_equal(as_given(&memory), renamed(&folder));
                assert_int_equal(memory.result, folder.result);
                assert_int_equal(memory.err.kind, folder.err.kind);
                if (memory.result == 0)
                        assert_int_equal(memory.manifests.count, folder.manifests.count);
                loaded_end(&memory);
                loaded_end(&folder);
        }
}

/* Bytes that no NUL ends, as a tree's are. */
static void names_and_bytes(void **state) {
        static const char text[] = ENVIRONMENT("a") "  memoryMB: 1768\n";
        struct loaded loaded;
        struct manifest_file file = { .name = FOLDER "x/a.yaml", .length = sizeof(text) - 1 };
        char *bytes = malloc(sizeof(text) - 1);

        (void)state;
        assert_non_null(bytes);
        memcpy(bytes, text, sizeof(text) - 1);
        file.bytes = bytes;
        loaded_begin(&loaded);
        load_files(&loaded, &file, 1);
        free(bytes);
        assert_int_equal(loaded.err.kind, ERROR_DIAGNOSED);
        assert_string_equal(strbuf_text(&loaded.said),
                            FOLDER "x/a.yaml:6:13: memoryMB must be 1769 to 10240, found 1768\n");
        assert_string_equal(loaded.diagnostics.items[0].source_line, "  memoryMB: 1768");
        loaded_end(&loaded);
}

static void too_much(void **state) {
        struct manifest_file *files = calloc(65536, sizeof(*files));
        struct loaded loaded;
        size_t size = (size_t)16 * 1024 * 1024 + 1;
        char *bytes = malloc(size);

        (void)state;
        assert_non_null(files);
        assert_non_null(bytes);
        memset(bytes, '#', size);
        for (size_t i = 0; i < 65536; i++)
                files[i].name = "f.yaml";
        loaded_begin(&loaded);
        load_files(&loaded, files, 65536);
        assert_int_equal(loaded.result, -1);
        assert_int_equal(loaded.err.kind, ERROR_FAILED);
        files[0] = (struct manifest_file){ .name = "big.yaml", .bytes = bytes, .length = size };
        load_files(&loaded, files, 1);
        assert_int_equal(loaded.err.kind, ERROR_DIAGNOSED);
        assert_non_null(strstr(strbuf_text(&loaded.said), "big.yaml:0:0: the file is larger than 16 MiB"));
        loaded_end(&loaded);
        free(bytes);
        free(files);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(same_as_a_folder),
                cmocka_unit_test(names_and_bytes),
                cmocka_unit_test(too_much),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
