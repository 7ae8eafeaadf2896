/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/workspace/layout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void keys(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();

        (void)state;
        assert_string_equal(layout_file("s-1", "a b/c.txt", arena),
                            "workspaces/sessions/s-1/workspace/a b/c.txt");
        assert_string_equal(layout_transfer("s-1", 12, arena), "workspaces/sessions/s-1/transfer/12/");
        assert_string_equal(layout_checkpoint("s-1", 12, arena),
                            "workspaces/sessions/s-1/transfer/12/checkpoint");
        assert_string_equal(layout_index("s-1", arena), "workspaces/index/s-1");
        assert_string_equal(layout_tag_header("py-1", arena), "berth%3Aenvironment=py-1");
        assert_string_equal(
                layout_tag_xml("py-1", arena),
                "<Tagging><TagSet><Tag><Key>berth:environment</Key><Value>py-1</Value></Tag></TagSet></Tagging>");
}

static void rows(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *owner = layout_owner("lab", "team/ann", arena);
        const struct layout_row rows[] = {
                { .id = "s-1",
                  .environment = "py",
                  .agent = "helper",
                  .created_ms = 1700000000000,
                  .first = true,
                  .lives_until_ms = 5 },
                { .id = "s-2", .environment = "py", .created_ms = 1700000000000, .megabytes = 12 },
        };

        (void)state;
        for (size_t i = 0; i < 2; i++) {
                const char *key = layout_row_key("lab", "team/ann", &rows[i], arena);
                struct layout_row row;

                assert_true(layout_row_read(owner, key, arena, &row));
                assert_string_equal(row.id, rows[i].id);
                assert_string_equal(row.environment, "py");
                assert_int_equal(row.agent == NULL, rows[i].agent == NULL);
                assert_int_equal(row.created_ms, rows[i].created_ms);
                assert_int_equal(row.megabytes, rows[i].megabytes);
                assert_int_equal(row.first, rows[i].first);
                assert_int_equal(row.lives_until_ms, rows[i].lives_until_ms);
        }
        assert_string_not_equal(owner, layout_owner("lab", "team/bob", arena));
        assert_string_not_equal(owner, layout_owner("lab2", "team/ann", arena));
}

static void rows_that_make_no_sense(void **state) {
        static const char *const rest[] = { "",
                                            "s-1",
                                            "s-1/py/-/1/2",
                                            "s-1/py/-/1/2/3/4",
                                            "s-1/py/-/x/2/3",
                                            "s-1/py/-/1/-2/3",
                                            "s-1/py/-/1/2/",
                                            "/py/-/1/2/3",
                                            "s-1//-/1/2/3",
                                            "s-1/py/-/1/9999999999999999999/3",
                                            "s-1/py/-/1/made/x",
                                            "s-1/py/-/1/mad/3" };
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct layout_row row;

        (void)state;
        for (size_t i = 0; i < sizeof(rest) / sizeof(rest[0]); i++)
                assert_false(layout_row_read("o/", arena_printf(arena, "o/%s", rest[i]), arena, &row));
        assert_false(layout_row_read("o/", "p/s-1/py/-/1/2", arena, &row));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(keys),
                cmocka_unit_test(rows),
                cmocka_unit_test(rows_that_make_no_sense),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
