/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/shared/lineage.h"

#include "providers/aws/shared/support.h"

#include <string.h>

static void a_note_reads_as_it_was_written(void **state) {
        const struct lineage_note note = { .lineage = "U1",
                                           .stack = "research",
                                           .who = "anna@ci-7",
                                           .machine = "ci-7/0123",
                                           .folder = "/srv/team/.berth",
                                           .at = "2026-01-31T08:00:00.000Z",
                                           .taken_by = "U2" };
        const char *text = lineage_note_text(&note, arena);
        const struct lineage_note read = lineage_note_parse(text, strlen(text), arena);

        (void)state;
        assert_string_equal(text, "{\"at\":\"2026-01-31T08:00:00.000Z\",\"folder\":\"/srv/team/.berth\","
                                  "\"formatVersion\":\"1\",\"lineage\":\"U1\",\"machine\":\"ci-7/0123\","
                                  "\"stack\":\"research\",\"takenBy\":\"U2\",\"who\":\"anna@ci-7\"}");
        assert_string_equal(read.lineage, "U1");
        assert_string_equal(read.stack, "research");
        assert_string_equal(read.machine, "ci-7/0123");
        assert_string_equal(read.folder, "/srv/team/.berth");
        assert_string_equal(read.taken_by, "U2");
}

static void what_is_no_note_says_nothing(void **state) {
        static const char *const texts[] = {
                "",
                "x",
                "[]",
                "{}",
                "{\"formatVersion\":\"1\",\"lineage\":\"U1\"}",
                "{\"formatVersion\":\"2\",\"lineage\":\"U1\",\"stack\":\"s\"}",
                "{\"formatVersion\":\"1\",\"lineage\":7,\"stack\":\"s\"}",
                "{\"formatVersion\":\"1\",\"lineage\":\"U1\",\"lineage\":\"U2\",\"stack\":\"s\"}",
        };

        (void)state;
        for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
                assert_null(lineage_note_parse(texts[i], strlen(texts[i]), arena).lineage);
}

static void without_a_state_every_lineage_is_ours(void **state) {
        static const char *const taken[] = { "U0", NULL };
        struct provider provider = { 0 };

        (void)state;
        assert_true(lineage_is_ours(&provider, "U9"));
        provider.lineage = (struct lineage){ .id = "U1", .taken = taken };
        assert_true(lineage_is_ours(&provider, "U1"));
        assert_true(lineage_is_ours(&provider, "U0"));
        assert_false(lineage_is_ours(&provider, "U9"));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_note_reads_as_it_was_written),
                cmocka_unit_test(what_is_no_note_says_nothing),
                cmocka_unit_test(without_a_state_every_lineage_is_ours),
        };

        return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
