/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/images/prebuilt.h"

#include "base/text.h"
#include "schema/kind.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_every_recipe_is_whole(void **state) {
        (void)state;
        for (const struct prebuilt *row = prebuilt_table; row->name; row++) {
                const struct prebuilt *found = NULL;
                struct error err;

                assert_int_equal(prebuilt_find(row->name, &found, &err), 0);
                assert_ptr_equal(found, row);
                assert_non_null(row->doc);
                assert_non_null(row->suite);
                assert_true(row->dated_s > 0);
                assert_non_null(row->packages[0]);
                assert_non_null(row->command[0]);
                for (const char *const *at = row->kept_out; *at; at++)
                        assert_true(strncmp(*at, "path-exclude=/", 14) == 0 ||
                                    strncmp(*at, "path-include=/", 14) == 0);
                for (const char *const *at = row->variables; *at; at++)
                        assert_non_null(strchr(*at, '='));
                /* Lists go into one word, separated by commas, and into a shell's single quotes. */
                for (const char *const *at = row->packages; *at; at++)
                        assert_null(strpbrk(*at, ", '\""));
                for (const char *const *at = row->removed; *at; at++)
                        assert_null(strpbrk(*at, " '\""));
        }
}

/* validate, which asks no server, knows the names that can be built. */
static void test_manifests_know_the_recipes(void **state) {
        const struct field *field = kind_field(kinds[KIND_ENVIRONMENT], "image.prebuilt");
        size_t recipes = 0, known = 0;

        (void)state;
        assert_non_null(field);
        for (const struct prebuilt *row = prebuilt_table; row->name; row++, recipes++)
                assert_true(text_is_among(row->name, field->known));
        while (field->known[known])
                known++;
        assert_int_equal(known, recipes);
}

static void test_unknown_names(void **state) {
        static const struct {
                const char *name, *says;
        } cases[] = {
                { "pyton", "did you mean python?" },
                { "node", "there are: python (Debian 12" },
                { "", "there are: python" },
                { "python:latest", "no recipe for an image \"python:latest\"" },
                { "../python", "no recipe" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                const struct prebuilt *found = NULL;
                struct error err = { 0 };

                assert_int_equal(prebuilt_find(cases[i].name, &found, &err), -1);
                assert_int_equal(err.kind, ERROR_NOT_FOUND);
                assert_non_null(strstr(err.message, cases[i].says));
                assert_null(strchr(err.message, '\n'));
                assert_null(found);
        }
}

static void test_the_script(void **state) {
        static const char *const nothing[] = { NULL };
        static const char *const removed[] = { "*-dev", "gcc", NULL };
        struct prebuilt recipe = { .removed = nothing };
        struct arena *arena = arena_new();

        (void)state;
        assert_string_equal(prebuilt_script(&recipe, arena), "set -e\n");
        recipe.finish = "true\n";
        assert_string_equal(prebuilt_script(&recipe, arena), "set -e\ntrue\n");
        recipe.removed = removed;
        assert_string_equal(prebuilt_script(&recipe, arena),
                            "set -e\n"
                            "set -- $(dpkg-query -W -f '${Package}\\n' '*-dev' 'gcc' 2>/dev/null | sort -u)\n"
                            "[ $# -eq 0 ] || dpkg --force-depends --purge \"$@\" 2>&1\n"
                            "true\n");
        arena_free(arena);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_every_recipe_is_whole),
                cmocka_unit_test(test_manifests_know_the_recipes),
                cmocka_unit_test(test_unknown_names),
                cmocka_unit_test(test_the_script),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
