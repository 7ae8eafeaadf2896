/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kind more: its fields and its row, in this file, and nothing else. This program's table of
 * kinds stands in for schema/kind_table.c. Loading, checks, documents, order, guards, keeping and
 * reports come from the row alone.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "controller/map.h"
#include "controller/report.h"
#include "schema/fields.h"
#include "schema/loading.h"
#include "schema/reference.h"
#include "world.h"

#define KIND_NOTEBOOK ((enum kind_id)KIND_COUNT)

/* --- the row --- */

static const struct field notebook_fields[] = {
        { .name = "environment",
          .type = FIELD_TEXT,
          .required = true,
          .reference = "Environment",
          .doc = "Where it runs." },
        { .name = "readers",
          .type = FIELD_LIST,
          .maximum = 10,
          .item = &agent_name_field,
          .doc = "Who may read it." },
        { .name = "cells",
          .type = FIELD_INTEGER,
          .minimum = 1,
          .maximum = 100,
          .default_text = "1",
          .doc = "Its cells." },
        { 0 },
};

static const struct kind_reference notebook_references[] = {
        { .path = "environment", .kind = KIND_ENVIRONMENT, .orders = true, .binds = true, .late = true },
        { .path = "readers[]", .kind = KIND_AGENT, .orders = false },
        { 0 },
};

static void check_notebook(struct loading *loading, const struct draft *draft) {
        if (value_get_integer(draft->resource.spec, "cells", 0) == 13)
                problem_error(loading, draft->name, NULL, "thirteen cells bring no luck");
}

static bool is_running(const struct value *spec) {
        return value_get_integer(spec, "cells", 0) > 1;
}

static void summarise_notebook(const struct value *spec, const struct value *wish, struct strbuf *out) {
        (void)wish;
        strbuf_printf(out, "%d cells in %s", (int)value_get_integer(spec, "cells", 0),
                      value_get_text(spec, "environment"));
}

static const char *const notebook_names[] = { "nb", NULL };

static const struct kind notebook_kind = {
        .id = KIND_NOTEBOOK,
        .name = "Notebook",
        .short_names = notebook_names,
        .doc = "Cells that run one after the other.",
        .fields = notebook_fields,
        .managed = true,
        .lane = 17,
        .references = notebook_references,
        .instead_of_replacing = "copy it",
        .check = check_notebook,
        .needs_binding = is_running,
        .summarise = summarise_notebook,
};

const struct kind *const kinds[] = {
        &stack_kind, &resource_range_kind, &image_kind,      &environment_kind, &workspace_policy_kind,
        &agent_kind, &swarm_kind,          &controller_kind, &server_kind,      &notebook_kind,
};
const size_t kind_count = sizeof(kinds) / sizeof(kinds[0]);

/* What a provider would add: its table. */
WORLD_KIND(notebook, KIND_NOTEBOOK);

#define STACK "apiVersion: berth/v1\nkind: Stack\nmetadata: {name: lab}\nspec: {}\n---\n"
#define NOTEBOOK(name, spec) \
        "apiVersion: berth/v1\nkind: Notebook\nmetadata: {name: " name "}\nspec: {" spec "}\n---\n"

/* --- what comes of it --- */

static const char *diagnose(struct bench *bench, const char *yaml) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        const struct manifest_file file = { .name = "m.yaml", .bytes = yaml, .length = strlen(yaml) };
        struct load_options options = { .missing_environments = false };
        struct diagnostics diagnostics;
        struct error err;

        diagnostics_init(&diagnostics, bench->arena);
        if (manifests_load_files("here", &file, 1, &options, bench->arena, &bench->manifests, &diagnostics,
                                 &err) < 0)
                assert_int_equal(err.kind, ERROR_DIAGNOSED);
        diagnostics_sort(&diagnostics);
        for (size_t i = 0; i < diagnostics.count; i++)
                strbuf_printf(&text, "%s%s", i ? "; " : "", diagnostics.items[i].message);
        return arena_strdup(bench->arena, strbuf_text(&text));
}

static void test_it_is_loaded_and_checked(void **state) {
        struct bench *bench = *state;

        assert_string_equal(diagnose(bench, ENVIRONMENT("a", "") NOTEBOOK("n", "environment: a")), "");
        assert_string_equal(diagnose(bench, ENVIRONMENT("a", "") NOTEBOOK("n", "environment: b")),
                            "no Environment is named \"b\"");
        assert_string_equal(diagnose(bench, ENVIRONMENT("a", "") AGENT("x", "a")
                                                    NOTEBOOK("n", "environment: a, readers: [x, y]")),
                            "no Agent is named \"y\"");
        assert_string_equal(diagnose(bench, ENVIRONMENT("a", "") NOTEBOOK("n", "environment: a, cells: 13")),
                            "thirteen cells bring no luck");
        assert_string_equal(diagnose(bench, ENVIRONMENT("a", "") NOTEBOOK("n", "environment: a, cells: 101")),
                            "cells must be 1 to 100, found 101");
        assert_non_null(strstr(diagnose(bench, "apiVersion: berth/v1\nkind: Notebok\nmetadata: {name: n}\n"),
                               "unknown kind"));
}

static void test_people_find_it(void **state) {
        struct strbuf names STRBUF_CLEANUP = STRBUF_INIT;
        json_t *schema JSON_CLEANUP = schema_json(NULL);
        char *page = NULL;
        size_t length;
        FILE *stream = open_memstream(&page, &length);

        (void)state;
        assert_ptr_equal(kind_find("Notebook"), &notebook_kind);
        assert_ptr_equal(kind_find_loosely("notebooks"), &notebook_kind);
        assert_ptr_equal(kind_find_loosely("NB"), &notebook_kind);
        assert_string_equal(kind_nearest("Notbook"), "Notebook");
        kind_append_names(&names);
        assert_non_null(strstr(strbuf_text(&names), ", Swarm and Notebook"));
        assert_non_null(json_object_get(json_object_get(schema, "$defs"), "Notebook"));
        assert_non_null(stream);
        reference_markdown(stream);
        fclose(stream);
        assert_non_null(strstr(page, "## Notebook"));
        free(page);
}

static void test_it_is_ordered_and_guarded(void **state) {
        struct bench *bench = *state;
        const char *both =
                STACK ENVIRONMENT("a", "") ENVIRONMENT("b", "") NOTEBOOK("n", "environment: a, cells: 2");
        struct subject *subject;
        static const char *const only_notebook[] = { "Notebook/n" };
        static const struct allowance allowed = { .id = "has-dependents" };

        /* Made after what it names, which comes along where only it is asked for. */
        bench->args.targets = only_notebook;
        bench->args.target_count = 1;
        bench_must_plan(bench, both);
        assert_string_equal(bench_line(bench), "create Stack/lab; create Environment/a; create Notebook/n");
        bench->args.target_count = 0;
        bench_apply(bench, both);
        subject = plan_subject(&bench->plan, "Notebook/n");
        assert_int_equal(subject->change->depends_on_count, 2);
        assert_string_equal(subject->change->depends_on[0], "Stack/lab");
        assert_string_equal(subject->change->depends_on[1], "Environment/a");
        assert_int_equal(bench->result.done, 4);

        /* In use, the environment stays; re-pointed in the same plan, it goes after the notebook has let go. */
        bench_must_plan(bench, STACK ENVIRONMENT("b", "") NOTEBOOK("n", "environment: a, cells: 2"));
        assert_string_equal(bench_line(bench), "delete Environment/a !has-dependents");
        assert_string_equal(plan_subject(&bench->plan, "Environment/a")->change->refusals[0].dependents[0],
                            "Notebook/n");
        bench_must_plan(bench, STACK ENVIRONMENT("b", "") NOTEBOOK("n", "environment: b, cells: 2"));
        assert_string_equal(bench_line(bench), "update Notebook/n(environment); delete Environment/a");
        assert_string_equal(plan_subject(&bench->plan, "Environment/a")->change->depends_on[0], "Notebook/n");

        /* And what cannot work without it keeps it, whatever else is allowed. */
        bench->args.allowances = &allowed;
        bench->args.allowance_count = 1;
        bench_must_plan(bench, STACK ENVIRONMENT("b", "") NOTEBOOK("n", "environment: a, cells: 2"));
        assert_string_equal(bench_line(bench), "delete Environment/a !inactive-specialist");
        bench->args.allowance_count = 0;
}

static void test_the_state_knows_it_and_reports_name_it(void **state) {
        struct bench *bench = *state;
        struct map map;
        struct error err;
        char *text = NULL;
        size_t length;
        FILE *stream = open_memstream(&text, &length);
        json_t *json;

        assert_non_null(stream);
        bench_apply(bench, STACK ENVIRONMENT("a", "") NOTEBOOK("n", "environment: a, cells: 7"));
        report_plan_text(&bench->plan, &(struct report_style){ 0 }, stream);
        fclose(stream);
        assert_non_null(strstr(text, "Notebook/n"));
        assert_non_null(strstr(text, "7 cells in a"));
        free(text);
        json = report_plan_json(&bench->plan);
        text = json_dumps(json, JSON_COMPACT);
        assert_non_null(strstr(text, "\"Notebook/n\""));
        free(text);
        json_decref(json);

        assert_int_equal(map_load(bench->state, "a", bench->arena, &map, &err), 0);
        assert_int_equal(map.environments[0].dependent_count, 1);
        assert_string_equal(map.environments[0].dependents[0].address, "Notebook/n");
        bench_must_plan(bench, STACK ENVIRONMENT("a", "") NOTEBOOK("n", "environment: a, cells: 7"));
        assert_string_equal(bench_line(bench), "");
        bench->args.destroy = true;
        bench_must_plan(bench, STACK ENVIRONMENT("a", "") NOTEBOOK("n", "environment: a, cells: 7"));
        assert_string_equal(bench_line(bench), "delete Notebook/n; delete Environment/a; delete Stack/lab");
}

static int set_up(void **state) {
        world_added = &ops_notebook;
        return bench_set_up(state);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, bench_tear_down)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(test_it_is_loaded_and_checked),
                TEST(test_people_find_it),
                TEST(test_it_is_ordered_and_guarded),
                TEST(test_the_state_knows_it_and_reports_name_it),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
