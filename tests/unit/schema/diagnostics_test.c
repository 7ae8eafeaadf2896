/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/diagnostics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* NOLINTBEGIN(misc-misleading-bidirectional): that they mislead no reader is tested */
static const struct {
        struct diagnostic diagnostic;
        const char *text;
} cases[] = {
        { { .file = "agents.yaml",
            .line = 12,
            .column = 17,
            .message = "memoryMB must be 1769 to 10240, found 1768",
            .source_line = "      memoryMB: 1768",
            .span = 4,
            .hint = "more" },
          "agents.yaml:12:17: error: memoryMB must be 1769 to 10240, found 1768\n"
          "     12 |       memoryMB: 1768\n"
          "        |                 ^~~~\n"
          "        = more\n" },
        { { .severity = SEVERITY_WARNING, .file = "a.yaml", .message = "empty", .span = 1 },
          "a.yaml: warning: empty\n" },
        { { .message = "nowhere" }, "error: nowhere\n" },
        /* Wide and combining characters: the caret stands under the column on the screen. */
        { { .file = "a",
            .line = 1,
            .column = 4,
            .message = "m",
            .source_line = "\xE6\xBC\xA2 \xC3\xA4x y",
            .span = 1 },
          "a:1:4: error: m\n"
          "      1 | \xE6\xBC\xA2 \xC3\xA4x y\n"
          "        |     ^\n" },
        { { .file = "a", .line = 1, .column = 2, .message = "m", .source_line = "\tx\x1B[31m", .span = 1 },
          "a:1:2: error: m\n"
          "      1 |  x\\x1B[31m\n"
          "        |  ^\n" },
        /* Nothing turns the quoted line around; the caret stands under what is shown. */
        { { .file = "a",
            .line = 1,
            .column = 2,
            .message = "found \xE2\x80\xAEz",
            .source_line = "\xE2\x80\xAEx\xE2\x80\x8By \xFF z",
            .span = 3 },
          "a:1:2: error: found \\u202Ez\n"
          "      1 | \\u202Ex\\u200By \\xFF z\n"
          "        |       ^~~~~~~~\n" },
        /* Behind the line's end. */
        { { .file = "a", .line = 1, .column = 4, .message = "m", .source_line = "abc", .span = 1 },
          "a:1:4: error: m\n"
          "      1 | abc\n"
          "        |    ^\n" },
        { { .file = "a", .line = 3, .column = 1, .message = "m", .source_line = "", .span = 1 },
          "a:3:1: error: m\n"
          "      3 | \n"
          "        | ^\n" },
        /* Text from outside cannot drive the terminal. */
        { { .file = "a\x1B[2J", .line = 0, .message = "found \x1B[31m", .hint = "b\nc" },
          "a\\x1B[2J: error: found \\x1B[31m\n"
          "        = b\\x0Ac\n" },
};
/* NOLINTEND(misc-misleading-bidirectional) */

static int begin(void **state) {
        struct arena *arena = arena_new();
        struct diagnostics *diagnostics = arena_alloc(arena, sizeof(*diagnostics));

        diagnostics_init(diagnostics, arena);
        *state = diagnostics;
        return 0;
}

static int end(void **state) {
        const struct diagnostics *diagnostics = *state;

        arena_free(diagnostics->arena);
        return 0;
}

/* To be released with free(). The caller's pointer: gcc takes one of this function's own for dangling, once inlined. */
static void print(const struct diagnostics *diagnostics, char **ret) {
        size_t length;
        FILE *stream = open_memstream(ret, &length);

        diagnostics_print(diagnostics, stream);
        assert_int_equal(fclose(stream), 0);
}

static void printing(void **state) {
        struct diagnostics *diagnostics = *state;

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                char *text;

                diagnostics_init(diagnostics, diagnostics->arena);
                diagnostics_add(diagnostics, cases[i].diagnostic);
                print(diagnostics, &text);
                assert_string_equal(text, cases[i].text);
                free(text);
        }
}

/* Of a line of ten thousand characters the part around the place is shown. */
static void long_lines(void **state) {
        struct diagnostics *diagnostics = *state;
        char *line = arena_alloc(diagnostics->arena, 10001), *text, *source, *caret;

        memset(line, '.', 10000);
        line[5000] = 'X';
        diagnostics_add(diagnostics, (struct diagnostic){ .file = "a",
                                                          .line = 1,
                                                          .column = 5001,
                                                          .message = "m",
                                                          .source_line = line,
                                                          .span = 1 });
        print(diagnostics, &text);
        assert_true(strlen(text) < 300);
        source = strstr(text, "| ...");
        assert_non_null(source);
        caret = strchr(strchr(source, '\n'), '|');
        assert_int_equal(strchr(source, 'X') - source, strchr(caret, '^') - caret);
        free(text);
}

static void sorting(void **state) {
        struct diagnostics *diagnostics = *state;
        static const struct diagnostic items[] = {
                { .file = "b", .line = 1, .column = 1, .message = "5" },
                { .file = "a", .line = 10, .column = 1, .message = "4" },
                { .file = "a", .line = 9, .column = 2, .message = "3" },
                { .file = "a", .line = 9, .column = 1, .message = "2", .severity = SEVERITY_WARNING },
                { .file = "a", .line = 9, .column = 1, .message = "1" },
                { .message = "0" },
        };

        for (size_t i = 0; i < 100; i++)
                diagnostics_add(diagnostics, items[i % 6]);
        diagnostics_sort(diagnostics);
        for (size_t i = 1; i < 100; i++)
                assert_true(diagnostics->items[i - 1].message[0] <= diagnostics->items[i].message[0]);
        assert_int_equal(diagnostics->count, 100);
        assert_int_equal(diagnostics->errors, 83);
}

/* A file's name may be any bytes. */
static void names_beyond_utf8(void **state) {
        struct diagnostics *diagnostics = *state;
        json_t *json, *item;
        char *text;

        diagnostics_add(diagnostics, (struct diagnostic){ .file = "\xE4/\xC3\xA4.yaml",
                                                          .line = 1,
                                                          .column = 2,
                                                          .message = "first at \xE4.yaml",
                                                          .hint = "\xFF?" });
        print(diagnostics, &text);
        assert_string_equal(text, "\\xE4/\xC3\xA4.yaml:1:2: error: first at \\xE4.yaml\n"
                                  "        = \\xFF?\n");
        free(text);
        json = diagnostics_to_json(diagnostics);
        item = json_array_get(json, 0);
        assert_string_equal(json_string_value(json_object_get(item, "file")), "\\xE4/\xC3\xA4.yaml");
        assert_string_equal(json_string_value(json_object_get(item, "message")), "first at \\xE4.yaml");
        assert_string_equal(json_string_value(json_object_get(item, "hint")), "\\xFF?");
        json_decref(json);
}

static void as_data(void **state) {
        struct diagnostics *diagnostics = *state;
        json_t *json, *item;

        diagnostics_add(diagnostics, cases[0].diagnostic);
        diagnostics_add(diagnostics, cases[1].diagnostic);
        json = diagnostics_to_json(diagnostics);
        assert_int_equal(json_array_size(json), 2);
        item = json_array_get(json, 0);
        assert_string_equal(json_string_value(json_object_get(item, "severity")), "error");
        assert_string_equal(json_string_value(json_object_get(item, "file")), "agents.yaml");
        assert_int_equal(json_integer_value(json_object_get(item, "line")), 12);
        assert_int_equal(json_integer_value(json_object_get(item, "column")), 17);
        assert_string_equal(json_string_value(json_object_get(item, "hint")), "more");
        assert_true(json_is_null(json_object_get(item, "address")));
        item = json_array_get(json, 1);
        assert_string_equal(json_string_value(json_object_get(item, "severity")), "warning");
        assert_true(json_is_null(json_object_get(item, "line")));
        json_decref(json);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(printing, begin, end),
                cmocka_unit_test_setup_teardown(long_lines, begin, end),
                cmocka_unit_test_setup_teardown(sorting, begin, end),
                cmocka_unit_test_setup_teardown(as_data, begin, end),
                cmocka_unit_test_setup_teardown(names_beyond_utf8, begin, end),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
