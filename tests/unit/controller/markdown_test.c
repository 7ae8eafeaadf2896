/* SPDX-License-Identifier: Apache-2.0 */
/* Comments for pull requests: what is escaped, what comes first, what is folded, and what is cut. */
#include "controller/markup.h"
#include "controller/report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* NOLINTBEGIN(misc-misleading-bidirectional) */
static void texts(void **state) {
        static const struct {
                const char *text, *markup;
        } cases[] = {
                { "", "" },
                { "used by 2 agents; (see below): x-y, z. Why?",
                  "used by 2 agents; &#40;see below&#41;&#58; x-y, z. Why?" },
                { "isn't \"it\"", "isn&#39;t &#34;it&#34;" },
                { "Environment/x is", "<code>Environment/x</code> is" },
                { "ask @team #12 :tada: **now**",
                  "ask <code>&#64;team</code> <code>&#35;12</code> <code>&#58;tada&#58;</code> "
                  "<code>&#42;&#42;now&#42;&#42;</code>" },
                { "https://evil.example www.evil.example a@b",
                  "<code>https&#58;//evil.example</code> <code>www.evil.example</code> <code>a&#64;b</code>" },
                { "<img src=x>|`", "<code>&#60;img</code> <code>src=x&#62;&#124;&#96;</code>" },
                { "one\ntwo\r\n  docker push a|b\n", "one<br>two<br><code>docker push a&#124;b</code>" },
                { "a  b", "a  b" },
                { "\x1B[31m \xE2\x80\xAE \xC3\xA4 \xFF",
                  "<code>&#92;x1B&#91;31m</code> <code>&#92;u202E</code> <code>\xC3\xA4</code> <code>&#92;xFF</code>" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct strbuf markup STRBUF_CLEANUP = STRBUF_INIT;

                markup_text(&markup, cases[i].text);
                assert_string_equal(strbuf_text(&markup), cases[i].markup);
        }
}

/* NOLINTEND(misc-misleading-bidirectional) */

static void code(void **state) {
        static const struct {
                const char *text;
                size_t most;
                const char *markup;
        } cases[] = {
                { "memoryMB", 0, "<code>memoryMB</code>" },
                { "</code><b>", 0, "<code>&#60;/code&#62;&#60;b&#62;</code>" },
                { "a\nb", 0, "<code>a&#92;x0Ab</code>" },
                { "abcdef", 6, "<code>abcdef</code>" },
                { "abcdefg", 6, "<code>abcdef</code>&nbsp;\xE2\x80\xA6 (7 bytes)" },
                { "abcd\xC3\xA4\xC3\xA4", 5, "<code>abcd</code>&nbsp;\xE2\x80\xA6 (8 bytes)" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct strbuf markup STRBUF_CLEANUP = STRBUF_INIT;

                markup_code(&markup, cases[i].text, cases[i].most);
                assert_string_equal(strbuf_text(&markup), cases[i].markup);
        }
}

struct desk {
        struct arena *arena;
        struct plan plan;
        char *out;
        size_t length;
};

static const char *render(struct desk *desk) {
        FILE *stream;

        free(desk->out);
        stream = open_memstream(&desk->out, &desk->length);
        assert_non_null(stream);
        report_plan_markdown(&desk->plan, stream);
        assert_int_equal(fclose(stream), 0);
        return desk->out;
}

static int set_up(void **state) {
        struct desk *desk = calloc(1, sizeof(*desk));

        assert_non_null(desk);
        desk->arena = arena_new();
        desk->plan = (struct plan){ .stack_name = "lab",
                                    .provider_name = "aws",
                                    .identity = { "123456789012", "eu-west-1", NULL } };
        *state = desk;
        return 0;
}

static int tear_down(void **state) {
        struct desk *desk = *state;

        arena_free(desk->arena);
        free(desk->out);
        free(desk);
        return 0;
}

static const struct value *text_value(struct desk *desk, const char *text) {
        struct value *value = arena_alloc(desk->arena, sizeof(*value));

        *value = value_text(desk->arena, text);
        return value;
}

/* `count` changes named PREFIX0, PREFIX1 ... with `fields` fields each. */
static void add_changes(struct desk *desk, const char *prefix, enum action action, size_t count,
                        size_t fields) {
        struct plan *plan = &desk->plan;
        struct change **list = arena_array(desk->arena, plan->change_count + count, sizeof(*list));

        for (size_t i = 0; i < plan->change_count; i++)
                list[i] = plan->changes[i];
        for (size_t i = 0; i < count; i++) {
                struct change *change = arena_alloc(desk->arena, sizeof(*change));

                *change =
                        (struct change){ .address = arena_printf(desk->arena, "Environment/%s%zu", prefix, i),
                                         .action = action,
                                         .fields = arena_array(desk->arena, fields + 1,
                                                               sizeof(*change->fields)),
                                         .field_count = fields };
                for (size_t k = 0; k < fields; k++)
                        change->fields[k] = (struct field_change){
                                .path = arena_printf(desk->arena, "field%zu", k),
                                .before = text_value(desk, "one"),
                                .after = text_value(desk, "two"),
                        };
                list[plan->change_count + i] = change;
        }
        plan->changes = list;
        plan->change_count += count;
}

static struct refusal *refuse(struct desk *desk, struct change *change, size_t dependents) {
        struct refusal *refusal = arena_alloc(desk->arena, sizeof(*refusal));

        *refusal = (struct refusal){ .id = "has-dependents",
                                     .message = "it is used",
                                     .remedy = "point them elsewhere",
                                     .dependents = arena_array(desk->arena, dependents + 1, sizeof(char *)),
                                     .dependent_count = dependents };
        for (size_t i = 0; i < dependents; i++)
                refusal->dependents[i] = arena_printf(desk->arena, "Agent/a%zu", i);
        change->refusals = refusal;
        change->refusal_count = 1;
        desk->plan.summary.refused++;
        return refusal;
}

static size_t times(const char *text, const char *part) {
        size_t count = 0;

        for (const char *at = text; (at = strstr(at, part)); at++)
                count++;
        return count;
}

static void nothing_to_do(void **state) {
        struct desk *desk = *state;

        desk->plan.summary.unchanged = 1;
        assert_string_equal(render(desk),
                            "### Berth plan: <code>lab</code> on aws <code>123456789012</code> "
                            "<code>eu-west-1</code>\n\nNothing to do: 1 resource is as declared.\n"
                            "\n<!-- berth plan lab -->\n");
        desk->plan.identity = (struct caller_identity){ "lab-host", "local", NULL };
        desk->plan.provider_name = "local";
        assert_non_null(strstr(render(desk), "on local <code>lab-host</code>\n\n"));
}

static void refusals_come_first(void **state) {
        struct desk *desk = *state;
        const char *out;

        add_changes(desk, "x", ACTION_UPDATE, 1, 2);
        add_changes(desk, "gone", ACTION_DELETE, 1, 0);
        refuse(desk, desk->plan.changes[1], 2);
        desk->plan.summary.update = 1;
        desk->plan.summary.delete = 1;
        out = render(desk);
        assert_non_null(strstr(
                out, "**1 to update, 1 to delete, 1 of them refused**\n\n"
                     "#### Refused: a person has to decide\n\n"
                     "- delete <code>Environment/gone0</code>: **has-dependents**: it is used"
                     "<br>Used by: <code>Agent/a0</code>, <code>Agent/a1</code>"
                     "<br>What helps: point them elsewhere\n\n"
                     "#### Changes\n\n| change | resource | what |\n|---|---|---|\n"
                     "| update | <code>Environment/x0</code> | <code>field0</code>, <code>field1</code> |\n"
                     "| delete (refused) | <code>Environment/gone0</code> |  |\n\n"
                     "#### Fields\n\n"));
        assert_non_null(strstr(out,
                               "| <code>Environment/x0</code> | <code>field0</code> | <code>one</code> | "
                               "<code>two</code> |\n"));
        assert_null(strstr(out, "<details>"));
}

static void many_dependents_are_counted(void **state) {
        struct desk *desk = *state;

        add_changes(desk, "gone", ACTION_DELETE, 1, 0);
        refuse(desk, desk->plan.changes[0], 500);
        assert_non_null(strstr(render(desk), "<code>Agent/a19</code> and 480 more<br>"));
        assert_null(strstr(desk->out, "Agent/a20<"));
}

static void long_tables_are_folded(void **state) {
        struct desk *desk = *state;
        const char *out;

        add_changes(desk, "x", ACTION_UPDATE, 26, 1);
        out = render(desk);
        assert_non_null(strstr(out, "\n<details><summary>Changes (26)</summary>\n\n| change |"));
        assert_non_null(strstr(out, "\n<details><summary>Fields (26)</summary>\n\n| resource |"));
        assert_int_equal(times(out, "<details>"), 2);
        assert_int_equal(times(out, "\n</details>\n"), 2);
}

static void secrets_and_long_values(void **state) {
        struct desk *desk = *state;
        char text[4096];
        const char *out;

        memset(text, 'v', sizeof(text));
        text[sizeof(text) - 1] = '\0';
        add_changes(desk, "x", ACTION_UPDATE, 1, 3);
        desk->plan.changes[0]->fields[0].sensitive = true;
        desk->plan.changes[0]->fields[0].before = text_value(desk, "hunter2");
        desk->plan.changes[0]->fields[1].before = NULL;
        desk->plan.changes[0]->fields[2].after = text_value(desk, text);
        out = render(desk);
        assert_null(strstr(out, "hunter2"));
        assert_non_null(strstr(out, "| sensitive | sensitive |\n"));
        assert_non_null(strstr(out, "| none | <code>two</code> |\n"));
        assert_non_null(strstr(out, "v</code>&nbsp;\xE2\x80\xA6 (4095 bytes) |\n"));
        assert_true(desk->length < 2000);
}

static void a_comment_has_its_limit(void **state) {
        static const size_t counts[] = { 300, 320, 340, 400, 1000, 10000 };
        struct desk *desk = *state;

        for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
                const char *out;
                size_t changes, fields;

                desk->plan.change_count = 0;
                add_changes(desk, "x", ACTION_UPDATE, counts[i], 1);
                for (size_t k = 0; k < counts[i] / 2; k++)
                        refuse(desk, desk->plan.changes[k], 30);
                desk->plan.warnings = (const char *[]){ "last of all" };
                desk->plan.warning_count = 1;
                out = render(desk);
                assert_true(desk->length <= 65536);
                assert_true(desk->length > 60000);
                /* Whole rows, whole tables, and how many are not there. */
                changes = times(out, "\n| update");
                fields = times(out, "\n| <code>Environment/");
                assert_true(changes + fields < 2 * counts[i]);
                assert_true(times(out, " more are not shown: a comment has no room for them.**") >= 1);
                assert_int_equal(times(out, "<details>"), times(out, "</details>"));
                assert_string_equal(out + desk->length - strlen("<!-- berth plan lab -->\n"),
                                    "<!-- berth plan lab -->\n");
                assert_int_equal(times(out, "<code>"), times(out, "</code>"));
        }
}

static void drift_and_warnings(void **state) {
        struct desk *desk = *state;
        struct field_change field = { .path = "memoryMB" };
        struct drift drifts[] = { { .address = "Environment/a", .gone = true },
                                  { .address = "Environment/b", .fields = &field, .field_count = 1 } };
        const char *warnings[] = { "the clock is @wrong" };

        desk->plan.drifts = drifts;
        desk->plan.drift_count = 2;
        desk->plan.warnings = warnings;
        desk->plan.warning_count = 1;
        assert_non_null(
                strstr(render(desk),
                       "\n#### Drift: changed outside of Berth\n\n- <code>Environment/a</code> is gone\n"
                       "- <code>Environment/b</code>: <code>memoryMB</code>\n\n#### Warnings\n\n"
                       "- the clock is <code>&#64;wrong</code>\n"));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(texts),
                cmocka_unit_test(code),
                cmocka_unit_test_setup_teardown(nothing_to_do, set_up, tear_down),
                cmocka_unit_test_setup_teardown(refusals_come_first, set_up, tear_down),
                cmocka_unit_test_setup_teardown(many_dependents_are_counted, set_up, tear_down),
                cmocka_unit_test_setup_teardown(long_tables_are_folded, set_up, tear_down),
                cmocka_unit_test_setup_teardown(secrets_and_long_values, set_up, tear_down),
                cmocka_unit_test_setup_teardown(a_comment_has_its_limit, set_up, tear_down),
                cmocka_unit_test_setup_teardown(drift_and_warnings, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
