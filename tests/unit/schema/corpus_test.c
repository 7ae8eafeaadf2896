/* SPDX-License-Identifier: Apache-2.0 */
/* Every seed of the fuzzer as a plain test: what is named good loads, what is named bad is diagnosed. */
#include "support.h"

#include "base/json.h"

#include <dirent.h>

#define CORPUS TEST_DATA "/corpus"

static void load_seed(const char *name) {
        static const struct load_options options = { 0 };
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct diagnostics diagnostics;
        struct manifests manifests;
        struct error err = { 0 };
        char *path = path_join(CORPUS, name), *text = NULL;
        size_t length;
        FILE *stream = open_memstream(&text, &length);
        int result;

        diagnostics_init(&diagnostics, arena);
        result = manifests_load(path, &options, arena, &manifests, &diagnostics, &err);
        diagnostics_print(&diagnostics, stream);
        assert_int_equal(fclose(stream), 0);
        json_decref(diagnostics_to_json(&diagnostics));
        if (strncmp(name, "bad-", 4) == 0 ? result == 0 || diagnostics.errors == 0 : result != 0)
                fail_msg("%s: %d, %s\n%s", name, result, err.message, text);
        /* Not one of them quotes a line without saying where. */
        for (size_t i = 0; i < diagnostics.count; i++)
                assert_false(diagnostics.items[i].source_line && diagnostics.items[i].column == 0);
        free(text);
        free(path);
}

static void seeds(void **state) {
        DIR *folder = opendir(CORPUS);
        const struct dirent *entry;
        size_t count = 0;

        (void)state;
        assert_non_null(folder);
        while ((entry = readdir(folder))) {
                if (entry->d_name[0] == '.')
                        continue;
                load_seed(entry->d_name);
                count++;
        }
        closedir(folder);
        assert_true(count > 20);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(seeds),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
